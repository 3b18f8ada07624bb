"""The preview agrees with the renderer of a world wherever it shows anything, and shows nothing where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightline.cameras import moves
from sightline.errors import SightlineError
from sightline.images import psnr
from sightline.studio.preview import Preview, hole_pattern
from sightline.worlds import render_clip, sample_clip


def psnr_where(shown, a, b):
    return 10 * np.log10(255**2 / np.square(a[shown].astype(float) - b[shown]).mean())


@pytest.mark.parametrize("move", ["orbit:10", "dolly:0.4", "truck:0.2", "zoom:28>40", "pan:10"])
def test_the_preview_of_a_world_agrees_with_its_renderer(move):
    clip = sample_clip("walkthrough", 16, 3, 96, 96)
    trajectory = moves.parse(move, frames=3, width=96, height=96)
    placed = clip.true_trajectory.camera_to_world[0] @ trajectory.camera_to_world
    world = render_clip(clip.scene, trajectory.replace(camera_to_world=placed), seconds=[0.0] * 3)
    preview = Preview(world.frames[0].numpy(), world.depth[0], trajectory)
    picture, holes = preview.frame(trajectory, 2)
    true, first = world.frames[2].numpy(), world.frames[0].numpy()
    assert psnr_where(~holes, picture, true) > 25
    assert psnr_where(~holes, picture, true) > psnr_where(~holes, first, true) + 6
    assert (~holes).mean() > 0.8
    assert (
        psnr(preview.frame(trajectory, 0)[0][None], first[None])[0] > 40 and not preview.frame(trajectory, 0)[1].any()
    )


def test_what_was_not_seen_stays_a_hole():
    camera = moves.pan(45, frames=2, width=64, height=64)  # half of the view is new
    preview = Preview(np.full((64, 64, 3), 200, np.uint8), torch.full((64, 64), 2.0), camera)
    picture, holes = preview.frame(camera, 1)
    assert not holes[:, 0].any() and holes[:, -1].all()
    assert np.array_equal(picture[holes], hole_pattern(64, 64)[holes]) and (picture[~holes] == 200).all()


def test_a_near_object_hides_what_is_behind_it_and_uncovers_a_hole():
    picture, depth = np.zeros((64, 64, 3), np.uint8), torch.full((64, 64), 10.0)
    picture[:, 24:40], depth[:, 24:40] = 255, 1.0
    trajectory = moves.truck(0.2, frames=2, width=64, height=64)  # the object moves to the left by about 10 pixels
    shown, holes = Preview(picture, depth, trajectory).frame(trajectory, 1)
    assert (shown[32, 16:28] == 255).all() and not holes[32, 16:28].any()
    assert holes[32, 32:38].all()


def test_the_points_are_in_the_coordinates_of_the_first_camera():
    camera = moves.static(frames=1, width=4, height=4, focal_mm=18)
    points = Preview(np.zeros((4, 4, 3), np.uint8), torch.full((4, 4), 2.0), camera).points
    assert points.shape == (16, 3)
    torch.testing.assert_close(points[0], torch.tensor([-1.5, -1.5, 2.0]))


def test_a_picture_of_another_size_is_refused():
    with pytest.raises(SightlineError, match="expected \\[4, 4\\]"):
        Preview(np.zeros((5, 4, 3), np.uint8), torch.ones(4, 4), moves.static(frames=1, width=4, height=4))
