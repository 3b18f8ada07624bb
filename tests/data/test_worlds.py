"""The worlds as a source, and as the pixels and cameras that the four layouts are tried on."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.sources import open_source
from sightline.data.stats import source_statistics
from sightline.errors import SightlineError
from sightline.worlds import render_clip, sample_clip
from tests.data.layouts import Take, write_dl3dv, write_omniworld, write_panshot, write_re10k

WIDTH, HEIGHT, FRAMES = 96, 54, 9
AS_STORED = ClipSpec(num_frames=FRAMES, width=WIDTH, height=HEIGHT, anchor=False)
CODEC_ERROR = 6.0  # grey levels, mean over a frame


@pytest.mark.parametrize(
    "style, kind, exact",
    [
        ("walkthrough", "re10k", False),
        ("orbit", "dl3dv", True),
        ("panorama", "panshot", False),
        ("openworld", "omniworld", True),
    ],
)
def test_a_world_comes_back_from_the_layout_it_stands_in_for(tmp_path: Path, style: str, kind: str, exact: bool):
    world = sample_clip(style, 3, FRAMES, WIDTH, HEIGHT)
    take = Take(
        render_clip(world.scene, world.true_trajectory).frames.numpy(), world.reported_trajectory, world.caption
    )
    expected = world.reported_trajectory
    if kind == "re10k":
        write_re10k(tmp_path, take, video=True, camera_ctrl=True)
    elif kind == "dl3dv":
        write_dl3dv(tmp_path, take)
    elif kind == "panshot":
        # Half the field of view through the unified model: f sin = (cos + xi) width / 2.
        angles = torch.linspace(0.01, 3.0, 300_001, dtype=torch.float64)
        half_width = float(expected.intrinsics[0, 0, 0]) * angles.sin() / (angles.cos() + expected.xi).clamp_min(1e-3)
        half = float(angles[(half_width - WIDTH / 2).abs().argmin()])
        write_panshot(tmp_path, take, 2 * math.degrees(half), expected.xi, expected.near_depth)
        poses = expected.camera_to_world.clone()
        poses[:, :3, 3] -= poses[0, :3, 3].clone()
        expected = expected.replace(camera_to_world=poses)
    else:
        write_omniworld(tmp_path, take, first=57)
        expected = expected.scaled(20)

    clip = Clips([open_source(f"{kind}:{tmp_path}")], AS_STORED, strict=True)[0]
    torch.testing.assert_close(clip.trajectory.camera_to_world, expected.camera_to_world, atol=1e-6, rtol=0)
    tolerance = 1e-2 if kind == "panshot" else 1e-6  # pixels; the angle above is searched in steps
    torch.testing.assert_close(clip.trajectory.intrinsics, expected.intrinsics, atol=tolerance, rtol=0)
    assert clip.trajectory.xi == expected.xi
    if kind == "panshot":
        assert clip.trajectory.near_depth == pytest.approx(expected.near_depth)
    if kind != "dl3dv":
        assert clip.caption == world.caption
    error = np.abs(clip.frames.astype(float) - take.frames).mean(axis=(1, 2, 3)).max()
    assert error == 0 if exact else error < CODEC_ERROR


def test_a_world_is_rendered_for_the_spec_and_reported_in_its_own_units():
    spec = ClipSpec(num_frames=5, stride=2, width=48, height=32)
    clips = Clips([open_source("worlds:openworld?clips=2&seed=7")], spec, strict=True)
    assert [window.name for window in clips.windows] == ["00000007@0", "00000008@0"]
    clip = clips[1]
    world = sample_clip("openworld", 8, spec.span, 48, 32)
    assert np.array_equal(clip.frames, render_clip(world.scene, world.true_trajectory).frames[::2].numpy())
    # Reported in twentieths of a metre, and brought back by eta.
    expected = world.true_trajectory.anchored().camera_to_world[::2]
    torch.testing.assert_close(clip.trajectory.camera_to_world, expected, atol=1e-9, rtol=0)
    assert clip.caption == world.caption
    assert clip.source == "openworld"


def test_a_world_in_metres_has_its_true_cameras():
    for style in ("walkthrough", "panorama", "openworld"):
        clip = Clips([open_source(f"worlds:{style}?clips=1&unit=metre")], ClipSpec(num_frames=5, width=48, height=32))[
            0
        ]
        world = sample_clip(style, 0, 5, 48, 32)
        torch.testing.assert_close(clip.trajectory.camera_to_world, world.true_trajectory.anchored().camera_to_world)
        assert clip.trajectory.unit == "metre" and clip.trajectory.near_depth == world.reported_trajectory.near_depth
    with pytest.raises(SightlineError, match="unit of worlds is 'feet': expected one of reported, metre"):
        open_source("worlds:orbit?unit=feet")


def test_an_unknown_style():
    with pytest.raises(SightlineError, match="the style of worlds is 'ocean': expected one of walkthrough"):
        open_source("worlds:ocean")


def test_the_gap_between_the_styles_closes_with_eta():
    spec = ClipSpec(num_frames=33, width=128, height=128)
    statistics = {
        style: source_statistics(open_source(f"worlds:{style}?clips=60"), spec)
        for style in ("walkthrough", "orbit", "panorama", "openworld")
    }
    raw, scaled = (
        {style: getattr(one, what).median for style, one in statistics.items()} for what in ("raw", "scaled")
    )
    for style in ("walkthrough", "orbit", "panorama"):
        assert raw[style] > 9 * raw["openworld"]
    assert max(scaled.values()) < 5 * min(scaled.values())
    assert statistics["panorama"].with_near_depth == 60
    assert statistics["openworld"].normalised is None
