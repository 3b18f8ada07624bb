"""Poses: inverse, anchoring, quaternions, slerp."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import se3
from tests.conftest import random_poses

seeds = st.integers(0, 10_000)
IDENTITY = torch.eye(4, dtype=torch.float64)


@given(seeds)
def test_the_inverse_undoes_the_motion(seed):
    poses = random_poses(3, seed)
    torch.testing.assert_close(se3.inverse(poses) @ poses, IDENTITY.expand(3, 4, 4), atol=1e-12, rtol=0)


@given(seeds, st.integers(0, 4))
def test_anchoring_makes_one_frame_the_identity_and_keeps_relative_motion(seed, frame):
    poses = random_poses(5, seed)
    anchored = se3.anchor(poses, frame)
    assert torch.equal(anchored[frame], IDENTITY)
    before, after = se3.inverse(poses[:-1]) @ poses[1:], se3.inverse(anchored[:-1]) @ anchored[1:]
    torch.testing.assert_close(after, before, atol=1e-11, rtol=0)


@given(seeds)
def test_quaternions_and_rotations_are_two_names_of_one_thing(seed):
    rotation = random_poses(4, seed)[:, :3, :3]
    quaternion = se3.rotation_to_quaternion(rotation)
    assert (quaternion[:, 0] >= 0).all()
    torch.testing.assert_close(se3.quaternion_to_rotation(quaternion), rotation, atol=1e-12, rtol=0)


def test_half_turns_have_quaternions_too():
    for axis in "xyz":
        rotation = se3.axis_rotation(axis, torch.tensor(math.pi, dtype=torch.float64))
        back = se3.quaternion_to_rotation(se3.rotation_to_quaternion(rotation))
        torch.testing.assert_close(back, rotation, atol=1e-12, rtol=0)


def test_a_quaternion_is_written_w_first():
    quarter_turn_about_z = torch.tensor([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)], dtype=torch.float64)
    turned = se3.quaternion_to_rotation(quarter_turn_about_z) @ torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(turned, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64), atol=1e-12, rtol=0)


@given(seeds, st.floats(0, 1))
def test_slerp_turns_at_constant_speed(seed, fraction):
    start, end = random_poses(2, seed)[:, :3, :3]
    middle = se3.slerp(start, end, torch.tensor(fraction, dtype=torch.float64))
    whole = se3.rotation_angle(start.T @ end)
    torch.testing.assert_close(se3.rotation_angle(start.T @ middle), fraction * whole, atol=1e-7, rtol=0)
    torch.testing.assert_close(se3.rotation_angle(middle.T @ end), (1 - fraction) * whole, atol=1e-7, rtol=0)


@given(st.floats(1e-9, math.pi), st.sampled_from("xyz"))
def test_tiny_angles_keep_their_digits(angle, axis):
    rotation = se3.axis_rotation(axis, torch.tensor(angle, dtype=torch.float64))
    torch.testing.assert_close(se3.rotation_angle(rotation).item(), angle, rtol=1e-6, atol=1e-12)


@given(seeds)
def test_the_nearest_rotation_of_a_noisy_one_is_a_rotation(seed):
    rotation = random_poses(2, seed)[:, :3, :3]
    noisy = rotation + 1e-4 * torch.sin(torch.arange(18, dtype=torch.float64)).reshape(2, 3, 3)
    mended = se3.nearest_rotation(noisy)
    assert (se3.orthonormality_error(mended) < 1e-12).all()
    assert (mended - rotation).abs().max() < 1e-3


def test_a_reflection_is_no_rotation_at_any_tolerance():
    mirror = torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))
    assert se3.orthonormality_error(mirror) == torch.inf


def test_interpolation_returns_whole_frames_exactly():
    poses = random_poses(4, 1)
    assert torch.equal(se3.interpolate(poses, torch.arange(4, dtype=torch.float64)), poses)
