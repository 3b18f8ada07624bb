"""CameraTokens: order, anchoring, latent frames, and what each packed part holds."""

from __future__ import annotations

import warnings

import pytest
import torch

from sightline.cameras import lens, plucker
from sightline.cameras.camera_batch import CameraBatch
from sightline.cameras.tokens import ROW_WIDTH, CameraTokens
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from tests.conftest import random_poses, random_trajectory, smooth_trajectory


def by_hand(trajectory: Trajectory, raw_frame: int, row: int, column: int, stride: int) -> torch.Tensor:  # [6]
    """One token's ray, from the formulas of the paper's camera model."""
    anchored = torch.linalg.inv(trajectory.camera_to_world[0]) @ trajectory.camera_to_world[raw_frame]
    pixel = torch.tensor([(column + 0.5) * stride, (row + 0.5) * stride, 1.0], dtype=torch.float64)
    direction = anchored[:3, :3] @ (torch.linalg.inv(trajectory.intrinsics[raw_frame]) @ pixel)
    direction = direction / direction.norm()
    return torch.cat([direction, torch.linalg.cross(anchored[:3, 3], direction)])


def test_every_token_has_the_ray_of_its_patch_centre_x_fastest():
    trajectory = random_trajectory(9, width=80, height=64)
    tokens = CameraTokens.from_trajectory(trajectory, (3, 4, 5))
    assert tokens.rows.shape == (1, 60, ROW_WIDTH) and tokens.rows.dtype == torch.float32
    for t in range(3):
        for row in range(4):
            for column in range(5):
                number = (t * 4 + row) * 5 + column
                expected = by_hand(trajectory, 4 * t, row, column, 16).float()
                torch.testing.assert_close(tokens.ray[0, number], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("latent_pose, raw", [("last", [0, 4, 8]), ("first", [0, 1, 5]), ("middle", [0, 3, 7])])
def test_which_raw_frame_stands_for_a_latent_frame(latent_pose, raw):
    trajectory = random_trajectory(9)
    tokens = CameraTokens.from_trajectory(trajectory, (3, 1, 1), latent_pose=latent_pose)
    expected = trajectory.anchored().world_to_camera[raw, :3].float()
    torch.testing.assert_close(tokens.world_to_camera[0], expected)


def test_the_anchor_frame_has_no_moment_and_another_anchor_can_be_chosen():
    trajectory = random_trajectory(9)
    first = CameraTokens.from_trajectory(trajectory, (3, 2, 2))
    assert torch.equal(first.ray[0, :4, 3:], torch.zeros(4, 3))
    last = CameraTokens.from_trajectory(trajectory, (3, 2, 2), anchor=8)
    assert torch.equal(last.ray[0, -4:, 3:], torch.zeros(4, 3)) and last.ray[0, :4, 3:].norm() > 0
    world = CameraTokens.from_trajectory(trajectory, (3, 2, 2), anchor=None)
    torch.testing.assert_close(
        world.world_to_camera[0, 0].double(), trajectory.world_to_camera[0, :3], atol=1e-5, rtol=1e-5
    )


def test_anchored_rays_do_not_depend_on_the_world():
    trajectory = random_trajectory(9)
    elsewhere = trajectory.replace(camera_to_world=random_poses(1, seed=77)[0] @ trajectory.camera_to_world)
    a, b = (CameraTokens.from_trajectory(one, (3, 2, 2)).rows for one in (trajectory, elsewhere))
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_intrinsics_are_normalised_by_the_picture():
    k = lens.intrinsics_matrix(*torch.tensor([32.0, 24.0, 16.0, 36.0]))
    tokens = CameraTokens.from_trajectory(Trajectory(random_poses(1), k, 64, 48), (1, 3, 4))
    assert tokens.intrinsics[0, 0].tolist() == [0.5, 0.5, -0.25, 0.25]


def test_world_to_camera_takes_the_camera_centre_to_zero():
    trajectory = random_trajectory(9)
    tokens = CameraTokens.from_trajectory(trajectory, (3, 1, 1))
    centre = trajectory.anchored().positions[8].float()
    world_to_camera = tokens.world_to_camera[0, -1]
    torch.testing.assert_close(
        world_to_camera[:, :3] @ centre + world_to_camera[:, 3], torch.zeros(3), atol=1e-5, rtol=0
    )


def test_rays_of_two_frames_through_one_point_meet():
    trajectory = smooth_trajectory(9)
    tokens = CameraTokens.from_trajectory(trajectory, (3, 64, 64))
    point = torch.tensor([1.2, 0.1, 2.5, 1.0], dtype=torch.float64)
    rays = []
    for latent in (1, 2):
        in_camera = trajectory.anchored().world_to_camera[4 * latent] @ point
        pixel = lens.project(trajectory.intrinsics[0], in_camera[:3])
        column, row = int(pixel[0]), int(pixel[1])
        rays.append(tokens.ray[0, (latent * 64 + row) * 64 + column])
    near = plucker.reciprocal_product(*rays).abs()
    far = plucker.reciprocal_product(rays[0], tokens.ray[0, 2 * 4096]).abs()
    assert near < 0.02 < far  # half a pixel of rounding, against a ray to the corner


def test_a_number_of_frames_that_does_not_fit_is_refused():
    with pytest.raises(SightlineError, match=r"10 frames: expected 4 x \(3 - 1\) \+ 1 = 9"):
        CameraTokens.from_trajectory(random_trajectory(10), (3, 4, 4))


@pytest.mark.parametrize("grid", [(3, 4), (3, 0, 4), (3.0, 4, 4), None, (3, -4, 4), "abc"])
def test_grids_that_are_none_are_one_sentence(grid):
    with pytest.raises(SightlineError, match="grid"):
        CameraTokens.from_trajectory(random_trajectory(9), grid)


@pytest.mark.parametrize("anchor", [9, -10, True, 1.5, "first"])
def test_an_anchor_that_is_no_frame_is_one_sentence(anchor):
    with pytest.raises(SightlineError, match=r"anchor is .*: expected a frame of this trajectory, which has 9"):
        CameraTokens.from_trajectory(random_trajectory(9), (3, 4, 4), anchor=anchor)


def test_the_text_of_a_move_is_no_trajectory():
    with pytest.raises(SightlineError, match="trajectory is a str: expected a Trajectory"):
        CameraTokens.from_trajectory("orbit:30", (3, 4, 4))


def test_rows_and_columns_exchanged_are_noticed():
    trajectory = smooth_trajectory(9, 832, 480)
    with pytest.warns(UserWarning, match=r"55.5 x 18.5 pixels are not square"):
        CameraTokens.from_trajectory(trajectory, (3, 26, 15))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CameraTokens.from_trajectory(trajectory, (3, 15, 26))


def test_offsets_are_one_number_or_one_per_clip(tokens):
    assert tokens.with_log_scale_offset(torch.tensor([0.1, 0.2])).rows.shape[0] == 2
    with pytest.raises(SightlineError, match="offset has shape"):
        CameraTokens.batch([tokens] * 3).with_log_scale_offset(torch.tensor([0.1, 0.2]))


def test_precision_below_float32_is_refused():
    tokens = CameraTokens.absent((1, 2, 2))
    with pytest.raises(SightlineError, match=r"torch\.bfloat16"):
        CameraTokens(tokens.rows.bfloat16(), tokens.grid)
    with pytest.raises(SightlineError, match="rows has shape"):
        CameraTokens(tokens.rows[:, :3], tokens.grid)


def test_batching_needs_one_grid():
    one, other = CameraTokens.absent((1, 2, 2)), CameraTokens.absent((1, 2, 3))
    assert CameraTokens.batch([one, one]).rows.shape[0] == 2
    assert CameraTokens.batch(iter([one, one])).rows.shape[0] == 2
    with pytest.raises(SightlineError, match="one grid"):
        CameraTokens.batch([one, other])


def test_augmentation_touches_the_offset_alone_at_the_stated_rate(tokens):
    many = CameraTokens.batch([tokens] * 4000)
    augmented = many.augmented(generator=torch.Generator().manual_seed(0))
    assert torch.equal(augmented.rows[..., :22], many.rows[..., :22])
    delta = augmented.log_scale_offset[:, 0, 0]
    assert torch.equal(augmented.log_scale_offset, delta[:, None, None].expand(-1, 48, 1))
    moved = delta[delta != 0]
    assert abs(len(moved) / 4000 - 0.3) < 0.03
    assert -1.2 <= moved.min() < -1.1 and 1.5 < moved.max() <= 1.6
    assert torch.equal(many.log_scale_offset, torch.zeros(4000, 48, 1))


@pytest.mark.parametrize(
    "stride, groups", [(4, [[0, 0, 0, 0], [1, 2, 3, 4]]), (1, [[0] * 4, [1] * 4]), (2, [[0] * 4, [1, 1, 2, 2]])]
)
def test_a_row_knows_its_lens_its_place_and_the_raw_frames_it_stands_for(stride, groups):
    trajectory = random_trajectory(stride + 1, xi=0.3)
    tokens = CameraTokens.from_trajectory(trajectory, (2, 4, 4), anchor=None, temporal_stride=stride)
    assert tokens.xi.shape == (1, 32, 1) and torch.allclose(tokens.xi, torch.tensor(0.3))
    assert tokens.position[0, :5].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0]]
    assert tokens.position[0, 21].tolist() == [1, 1]
    for token, group in ((3, groups[0]), (20, groups[1])):
        expected = trajectory.world_to_camera[group, :3].flatten(1).float()
        torch.testing.assert_close(tokens.raw_frames[0, token, :, :12], expected)
    torch.testing.assert_close(tokens.raw_frames[:, :, 3, 12:], tokens.intrinsics)  # the last one is the latent pose


def test_a_batch_of_cameras_has_the_rows_of_each_trajectory():
    trajectories = [
        random_trajectory(9, seed=seed, width=80, height=64, xi=xi) for seed, xi in enumerate((0.0, 0.7, 0.2))
    ]
    cameras = CameraBatch.cat([CameraBatch.from_trajectory(one) for one in trajectories])
    for options in ({}, {"anchor": None}, {"latent_pose": "middle"}):
        batch = CameraTokens.from_cameras(cameras, (3, 4, 5), **options)
        each = [CameraTokens.from_trajectory(one, (3, 4, 5), **options) for one in trajectories]
        assert torch.equal(batch.rows, CameraTokens.batch(each).rows)
    chosen = CameraTokens.from_cameras(cameras.select(torch.tensor([2, 0])), (3, 4, 5))
    assert torch.equal(chosen.rows, CameraTokens.from_cameras(cameras, (3, 4, 5)).rows[[2, 0]])
