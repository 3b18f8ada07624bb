"""Clips rendered and encoded in batches equal clips made one by one, in any order, kept in memory or not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sightline.backbones.families import patch_size
from sightline.backbones.tiny import tiny_pipeline
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder
from sightline.data.latents import PerClipLatents, encode_clip
from sightline.data.rendered_latents import RenderedLatents, can_render_batches
from sightline.data.sources import open_sources
from sightline.worlds import batches

SPEC = ClipSpec(num_frames=5, width=32, height=32)
ORDER = [0, 2, 1, 3]  # the styles take turns


def worlds(spec=SPEC):
    sources = open_sources(["worlds:orbit?clips=2", "worlds:openworld?clips=2&unit=metre&returning=1"])
    return Clips(sources, spec, part="all")


@pytest.mark.parametrize(
    "kind, keep",
    [("ti2v-5b", False), ("ti2v-5b", True), ("i2v-a14b", False), ("i2v-a14b", True), ("ltx-2", True)],
)
def test_rendering_in_batches_changes_nothing(kind, keep):
    pipe = tiny_pipeline(kind)
    encoder, patch = ClipEncoder(pipe), patch_size(pipe.transformer.config)
    clips = worlds(replace(SPEC, num_frames=encoder.token_stride.frames + 1))
    assert can_render_batches(clips)
    rendered = RenderedLatents(clips, ORDER, encoder, patch, 32, keep)
    expected = PerClipLatents(
        clips, ORDER, lambda clip: encode_clip(encoder, 32, clip), patch, 32, keep_in_memory=False
    )
    assert len(rendered) == len(expected) == 4
    for indices in ([0, 1, 2, 3], [3, 0], [1]):
        one, other = rendered.read(indices), expected.read(indices)
        torch.testing.assert_close(one.latents, other.latents, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one.text, other.text, atol=1e-6, rtol=1e-5)
        assert torch.equal(one.camera_tokens.rows, other.camera_tokens.rows)
        assert one.camera_tokens.grid == other.camera_tokens.grid
        assert (one.condition is None) == (kind != "i2v-a14b")
        if one.condition is not None:
            torch.testing.assert_close(one.condition, other.condition, atol=1e-5, rtol=1e-4)


def test_processes_make_the_same_in_the_same_order(monkeypatch):
    groups = list(range(9))
    inline = list(batches.map_in_processes(str, groups))
    monkeypatch.setattr(batches, "_MIN_GROUPS", 2)
    monkeypatch.setattr(batches, "available_cores", lambda: 3)
    assert list(batches.map_in_processes(str, groups)) == inline == [str(group) for group in groups]


def test_whole_clips_are_encoded_as_in_chunks():
    encoder = ClipEncoder(tiny_pipeline())
    video = torch.rand(2, 3, 9, 32, 32) * 2 - 1
    whole = encoder.latents_of_whole_clips(video)
    torch.testing.assert_close(whole, encoder.latents(video), atol=1e-5, rtol=1e-4)
