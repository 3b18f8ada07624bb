"""Held-out views: a level camera stands where it was asked for."""

from __future__ import annotations

import pytest
import torch

from sightline.cameras import moves
from sightline.evaluation.held_out import level_view
from sightline.worlds import render_clip, sample_clip


@pytest.mark.parametrize("height", [None, 1.2])
def test_a_level_view_looks_at_the_same_surface_from_the_distance_and_height(height):
    clip = sample_clip("orbit", 900_011, 5, 32, 32)
    start = clip.true_trajectory.camera_to_world[0]
    assert abs(start[1, 2]) > 0.05  # the clip's own camera looks down
    pose = level_view(clip.scene, start, 2.3, height)
    right, down, forward, place = (pose[:3, column] for column in range(4))
    assert forward[1] == 0 and torch.equal(down, torch.tensor([0.0, 1.0, 0.0], dtype=pose.dtype))
    torch.testing.assert_close(pose[:3, :3] @ pose[:3, :3].T, torch.eye(3, dtype=pose.dtype))
    assert torch.dot(right, start[:3, 0]) > 0.9  # it looks the way that the clip's camera does
    lens = moves.static(frames=1, width=100, height=100)
    depth = (
        render_clip(clip.scene, lens.replace(camera_to_world=start[None], unit="metre")).depth[0, 40:60, 40:60].median()
    )
    surface = start[:3, 3] + depth * start[:3, 2]
    assert torch.dot(surface - place, forward) == pytest.approx(2.3, abs=1e-5)
    assert float(place[1]) == pytest.approx(float(surface[1]) if height is None else -height)
