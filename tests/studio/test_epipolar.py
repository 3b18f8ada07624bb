"""The epipolar line of a pixel passes through its true match in every other frame."""

from __future__ import annotations

import pytest
import torch

from sightline.cameras import lens, moves, se3
from sightline.studio.epipolar import epipolar_line
from sightline.worlds import render_clip, sample_clip


def distance_to_polyline(point, line):
    start, step = line[:-1], line.diff(dim=0)
    along = (((point - start) * step).sum(-1) / step.square().sum(-1).clamp_min(1e-12)).clamp(0, 1)
    return float((start + along[:, None] * step - point).norm(dim=-1).min())


@pytest.mark.parametrize("style, seed", [("walkthrough", 16), ("panorama", 25), ("orbit", 0)])
def test_the_line_passes_through_the_true_match(style, seed):
    clip = sample_clip(style, seed, 9, 64, 64)
    trajectory = clip.true_trajectory
    depth = render_clip(clip.scene, trajectory).depth
    matches = 0
    for x, y in ((10, 20), (32, 32), (50, 45), (20, 55)):
        pixel = torch.tensor([x + 0.5, y + 0.5], dtype=torch.float64)
        ray = lens.pixel_rays(trajectory.intrinsics[2], pixel, trajectory.xi)
        point = ray / ray[2] * depth[2, y, x]  # in the coordinates of frame 2
        for other in (0, 5, 8):
            to_other = se3.inverse(trajectory.camera_to_world[other]) @ trajectory.camera_to_world[2]
            seen = to_other[:3, :3] @ point + to_other[:3, 3]
            match = lens.project(trajectory.intrinsics[other], seen, trajectory.xi)
            if seen[2] <= 0.01 or not bool(((match > 0) & (match < 64)).all()):
                continue
            line = epipolar_line(trajectory, 2, ((x + 0.5) / 64, (y + 0.5) / 64), other)
            assert distance_to_polyline(match, line) < 0.05
            matches += 1
    assert matches >= 6


def test_a_camera_that_only_turns_sees_a_point_and_one_that_looks_away_nothing():
    pan = moves.pan(20, frames=2, width=64, height=64)
    line = epipolar_line(pan, 0, (0.6, 0.5), 1)
    assert float((line - line[0]).norm(dim=-1).max()) < 1e-9 and len(line)
    away = moves.pan(180, frames=2, width=64, height=64)
    assert len(epipolar_line(away, 0, (0.5, 0.5), 1)) == 0
