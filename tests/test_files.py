"""Folders that appear whole or not at all, and what libraries said, in a few words."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from sightline.digests import file_digest, json_digest
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.files import atomic_folder, reason


def test_a_folder_appears_whole(tmp_path):
    with atomic_folder(tmp_path / "a" / "b") as folder:
        (folder / "one.txt").write_text("1")
        assert not (tmp_path / "a" / "b").exists()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.txt")] == ["a/b/one.txt"]
    assert os.listdir(tmp_path / "a") == ["b"]
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty") as folder:
        (folder / "one.txt").write_text("1")
    assert os.listdir(tmp_path / "empty") == ["one.txt"]


def fail_inside(path, overwrite, error):
    with atomic_folder(path, overwrite) as folder:
        (folder / "one.txt").write_text("1")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device"), SightlineError("no.")])
def test_after_a_failure_everything_is_as_before(tmp_path, error):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "film.txt").write_text("old")
    for path, overwrite in ((tmp_path / "a" / "b", False), (tmp_path / "old", True)):
        with pytest.raises((KeyboardInterrupt, SightlineError)):
            fail_inside(path, overwrite, error)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["film.txt", "old"]


def test_a_folder_that_holds_something_is_replaced_only_when_asked(tmp_path):
    (tmp_path / "old.txt").write_text("old")
    with (
        pytest.raises(SightlineError, match="exists: expected a new or empty folder, or --overwrite"),
        atomic_folder(tmp_path),
    ):
        pass
    with atomic_folder(tmp_path, overwrite=True) as folder:
        (folder / "new.txt").write_text("new")
    assert os.listdir(tmp_path) == ["new.txt"]
    assert not [path for path in tmp_path.parent.iterdir() if path.name.startswith(f".{tmp_path.name[:40]}")]


def test_errors_inside_name_the_place_that_was_asked_for(tmp_path):
    with (
        pytest.raises(SightlineError, match=r"out/a\.txt is bad") as caught,
        atomic_folder(tmp_path / "out") as folder,
    ):
        raise SightlineError(f"{folder / 'a.txt'} is bad.")
    assert str(caught.value) == f"{tmp_path / 'out' / 'a.txt'} is bad." and not Path(tmp_path / "out").exists()


def test_a_reason_is_short_and_ends_with_a_word():
    assert reason(ValueError("no such\n  file. ")) == "no such file"
    assert reason(KeyError()) == "KeyError" and reason(FileNotFoundError(2, "gone", "x")) == "gone"
    long = reason(ValueError("the weights. " * 20))
    assert long == "the weights. " * 8 + "the weights ..." and len(long) <= 124
    assert reason(ValueError("x" * 200)) == "x" * 120 + " ..."


def test_json_is_read_or_refused_in_one_sentence(tmp_path: Path):
    file = tmp_path / "a.json"
    for text, sentence in (
        ("{", "cannot be read"),
        ("[1]", "holds a list: expected settings"),
        ("[" * 10**5, "cannot be"),
    ):
        file.write_text(text)
        with pytest.raises(SightlineError, match=sentence) as caught:
            read_json(file, "settings")
        assert "\n" not in str(caught.value)
    with pytest.raises(SightlineError, match=r"b\.json cannot be read \(No such file"):
        read_json(tmp_path / "b.json")
    file.write_text("[1]", encoding="utf-8-sig")
    assert read_json(file, content=list) == [1]


def test_digests_depend_on_the_content_alone(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"content")
    assert file_digest(tmp_path / "a") == hashlib.sha256(b"content").hexdigest()
    assert json_digest({"a": 1, "b": tmp_path}) == json_digest({"b": tmp_path, "a": 1}) != json_digest({"a": 1})
