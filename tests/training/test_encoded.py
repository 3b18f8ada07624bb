"""Clips for a run: filmed in batches they are what they are one by one, in any order, kept or not."""

from __future__ import annotations

import pytest
import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder
from sightline.data.sources import open_sources
from sightline.training.encoded import Filmed, OneByOne, World, encode_clip
from sightline.worlds import many

SPEC = ClipSpec(num_frames=5, width=32, height=32)
WORLDS = [
    World("orbit", 0, unit="reported"),
    World("openworld", 0, returning=1.0),
    World("orbit", 1, unit="reported"),
    World("openworld", 1, returning=1.0),
]
PATCH = (1, 2, 2)


def one_by_one(encoder):
    clips = Clips(
        open_sources(["worlds:orbit?clips=2", "worlds:openworld?clips=2&unit=metre&returning=1"]), SPEC, part="all"
    )
    order = [0, 2, 1, 3]  # as WORLDS has them
    return OneByOne(clips, order, lambda clip: encode_clip(encoder, 32, clip), PATCH, 32, keep=False)


@pytest.mark.parametrize("kind", ["ti2v-5b", "i2v-a14b"])
@pytest.mark.parametrize("keep", [False, True])
def test_filming_in_batches_changes_nothing(kind, keep):
    encoder = ClipEncoder(tiny_pipeline(kind))
    filmed, expected = Filmed(WORLDS, SPEC, encoder, PATCH, 32, keep), one_by_one(encoder)
    assert len(filmed) == len(expected) == 4
    for indices in ([0, 1, 2, 3], [3, 0], [1]):
        one, other = filmed.read(indices), expected.read(indices)
        torch.testing.assert_close(one.latents, other.latents, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one.text, other.text, atol=1e-6, rtol=1e-5)
        assert torch.equal(one.camera.rows, other.camera.rows) and one.camera.grid == other.camera.grid
        assert (one.condition is None) == (kind == "ti2v-5b")
        if one.condition is not None:
            torch.testing.assert_close(one.condition, other.condition, atol=1e-5, rtol=1e-4)


def test_processes_make_the_same_in_the_same_order(monkeypatch):
    groups = list(range(9))
    inline = list(many.made(str, groups))
    monkeypatch.setattr(many, "_WORTH_PROCESSES", 2)
    monkeypatch.setattr(many.os, "cpu_count", lambda: 4)
    assert list(many.made(str, groups)) == inline == [str(group) for group in groups]
