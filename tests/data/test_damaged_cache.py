"""Caches with flipped bytes, clips that fail while they are encoded, and two commands on one cache."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
import torch

import sightline.data.encode as encode_module
from sightline import cli
from sightline.backbones.tiny import tiny_pipeline
from sightline.data.cache import CacheWriter
from sightline.data.cached import CachedClips
from sightline.data.checksums import clip_checksum
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder
from sightline.data.sources import open_sources
from sightline.errors import SightlineError
from sightline.run_folder import LOCK

SPEC = ClipSpec(num_frames=5, width=16, height=16)


def writer(folder: Path) -> CacheWriter:
    clips = Clips(open_sources(["worlds:orbit?clips=4"]), SPEC)
    return CacheWriter(folder, clips, ClipEncoder(tiny_pipeline("pixels")), "tiny:pixels", shard_clips=2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    cache = writer(folder)
    cache.prepare()
    cache.write()
    return folder


@pytest.fixture
def copied(whole, tmp_path) -> Path:
    shutil.copytree(whole, tmp_path / "cache")
    return tmp_path / "cache"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x40
    path.write_bytes(content)


@pytest.mark.parametrize("where", ["a number", "a caption"])
def test_flipped_bytes_are_noticed_when_read_and_repaired_by_the_same_command(copied, whole, where, caplog):
    shard = copied / "shard-00001.safetensors"
    content = shard.read_bytes()
    flip(shard, len(content) - 5 if where == "a number" else content.index(b"caption") + 20)
    clips = CachedClips(copied)
    assert clips[0].name and clips[1].name  # of the other shard
    with pytest.raises(
        SightlineError, match=r"shard-00001\.safetensors: the clip .* is damaged \(its checksum differs\)"
    ):
        [clips[index] for index in (2, 3)]
    cache = writer(copied)
    cache.prepare()
    assert cache.missing() == [1]
    cache.write()
    assert caplog.text.count("The shard is written again.") == 1
    assert shard.read_bytes() == (whole / shard.name).read_bytes()


def test_the_text_of_the_empty_prompt_is_checked_too(copied, whole):
    text = copied / "empty_text.safetensors"
    flip(text, text.stat().st_size - 3)
    with pytest.raises(SightlineError, match=r"empty_text\.safetensors: .* is damaged"):
        CachedClips(copied).empty_text()
    writer(copied).prepare()
    assert text.read_bytes() == (whole / text.name).read_bytes()


def test_an_index_of_other_clips_is_noticed(copied):
    index = copied / "index.json"
    first, second = (entry["name"] for entry in CachedClips(copied).entries[:2])
    index.write_text(index.read_text().replace(first, "x").replace(second, first).replace('"x"', f'"{second}"'))
    with pytest.raises(SightlineError, match="expected the index of this cache"):
        CachedClips(copied)[0]


def test_a_checksum_covers_names_types_shapes_and_values():
    entry, tensors = {"name": "a", "checksum": "old"}, {"latents": torch.zeros(2, 3), "text": torch.zeros(1)}
    others = [
        ({"name": "b"}, tensors),
        (entry, {**tensors, "text": torch.ones(1)}),
        (entry, {"latents": torch.zeros(3, 2), "text": torch.zeros(1)}),
        (entry, {"latents": torch.zeros(2, 3, dtype=torch.int32), "text": torch.zeros(1)}),
        (entry, {"latent": torch.zeros(2, 3), "text": torch.zeros(1)}),
    ]
    sums = [clip_checksum(*other) for other in others]
    assert len({clip_checksum(entry, tensors), *sums}) == 6
    assert clip_checksum({"name": "a"}, tensors) == clip_checksum(entry, tensors)
    assert clip_checksum({}, {"text": torch.zeros(2, dtype=torch.bfloat16)})


def test_a_clip_that_fails_is_one_skipped_clip_and_is_tried_again(tmp_path, whole, monkeypatch, capsys):
    real, calls = ClipEncoder.encode, iter(range(100))

    def failing(self, clip, *rest):
        if next(calls) == 1:
            raise ZeroDivisionError("by zero")
        return real(self, clip, *rest)

    monkeypatch.setattr(encode_module, "load_encoder", lambda *_: ClipEncoder(tiny_pipeline("pixels")))
    monkeypatch.setattr(ClipEncoder, "encode", failing)
    options = [
        "--num-frames",
        "5",
        "--size",
        "16x16",
        "--shard-clips",
        "2",
        "--model",
        "m",
        "-o",
        str(tmp_path / "out"),
    ]
    line = ["data", "cache", "worlds:orbit?clips=4", *options]
    assert cli.main(line) == cli.FAULT
    error = capsys.readouterr().err
    assert "an unexpected ZeroDivisionError (by zero)" in error and "1 clips failed, for another reason than" in error
    assert len(CachedClips(tmp_path / "out")) == 3 and not (tmp_path / "out" / LOCK).exists()
    assert cli.main(line) == 0
    assert len(CachedClips(tmp_path / "out")) == 4
    for shard in whole.glob("shard-*"):
        assert (tmp_path / "out" / shard.name).read_bytes() == shard.read_bytes()


def test_a_second_command_is_refused_and_sigterm_is_an_interrupt(tmp_path, monkeypatch, capsys):
    def load(*_):
        outcomes.append(cli.main(line))  # a second command, while the first one runs
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigtimedwait([], 60)

    outcomes = []
    line = ["data", "cache", "worlds:orbit?clips=4", "--num-frames", "5", "--size", "16x16", "--model", "m"]
    line += ["-o", str(tmp_path / "out")]
    monkeypatch.setattr(encode_module, "load_encoder", load)
    assert cli.main(line) == cli.INTERRUPTED and outcomes == [cli.FAULT]
    assert "out is being written by another command (process" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_clips_that_cannot_fit_are_refused_before_anything_is_read():
    with pytest.raises(SightlineError, match="81 frames of 99968x99968 need"):
        Clips(open_sources(["worlds:orbit?clips=4"]), ClipSpec(81, width=99968, height=99968))
