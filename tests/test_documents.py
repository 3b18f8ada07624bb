"""JSON and YAML files: what they hold is plain and finite, and everything else is one sentence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypedDict

import pytest

from sightline import documents
from sightline.documents import read_json, read_json_lines, read_yaml
from sightline.errors import SightlineError
from sightline.settings import convert


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"{", "line 1: it is not JSON"),
        (b"[1]", "holds a list: expected settings"),
        (b"[" * 10**5, "nested too deeply"),
        (b'{"a":' * 60 + b"1" + b"}" * 60, "nested more than 50 levels deep"),
        (b'{"a": [1, {"b": NaN}]}', r"it has NaN at a\[1\]\.b, which is no finite number"),
        (b'{"a": 1e999}', "it has 1e999 at a, which is no finite number"),
        (b'{"a": {"b": 9223372036854775808}}', r"an integer of more than 64 bits at a\.b"),
        (b'{"a": ' + b"9" * 5000 + b"}", "an integer of more than 64 bits at a"),
        (b'{"a": 1, "a": 2}', "a is there twice in one object"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b"", "it is not JSON"),
    ],
)
def test_bad_json_is_one_sentence(content, sentence, tmp_path):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(SightlineError, match=rf"a\.json .*{sentence}") as caught:
        read_json(tmp_path / "a.json", "settings")
    assert "\n" not in str(caught.value) and str(caught.value).endswith("expected settings.")


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("a: [1", "line 1: it is not YAML"),
        ("- 1", "holds a list"),
        ("a: &a [1, 1]\nb: &b [*a, *a]\nc: [*b, *b]", r"line 2: it has an alias, \*name"),
        ("a: &a {b: *a}", "it has an alias"),
        ("a: 1\nb: 2\na: 3", "line 3: a is there twice"),
        ("a: 2026-99-99", "a value that is not YAML"),
        ("a: 2026-01-01", "it has a date"),
        ("a: !!set {x}", "it has a set"),
        ("1: 2", "it has the name 1, which is no text"),
        ("? [1]\n: 2", "not YAML"),
        ("a: !!python/object/apply:os.system [ls]", "it is not YAML"),
        ("a: " + "9" * 5000, "not YAML"),
        ("a: 99999999999999999999", "an integer of more than 64 bits at a"),
        ("[" * 600, "nested too deeply"),
    ],
)
def test_bad_yaml_is_one_sentence(text, sentence, tmp_path):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(SightlineError, match=rf"a\.yaml .*{sentence}") as caught:
        read_yaml(tmp_path / "a.yaml", "a recipe")
    assert "\n" not in str(caught.value)


def test_only_regular_files_of_limited_size_are_read(tmp_path: Path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "large").write_text(" " * 5000)
    monkeypatch.setattr(documents, "MAX_YAML_BYTES", 2048)
    for name, words in (
        ("pipe", "a pipe or a device"), ("folder", "a folder"), ("device", "a pipe or a device"), ("loop", "Too many levels"),
        ("absent", "No such file"), ("a\0b", "null"), ("large", "more than 2 KiB"), ("a" * 300, "too long"),
    ):  # fmt: skip
        with pytest.raises(SightlineError, match=rf"cannot be read \(.*{words}"):
            read_yaml(tmp_path / name)


def test_sound_documents_are_read(tmp_path: Path):
    (tmp_path / "a").write_text('{"a": [1, 2.5, null, true, "é"]}', encoding="utf-8-sig")
    assert read_json(tmp_path / "a") == {"a": [1, 2.5, None, True, "é"]} == read_yaml(tmp_path / "a")
    (tmp_path / "empty").write_text("# nothing\n")
    assert read_yaml(tmp_path / "empty") == {}
    (tmp_path / "log").write_text('{"loss": NaN}\n{"loss": 1}\n{"lo')  # a killed run leaves half a line
    lines = list(read_json_lines(tmp_path / "log", "a log"))
    assert [number for number, _ in lines] == [1, 2] and lines[1][1] == {"loss": 1}


class _Entry(TypedDict):
    name: str
    shard: int


@pytest.mark.parametrize(
    "value, sentence",
    [
        ([{"name": "a", "shard": "0"}], r"index\[0\]\.shard is '0': expected a whole number"),
        ([{"name": "a", "shard": True}], r"index\[0\]\.shard is True: expected a whole number"),
        ([{"shard": 0}], r"index\[0\] has no name"),
        ([3], r"index\[0\] is 3: expected an object"),
        ({}, "index is an object of 0: expected a list"),
    ],
)
def test_a_wrong_type_names_its_field(value, sentence):
    assert convert(list[_Entry], [{"name": "a", "shard": 0, "more": 1}], "index")[0]["more"] == 1
    with pytest.raises(SightlineError, match=sentence):
        convert(list[_Entry], value, "index")


def test_an_error_is_one_sentence_whatever_is_in_it():
    message = str(SightlineError(f"size is {'9' * 10_000}\n{'9' * 10_000}: expected WIDTHxHEIGHT."))
    assert message.startswith("size is 999") and message.endswith("9: expected WIDTHxHEIGHT.")
    assert len(message) < 1100 and "\n" not in message
