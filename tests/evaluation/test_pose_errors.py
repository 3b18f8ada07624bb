"""Pose errors: what geometry predicts, what must always hold, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.cameras import moves, se3
from sightline.errors import SightlineError
from sightline.evaluation import pose_errors, relative_pose_errors, umeyama_ate
from tests.conftest import random_poses, random_trajectory, smooth_trajectory

ALIGNMENTS = ["raw", "rescaled", "gt_scaled"]
cases = given(seed=st.integers(0, 10_000), frames=st.integers(1, 20), scale=st.sampled_from([1e-8, 1e-3, 1.0, 50.0]))


@cases
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_every_row_obeys_the_inequalities(alignment, seed, frames, scale):
    errors = pose_errors(random_poses(frames, seed, scale), random_poses(frames, seed + 1), alignment)
    for one in (errors, errors.without_first) if frames > 1 else (errors,):
        small = 1e-9 * (1 + one.ate)
        assert one.trans_err <= one.cam_mc + small
        assert one.cam_mc <= one.trans_err + math.sqrt(2) * one.rot_err + small
        assert one.ate >= one.trans_err - small
    assert float(errors.rotation[0]) == float(errors.translation[0]) == float(errors.camera_motion[0]) == 0
    identity = 8 * (errors.rotation / 2).sin().square() + errors.translation.square()
    torch.testing.assert_close(errors.camera_motion.square(), identity, rtol=1e-9, atol=1e-9)


@cases
def test_neither_the_world_nor_a_perfect_estimate_costs_anything(seed, frames, scale):
    trajectory = random_poses(frames, seed, scale)
    moved = random_poses(1, seed + 2, 3.0) @ trajectory
    for alignment in ALIGNMENTS:
        errors = pose_errors(moved, trajectory, alignment)
        assert errors.rot_err < 1e-6 and errors.ate < 1e-6


def test_half_the_path_gives_the_error_that_geometry_predicts():
    trajectory = smooth_trajectory(33)
    half = trajectory.scaled(0.5)
    distance = trajectory.anchored().positions.norm(dim=-1)
    raw = pose_errors(half, trajectory)
    assert raw.trans_err == pytest.approx(float(distance.mean()) / 2)
    assert raw.ate == pytest.approx(float(distance.square().mean().sqrt()) / 2)
    assert raw.cam_mc == pytest.approx(raw.trans_err) and raw.rot_err < 1e-12
    rescaled = pose_errors(half, trajectory, "rescaled")
    assert rescaled.trans_err < 1e-12 and rescaled.note is None
    scaled = pose_errors(half, trajectory, "gt_scaled")
    assert scaled.trans_err == pytest.approx(raw.trans_err / float(distance.max()))


def test_a_linear_drift_has_the_ratio_two_over_root_three():
    trajectory = moves.truck(1.0, frames=1001)
    errors = pose_errors(trajectory.scaled(1.2), trajectory)
    assert errors.ate / errors.trans_err == pytest.approx(2 / math.sqrt(3), rel=1e-3)


@pytest.mark.parametrize("jitter", [0.0, 1e-9, 1e-4])
def test_a_frozen_video_cannot_win(jitter):
    trajectory = moves.dolly(1.0, frames=33)
    still = trajectory.replace(camera_to_world=torch.eye(4).repeat(33, 1, 1))
    noise = torch.randn(33, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * jitter
    still = still.replace(camera_to_world=se3.from_parts(still.rotations, noise))
    careless = trajectory.combine(moves.truck(0.4, frames=33))  # right direction, 40 % off to the side
    for alignment in ALIGNMENTS:
        frozen, moved = pose_errors(still, trajectory, alignment), pose_errors(careless, trajectory, alignment)
        assert frozen.trans_err > 0.45 > 1.2 * moved.trans_err
    assert "divided by instead" in (pose_errors(still, trajectory, "rescaled").note or "")


def test_a_true_trajectory_that_stays_in_place_is_not_rescaled():
    trajectory = moves.pan(30, frames=9)
    drifting = trajectory.combine(moves.truck(0.1, frames=9))
    errors = pose_errors(drifting, trajectory, "rescaled")
    assert errors.ate < 0.1 and "nothing was rescaled" in (errors.note or "")


def test_sums_and_the_first_frame():
    errors = pose_errors(random_trajectory(9, 1), random_trajectory(9, 2))
    assert errors.sums["rot_err"] == pytest.approx(9 * errors.rot_err)
    assert errors.without_first.trans_err == pytest.approx(errors.trans_err * 9 / 8)


def test_umeyama_undoes_what_it_can():
    trajectory = random_poses(20, 0)
    turn = random_poses(1, 5)[0]
    moved = turn @ trajectory
    moved[:, :3, 3] *= 2.5
    errors = umeyama_ate(moved, trajectory)
    assert errors.rmse < 1e-9 and errors.scale == pytest.approx(0.4)
    assert umeyama_ate(moved, trajectory, "se3").rmse > 0.1
    assert umeyama_ate(turn @ trajectory, trajectory, "se3").rmse < 1e-9
    assert umeyama_ate(torch.eye(4).repeat(20, 1, 1), trajectory).scale == 1.0


@given(seed=st.integers(0, 1000))
def test_umeyama_is_never_worse_than_the_anchor(seed):
    ours, truth = random_poses(8, seed), random_poses(8, seed + 1)
    rigid, similar = umeyama_ate(ours, truth, "se3").rmse, umeyama_ate(ours, truth).rmse
    assert similar <= rigid + 1e-9 and rigid <= pose_errors(ours, truth).ate + 1e-9


def test_relative_errors_of_a_constant_turn():
    trajectory = moves.pan(20, frames=11)
    faster = moves.pan(30, frames=11)
    errors = relative_pose_errors(faster, trajectory)
    torch.testing.assert_close(errors.rotation.rad2deg(), torch.ones(10, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert relative_pose_errors(faster, trajectory, delta=5).mean_rotation == pytest.approx(math.radians(5), rel=1e-6)


@pytest.mark.parametrize(
    "estimated, sentence",
    [
        (np.eye(4)[None].repeat(4, 0), "estimated has 4 frames: expected 5"),
        (np.full((5, 4, 4), np.nan), "estimated: camera_to_world of frame 0 is not finite"),
        (np.zeros((5, 3)), r"estimated has shape \[5, 3\]"),
        (np.zeros((5, 4, 4)), "estimated: camera_to_world of frame 0 has the last row"),
        ("path.json", "estimated cannot be read as numbers"),
    ],
)
def test_what_is_no_path_is_refused_in_a_sentence(estimated, sentence):
    with pytest.raises(SightlineError, match=sentence):
        pose_errors(estimated, np.eye(4)[None].repeat(5, 0))


def test_other_refusals():
    trajectory = smooth_trajectory(5)
    with pytest.raises(SightlineError, match="alignment is 'sim3'"):
        pose_errors(trajectory, trajectory, "sim3")  # type: ignore[arg-type]
    with pytest.raises(SightlineError, match="delta is 5"):
        relative_pose_errors(trajectory, trajectory, 5)
    with pytest.raises(SightlineError, match="one frame"):
        _ = pose_errors(np.eye(4)[None], np.eye(4)[None]).without_first
    assert sl.evaluation.pose_errors is pose_errors


def test_lengths_in_different_units_are_refused_and_shapes_are_compared():
    path = smooth_trajectory(9)  # unit "scene"
    for unit in ("metre", "arbitrary"):
        other = path.scaled(2).replace(unit=unit)
        for call in (
            lambda other=other: pose_errors(other, path),
            lambda other=other: pose_errors(other, path, "gt_scaled"),
            lambda other=other: umeyama_ate(other, path, "se3"),
            lambda other=other: relative_pose_errors(other, path),
        ):
            with pytest.raises(SightlineError, match=r"estimated is in .* and reference in the unit of the data, and"):
                call()
        assert pose_errors(other, path, "rescaled").ate < 1e-9 and umeyama_ate(other, path).rmse < 1e-9
        assert pose_errors(other.camera_to_world, path).ate > 0.01  # poses state no unit
    arbitrary = path.replace(unit="arbitrary")
    with pytest.raises(SightlineError, match="an arbitrary scale"):
        pose_errors(arbitrary, arbitrary)  # of two videos, each with its own
