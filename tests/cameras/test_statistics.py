"""Statistics of trajectories whose values are known."""

from __future__ import annotations

import math

import pytest
import torch

from sightline.cameras import moves
from sightline.cameras.statistics import compare, describe, trajectory_statistics
from sightline.cameras.tokens import CameraTokens
from sightline.errors import SightlineError
from tests.conftest import random_trajectory


def test_a_truck() -> None:
    numbers = trajectory_statistics(moves.truck(2.0, frames=81, fps=16))
    assert (numbers.frames, numbers.seconds) == (81, 5.0)
    assert numbers.path_length == pytest.approx(2.0)
    assert numbers.extent == pytest.approx(2.0)
    assert numbers.net_displacement == pytest.approx(2.0)
    assert numbers.loop_gap == pytest.approx(1.0)
    assert numbers.largest_step == pytest.approx(2.0 / 80)
    assert (numbers.total_turn, numbers.net_turn, numbers.largest_turn) == (0.0, 0.0, 0.0)


def test_a_pan() -> None:
    numbers = trajectory_statistics(moves.pan(270, frames=10))
    assert numbers.path_length == 0.0
    assert numbers.loop_gap == 0.0
    assert numbers.total_turn == pytest.approx(270)
    assert numbers.net_turn == pytest.approx(90)
    assert numbers.largest_turn == pytest.approx(30)
    assert numbers.moment.zero_fraction == 1.0


def test_a_loop_closes() -> None:
    numbers = trajectory_statistics(moves.loop_dolly(0.5))
    assert numbers.path_length == pytest.approx(1.0)
    assert numbers.extent == pytest.approx(0.5)
    assert (numbers.net_displacement, numbers.loop_gap, numbers.net_turn) == (0.0, 0.0, 0.0)


def test_the_lens() -> None:
    numbers = trajectory_statistics(moves.zoom(18, 36))
    assert numbers.focal_mm == pytest.approx((18, 36))
    assert numbers.horizontal_fov == pytest.approx((2 * math.degrees(math.atan(0.5)), 90.0))


def test_fov_of_an_off_centre_principal_point_and_of_xi() -> None:
    trajectory = moves.static(focal_mm=18, frames=1)
    assert trajectory_statistics(trajectory.cropped(416, 480, left=0)).horizontal_fov == pytest.approx((45.0, 45.0))
    assert trajectory_statistics(trajectory.replace(xi=1.0)).horizontal_fov == pytest.approx((180.0, 180.0))


def test_moments_are_those_of_the_tokens() -> None:
    trajectory = random_trajectory(frames=9, seed=2)
    tokens = CameraTokens.from_trajectory(trajectory, (9, 15, 26), temporal_stride=1)
    magnitude = tokens.ray[0, :, 3:].double().norm(dim=-1)
    moment = trajectory_statistics(trajectory).moment
    assert moment.median == pytest.approx(float(magnitude.quantile(0.5)), rel=1e-2)
    assert moment.percentile_5 == pytest.approx(float(magnitude.quantile(0.05)), rel=1e-2)
    assert moment.percentile_95 == pytest.approx(float(magnitude.quantile(0.95)), rel=1e-2)
    assert moment.zero_fraction == pytest.approx(1 / 9)  # the anchored frame


def test_moments_scale_with_the_path() -> None:
    trajectory = moves.orbit(40)
    small, large = trajectory_statistics(trajectory).moment, trajectory_statistics(trajectory.scaled(10)).moment
    assert large.median == pytest.approx(10 * small.median)


def test_one_frame() -> None:
    numbers = trajectory_statistics(moves.static(frames=1))
    assert (numbers.frames, numbers.seconds, numbers.path_length, numbers.total_turn) == (1, 0.0, 0.0, 0.0)


def test_compare_with_itself_and_with_the_same_path_in_another_world() -> None:
    trajectory = moves.orbit(40, frames=9)
    elsewhere = trajectory.replace(camera_to_world=random_trajectory(1).camera_to_world[0] @ trajectory.camera_to_world)
    for other in (trajectory, elsewhere):
        difference = compare(trajectory, other)
        assert difference.max_rotation < 1e-9
        assert difference.max_translation < 1e-9
        assert difference.path_lengths[0] == pytest.approx(difference.path_lengths[1])


def test_compare_known_differences() -> None:
    difference = compare(moves.truck(1.0, frames=5), moves.truck(1.5, frames=5).combine(moves.pan(40, frames=5)))
    assert torch.allclose(difference.rotation, torch.deg2rad(torch.tensor([0, 10, 20, 30, 40], dtype=torch.float64)))
    assert difference.mean_rotation == pytest.approx(math.radians(20))
    assert difference.max_rotation == pytest.approx(math.radians(40))
    assert difference.mean_translation == pytest.approx(0.25)
    assert difference.max_translation == pytest.approx(0.5)
    assert difference.path_lengths == pytest.approx((1.0, 1.5))


def test_compare_with_a_camera_that_does_not_move() -> None:
    still, moving = moves.static(frames=5), moves.dolly(frames=5)
    assert compare(still, still).path_lengths == (0.0, 0.0)
    assert compare(still, moving).path_lengths == pytest.approx((0.0, 0.5))


def test_a_trajectory_is_described_in_one_line() -> None:
    shot = moves.parse("dolly:1, pan:30+zoom:50", frames=33, width=128, height=128)
    assert describe(shot) == (
        "distance 1 scene units, rotation 30 degrees, lens 28 to 50 mm, 2 s at 16 fps, 33 frames of 128x128"
    )


def test_compare_needs_as_many_frames() -> None:
    with pytest.raises(SightlineError, match="b has 7 frames: expected 5"):
        compare(moves.static(frames=5), moves.static(frames=7))
