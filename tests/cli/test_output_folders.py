"""A command that writes a folder refuses the name of a picture or a video, before any work."""

from __future__ import annotations

import pytest

from sightline import cli
from sightline.errors import SightlineError
from sightline.files import atomic_folder, require_folder_name


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "inspect matrix", "generate", "generate --dry-run", "evaluate compare a b", "evaluate standard", "evaluate beyond",
        "evaluate revisit", "evaluate efficiency", "evaluate vbench a", "data preview --style orbit", "study run debug", "studio",
        "bench --tiny", "train debug", "lab vae", "lab text", "lab unpack",
    ],
)  # fmt: skip
def test_the_name_of_a_picture_is_no_folder(command, tmp_path, capsys):
    output = "--output" if command == "train debug" else "-o"
    assert cli.main([*command.split(), output, "look.png"]) == cli.FAULT
    expected = "output look.png has the suffix of a picture or video: expected a folder, such as look."
    assert expected in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_other_names_and_folders_that_exist_are_folders(tmp_path):
    for name in ("films", "v1.2", "scenes.old"):
        assert require_folder_name(name).name == name
    (tmp_path / "earlier.mp4").mkdir()
    require_folder_name(tmp_path / "earlier.mp4")
    with pytest.raises(SightlineError, match="expected a folder, such as film"), atomic_folder("film.MP4"):
        pass
    assert not (tmp_path / "film.MP4").exists()
