"""Trajectory: what it accepts, and what its methods keep."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import lens, se3
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from tests.conftest import random_poses, random_trajectory, smooth_trajectory

seeds = st.integers(0, 1000)


def project(trajectory: Trajectory, point: torch.Tensor) -> torch.Tensor:  # [3] -> [T, 2] pixels
    in_camera = (trajectory.world_to_camera @ torch.cat([point, torch.ones(1, dtype=torch.float64)]))[:, :3]
    return lens.project(trajectory.intrinsics, in_camera, trajectory.xi)


def test_one_lens_serves_all_frames():
    assert smooth_trajectory(5).intrinsics.shape == (5, 3, 3)


def test_it_cannot_be_changed_and_keeps_no_hold_on_its_arguments():
    poses = random_poses(3)
    trajectory = Trajectory(poses, lens.intrinsics_from_fov(60, 8, 8), 8, 8)
    poses[0] = 0
    assert trajectory.camera_to_world[0].abs().sum() > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        trajectory.width = 9  # type: ignore[misc]


def changed(field: str, value: object) -> dict[str, object]:
    good: dict[str, object] = {
        "camera_to_world": random_poses(3),
        "intrinsics": lens.intrinsics_from_fov(60, 8, 8),
        "width": 8,
        "height": 8,
    }
    return good | {field: value}


def poses_with(frame: int, row: int, column: int, value: float) -> torch.Tensor:
    poses = random_poses(3)
    poses[frame, row, column] = value
    return poses


@pytest.mark.parametrize(
    "field, value, sentence",
    [
        ("camera_to_world", torch.eye(4), r"camera_to_world has shape \(4, 4\)"),
        ("camera_to_world", torch.zeros(0, 4, 4), "T >= 1"),
        ("camera_to_world", "poses", "camera_to_world cannot be read as numbers"),
        ("camera_to_world", poses_with(1, 0, 3, math.nan), "frame 1 is not finite"),
        ("camera_to_world", poses_with(2, 0, 3, math.inf), "frame 2 is not finite"),
        ("camera_to_world", poses_with(1, 3, 0, 0.5), "frame 1 has the last row"),
        ("camera_to_world", random_poses(3) * torch.tensor([2.0, 2, 2, 1])[:, None], "not a rigid motion"),
        ("camera_to_world", random_poses(3) * torch.tensor([1.0, 1, -1, 1]), "determinant -1"),
        ("intrinsics", torch.eye(3).repeat(2, 1, 1), "intrinsics has 2 frames but camera_to_world has 3"),
        ("intrinsics", torch.eye(4), r"intrinsics has shape \(4, 4\)"),
        ("intrinsics", torch.diag(torch.tensor([-1.0, 1, 1])), "positive pixels"),
        ("intrinsics", torch.tensor([[1.0, 0.5, 0], [0, 1, 0], [0, 0, 1]]), "expected .*fx, 0, cx"),
        ("intrinsics", torch.full((3, 3), math.nan), "not finite"),
        ("width", 0, "width is 0"),
        ("height", 7.5, "height is 7.5"),
        ("width", True, "width is True"),
        ("fps", -1, "fps is -1"),
        ("fps", math.nan, "fps is nan"),
        ("xi", -0.1, "xi is -0.1"),
        ("near_depth", 0, "near_depth is 0"),
        ("unit", None, "unit is None"),
        ("camera_to_world", poses_with(1, 0, 3, 1e300), "within 1e\\+09 units"),
        ("camera_to_world", random_poses(3) * (1 + 0j), "complex"),
        ("intrinsics", torch.diag(torch.tensor([1e-300, 1e-300, 1], dtype=torch.float64)), "from 0.001 to"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(field, value, sentence):
    with pytest.raises(SightlineError, match=sentence) as caught:
        Trajectory(**changed(field, value))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_rotations_written_with_few_digits_are_mended():
    poses = random_poses(4)
    poses[:, :3, :3] = (poses[:, :3, :3] * 1e4).round() / 1e4
    trajectory = Trajectory(poses, lens.intrinsics_from_fov(60, 8, 8), 8, 8)
    assert (se3.orthonormality_error(trajectory.rotations) < 1e-12).all()
    assert (trajectory.rotations - poses[:, :3, :3]).abs().max() < 1e-4


def test_exact_rotations_are_kept_bit_for_bit():
    poses = random_poses(4)
    assert torch.equal(Trajectory(poses, lens.intrinsics_from_fov(60, 8, 8), 8, 8).camera_to_world, poses)


@given(seeds)
def test_anchoring_and_scaling_commute(seed):
    trajectory = random_trajectory(4, seed, near_depth=2.0)
    one, other = trajectory.anchored().scaled(3.0), trajectory.scaled(3.0).anchored()
    torch.testing.assert_close(one.camera_to_world, other.camera_to_world, atol=1e-10, rtol=0)
    assert one.near_depth == 6.0
    torch.testing.assert_close(one.rotations, trajectory.anchored().rotations)


def test_resampling_keeps_ends_and_duration_and_puts_new_frames_between():
    trajectory = smooth_trajectory(9)
    more = trajectory.resampled(17)
    assert torch.equal(more.camera_to_world[::2], trajectory.camera_to_world)
    assert (len(more) - 1) / more.fps == (len(trajectory) - 1) / trajectory.fps
    middle = (trajectory.positions[0] + trajectory.positions[1]) / 2
    torch.testing.assert_close(more.positions[1], middle)
    assert len(trajectory.resampled(1)) == 1 and trajectory.resampled(9) is trajectory


@given(seeds)
def test_reversing_twice_is_nothing(seed):
    trajectory = random_trajectory(5, seed)
    twice = trajectory.reversed().reversed()
    assert torch.equal(twice.camera_to_world, trajectory.camera_to_world)
    assert torch.equal(trajectory.reversed().camera_to_world[0], trajectory.camera_to_world[-1])


@given(seeds)
def test_then_continues_from_the_last_pose_and_keeps_the_shared_frame_once(seed):
    first, second = random_trajectory(4, seed), random_trajectory(3, seed + 7)
    joined = first.concatenate(second)
    assert len(joined) == 6
    tail = joined.replace(camera_to_world=joined.camera_to_world[3:], intrinsics=joined.intrinsics[3:])
    torch.testing.assert_close(tail.anchored().camera_to_world, second.anchored().camera_to_world, atol=1e-10, rtol=0)


def test_together_adds_rails_and_turns_heads():
    at = torch.linspace(0, 1, 5, dtype=torch.float64)
    k = lens.intrinsics_from_fov(60, 8, 8)
    no_turn, no_move = torch.eye(3, dtype=torch.float64).expand(5, 3, 3), torch.zeros(5, 3, dtype=torch.float64)
    rail = Trajectory(se3.from_parts(no_turn, torch.stack([0 * at, 0 * at, at], -1)), k, 8, 8)
    head = Trajectory(se3.from_parts(se3.axis_rotation("y", at), no_move), k, 8, 8)
    both = rail.combine(head)
    torch.testing.assert_close(both.positions, rail.positions)
    torch.testing.assert_close(both.rotations, head.rotations)
    with pytest.raises(SightlineError, match="other has 4 frames"):
        rail.combine(head.resampled(4))


@given(seeds, st.integers(1, 300), st.integers(1, 300))
def test_a_world_point_lands_on_the_same_spot_of_a_resized_picture(seed, width, height):
    trajectory = random_trajectory(3, seed)
    point = torch.tensor([0.3, 0.2, 9.0], dtype=torch.float64)
    stretch = torch.tensor([width / 64, height / 64], dtype=torch.float64)
    expected = project(trajectory, point) * stretch
    torch.testing.assert_close(project(trajectory.resized(width, height), point), expected, rtol=1e-9, atol=1e-6)


def test_cropping_moves_pixels_and_nothing_else():
    trajectory = smooth_trajectory(3, 64, 48)
    point = torch.tensor([0.1, 0.1, 4.0], dtype=torch.float64)
    cropped = trajectory.cropped(32, 32, left=10, top=6)
    expected = project(trajectory, point) - torch.tensor([10.0, 6.0])
    torch.testing.assert_close(project(cropped, point), expected)
    middle = project(trajectory, point) - torch.tensor([16.0, 8.0])
    torch.testing.assert_close(project(trajectory.cropped(32, 32), point), middle)
    with pytest.raises(SightlineError, match="leaves the image"):
        trajectory.cropped(65, 10)


def test_fitting_1280x720_to_832x480_is_the_known_realestate10k_crop():
    trajectory = Trajectory(
        random_poses(1), lens.intrinsics_matrix(*torch.tensor([640.0, 640.0, 640.0, 360.0])), 1280, 720
    )
    fitted = trajectory.fit_to(832, 480)
    fx, cx, cy = fitted.intrinsics[0, 0, 0].item(), fitted.intrinsics[0, 0, 2].item(), fitted.intrinsics[0, 1, 2].item()
    assert math.isclose(fx, 0.5 * 853.3333333333, rel_tol=1e-9) and math.isclose(cx, 416) and math.isclose(cy, 240)


def test_paths_in_different_units_do_not_join():
    with pytest.raises(SightlineError, match="other has unit metre: expected scene"):
        smooth_trajectory(9).concatenate(smooth_trajectory(9).replace(unit="metre"))
    with pytest.raises(SightlineError, match="other is a NoneType"):
        smooth_trajectory(9).concatenate(None)


def test_a_frame_that_is_not_there_cannot_anchor():
    with pytest.raises(SightlineError, match="frame is 9"):
        smooth_trajectory(9).anchored(9)


@pytest.mark.parametrize("frame", [True, 1.0, None, "0", torch.tensor(1.5), torch.tensor([1]), np.array([1, 2])])
def test_a_frame_that_is_no_whole_number_cannot_anchor(frame):
    with pytest.raises(SightlineError, match=r"frame is .*: expected a frame of this trajectory, which has 9"):
        smooth_trajectory(9).anchored(frame)


@pytest.mark.parametrize("frame", [np.int64(2), torch.tensor(2), -7])
def test_a_frame_may_be_any_whole_number(frame):
    assert torch.equal(smooth_trajectory(9).anchored(frame).camera_to_world[2], torch.eye(4, dtype=torch.float64))
