"""Bad input to the data verbs: one sentence, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.cli import main
from sightline.data.sources import open_source
from sightline.errors import SightlineError


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["preview", "worlds:walkthrough", "--clips", "-1"], "clips is -1"),
        (["preview", "--style", "walkthrough", "--num-frames", "6"], "frames is 6: expected 4 k + 1"),
        (["preview", "--style", "walkthrough", "--stride", "2"], "stride says nothing to a style"),
        (["preview", "worlds:orbit?device=foo"], "device is 'foo'"),
        (["preview", "worlds:orbit?num_frames=0"], "frames is 0"),
        (["preview", "worlds:orbit?num_frames=-3"], "frames is -3"),
        (["preview", "worlds:orbit?seed=-1"], "seed + 1 is 0"),
        (["preview", "worlds:orbit?name=a/b"], "name is 'a/b'"),
        (["preview", "worlds:nowhere"], "the style of worlds is 'nowhere'"),
        (["preview", "mars:/data"], "source is 'mars:/data'"),
        (["stats", "worlds:orbit?clips=2", "--num-frames", "1"], "frames is 1: expected at least 5"),
        (["stats", "worlds:orbit?clips=2", "--plot", "x.bmp"], "suffix '.bmp'"),
        (["stats"], "no source is given"),
    ],
)
def test_one_sentence(arguments, sentence, capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["data", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert sentence in said and said.startswith("sightline: ") and "\n" not in said
    assert not list(tmp_path.iterdir())


def test_one_broken_file_does_not_spoil_the_others(tmp_path: Path):
    meta = tmp_path / "PanShot" / "meta-train"
    meta.mkdir(parents=True)
    (meta / "a-0.json").write_text('[{"videos": [{"video": "a-0-0", "pose": "a", "x_fov": 90, "xi": 0}]}]')
    (meta / "b-0.json").write_text("{")
    (tmp_path / "PanFlow").mkdir()
    lines = ['{"video_id": "a", "clip_id": 0, "near_depth": 2}', '{"video_id": "c", "clip_id": 0, "near_depth": null}']
    (tmp_path / "PanFlow" / "near_plane_depth-train.jsonl").write_text("\n".join(lines))
    source = open_source(f"panshot:{tmp_path}")
    assert source.shots() == ["a-0-0", "b-0"]
    with pytest.raises(SightlineError, match=r"b-0\.json, line 1"):
        source.trajectory("b-0")
    with pytest.raises(SightlineError, match=r"a\.npy: found nothing there"):  # neither b-0 nor line 2 of the depths
        source.trajectory("a-0-0")
