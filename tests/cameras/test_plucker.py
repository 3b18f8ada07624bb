"""The reciprocal product and its properties (paper, section Background and appendix)."""

from __future__ import annotations

import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from sightline.cameras import plucker, se3
from tests.conftest import random_poses

numbers = st.floats(-10, 10, allow_nan=False)
vectors = st.lists(numbers, min_size=3, max_size=3).map(lambda values: torch.tensor(values, dtype=torch.float64))
seeds = st.integers(0, 10_000)


def unit(vector: torch.Tensor) -> torch.Tensor:
    assume(vector.norm() > 1e-2)
    return vector / vector.norm()


def line(origin: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    return plucker.line_through(origin, unit(direction))


def move_line(motion: torch.Tensor, line: torch.Tensor) -> torch.Tensor:
    """The rigid motion (R, t) acting on a line: (R d, R m + t x R d)."""
    rotation, translation = motion[:3, :3], motion[:3, 3]
    direction, moment = rotation @ line[:3], rotation @ line[3:]
    return torch.cat([direction, moment + torch.linalg.cross(translation, direction)])


@given(vectors, vectors, vectors, vectors, vectors, vectors, numbers, numbers)
def test_the_product_is_bilinear_and_symmetric(o1, d1, o2, d2, o3, d3, a, b):
    first, second, third = line(o1, d1), line(o2, d2), line(o3, d3)
    together = plucker.reciprocal_product(a * first + b * second, third)
    apart = a * plucker.reciprocal_product(first, third) + b * plucker.reciprocal_product(second, third)
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-9)
    forth, back = plucker.reciprocal_product(first, third), plucker.reciprocal_product(third, first)
    torch.testing.assert_close(forth, back, rtol=0, atol=1e-12)


@given(vectors, vectors, vectors)
def test_lines_that_meet_have_product_zero(point, d1, d2):
    # Each line is given by another of its points, so that the meeting point itself is nowhere in the numbers.
    first, second = line(point - 3 * d1, d1), line(point + 2 * d2, d2)
    assert plucker.reciprocal_product(first, second).abs() < 1e-10


@given(vectors, vectors, vectors)
def test_parallel_and_equal_lines_have_product_zero(o1, o2, direction):
    assert plucker.reciprocal_product(line(o1, direction), line(o2, direction)).abs() < 1e-10
    assert plucker.reciprocal_product(line(o1, direction), line(o1 + 2 * direction, direction)).abs() < 1e-10


def test_a_known_skew_pair_gives_distance_times_sine():
    along_x = plucker.line_through(torch.tensor([0.0, 0.0, 0.0]), torch.tensor([1.0, 0.0, 0.0]))
    along_y_at_height_2 = plucker.line_through(torch.tensor([5.0, 7.0, 2.0]), torch.tensor([0.0, 1.0, 0.0]))
    assert plucker.reciprocal_product(along_x, along_y_at_height_2).item() == -2.0


@given(vectors, vectors, vectors, vectors)
def test_lines_that_do_not_meet_have_product_other_than_zero(o1, d1, o2, d2):
    d1, d2 = unit(d1), unit(d2)
    across = torch.linalg.cross(d1, d2)
    assume(across.norm() > 0.1)
    distance = ((o2 - o1) @ across / across.norm()).abs()
    assume(distance > 0.1)
    product = plucker.reciprocal_product(plucker.line_through(o1, d1), plucker.line_through(o2, d2)).abs()
    torch.testing.assert_close(product, distance * across.norm(), rtol=1e-9, atol=1e-9)


@given(vectors, vectors, vectors, vectors, seeds)
def test_a_rigid_motion_of_the_world_changes_nothing(o1, d1, o2, d2, seed):
    motion = random_poses(1, seed)[0]
    first, second = line(o1, d1), line(o2, d2)
    moved = plucker.reciprocal_product(move_line(motion, first), move_line(motion, second))
    torch.testing.assert_close(moved, plucker.reciprocal_product(first, second), rtol=0, atol=1e-9)


@given(vectors, vectors, seeds)
def test_moving_a_line_is_moving_its_points(origin, direction, seed):
    motion = random_poses(1, seed)[0]
    direction = unit(direction)
    expected = plucker.line_through(motion[:3, :3] @ origin + motion[:3, 3], motion[:3, :3] @ direction)
    torch.testing.assert_close(move_line(motion, plucker.line_through(origin, direction)), expected, atol=1e-9, rtol=0)


@given(vectors, vectors, vectors, vectors, st.floats(0.01, 100))
def test_the_product_grows_linearly_with_the_scene(o1, d1, o2, d2, scale):
    first, second = line(o1, d1), line(o2, d2)
    scaled = plucker.reciprocal_product(line(scale * o1, d1), line(scale * o2, d2))
    torch.testing.assert_close(scaled, scale * plucker.reciprocal_product(first, second), rtol=1e-9, atol=1e-9)


@given(vectors, vectors)
def test_direction_and_moment_are_perpendicular_and_the_closest_point_is_on_the_line(origin, direction):
    one = line(origin, direction)
    assert (one[:3] @ one[3:]).abs() < 1e-9
    foot = plucker.closest_point_to_origin(one)
    torch.testing.assert_close(plucker.line_through(foot, one[:3]), one, atol=1e-9, rtol=0)
    assert (foot @ one[:3]).abs() < 1e-9


@given(vectors)
def test_splitting_a_moment_loses_nothing(moment):
    assume(moment.norm() > 1e-3)
    direction, log_magnitude = plucker.split_moment(moment)
    torch.testing.assert_close(direction * log_magnitude.exp(), moment)
    torch.testing.assert_close(direction.norm(), torch.tensor(1.0, dtype=torch.float64))


def test_a_zero_moment_splits_into_zero_and_the_floor():
    direction, log_magnitude = plucker.split_moment(torch.zeros(2, 3), min_norm=1e-6)
    assert torch.equal(direction, torch.zeros(2, 3))
    torch.testing.assert_close(log_magnitude, torch.full((2, 1), -13.8155), atol=1e-4, rtol=0)


def test_a_zero_moment_has_finite_gradients():
    moment = torch.zeros(3, requires_grad=True)
    direction, log_magnitude = plucker.split_moment(moment)
    (direction.sum() + log_magnitude.sum()).backward()
    assert moment.grad is not None and moment.grad.isfinite().all()


def test_rays_through_one_world_point_from_two_cameras_meet():
    poses = random_poses(2, seed=4)
    point = torch.tensor([0.3, -0.2, 5.0], dtype=torch.float64)
    rays = [plucker.line_through(pose[:3, 3], unit(point - pose[:3, 3])) for pose in poses]
    assert plucker.reciprocal_product(*rays).abs() < 1e-12
    assert se3.rotation_angle(poses[0, :3, :3].T @ poses[1, :3, :3]) > 0.1  # two views indeed
