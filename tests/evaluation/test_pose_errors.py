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
cases = given(seed=st.integers(0, 10_000), frames=st.integers(1, 20), spread=st.sampled_from([1e-8, 1e-3, 1.0, 50.0]))


@cases
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_every_row_obeys_the_inequalities(alignment, seed, frames, spread):
    found = pose_errors(random_poses(frames, seed, spread), random_poses(frames, seed + 1), alignment)
    for one in (found, found.without_first) if frames > 1 else (found,):
        small = 1e-9 * (1 + one.ate)
        assert one.trans_err <= one.cam_mc + small
        assert one.cam_mc <= one.trans_err + math.sqrt(2) * one.rot_err + small
        assert one.ate >= one.trans_err - small
    assert float(found.rotation[0]) == float(found.translation[0]) == float(found.camera_motion[0]) == 0
    identity = 8 * (found.rotation / 2).sin().square() + found.translation.square()
    torch.testing.assert_close(found.camera_motion.square(), identity, rtol=1e-9, atol=1e-9)


@cases
def test_neither_the_world_nor_a_perfect_estimate_costs_anything(seed, frames, spread):
    path = random_poses(frames, seed, spread)
    moved = random_poses(1, seed + 2, 3.0) @ path
    for alignment in ALIGNMENTS:
        found = pose_errors(moved, path, alignment)
        assert found.rot_err < 1e-6 and found.ate < 1e-6


def test_half_the_path_gives_the_error_that_geometry_predicts():
    path = smooth_trajectory(33)
    half = path.scaled(0.5)
    distance = path.anchored().positions.norm(dim=-1)
    raw = pose_errors(half, path)
    assert raw.trans_err == pytest.approx(float(distance.mean()) / 2)
    assert raw.ate == pytest.approx(float(distance.square().mean().sqrt()) / 2)
    assert raw.cam_mc == pytest.approx(raw.trans_err) and raw.rot_err < 1e-12
    rescaled = pose_errors(half, path, "rescaled")
    assert rescaled.trans_err < 1e-12 and rescaled.note is None
    scaled = pose_errors(half, path, "gt_scaled")
    assert scaled.trans_err == pytest.approx(raw.trans_err / float(distance.max()))


def test_a_linear_drift_has_the_ratio_two_over_root_three():
    path = moves.truck(1.0, frames=1001)
    found = pose_errors(path.scaled(1.2), path)
    assert found.ate / found.trans_err == pytest.approx(2 / math.sqrt(3), rel=1e-3)


@pytest.mark.parametrize("jitter", [0.0, 1e-9, 1e-4])
def test_a_frozen_video_cannot_win(jitter):
    path = moves.dolly(1.0, frames=33)
    still = path.replace(camera_to_world=torch.eye(4).repeat(33, 1, 1))
    noise = torch.randn(33, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * jitter
    still = still.replace(camera_to_world=se3.from_parts(still.rotations, noise))
    careless = path.combine(moves.truck(0.4, frames=33))  # right direction, 40 % off to the side
    for alignment in ALIGNMENTS:
        frozen, moved = pose_errors(still, path, alignment), pose_errors(careless, path, alignment)
        assert frozen.trans_err > 0.45 > 1.2 * moved.trans_err
    assert "divided by instead" in (pose_errors(still, path, "rescaled").note or "")


def test_a_true_path_that_stays_in_place_is_not_rescaled():
    path = moves.pan(30, frames=9)
    drifting = path.combine(moves.truck(0.1, frames=9))
    found = pose_errors(drifting, path, "rescaled")
    assert found.ate < 0.1 and "nothing was rescaled" in (found.note or "")


def test_sums_and_the_first_frame():
    found = pose_errors(random_trajectory(9, 1), random_trajectory(9, 2))
    assert found.sums["rot_err"] == pytest.approx(9 * found.rot_err)
    assert found.without_first.trans_err == pytest.approx(found.trans_err * 9 / 8)


def test_umeyama_undoes_what_it_can():
    path = random_poses(20, 0)
    turn = random_poses(1, 5)[0]
    moved = turn @ path
    moved[:, :3, 3] *= 2.5
    found = umeyama_ate(moved, path)
    assert found.rmse < 1e-9 and found.scale == pytest.approx(0.4)
    assert umeyama_ate(moved, path, "se3").rmse > 0.1
    assert umeyama_ate(turn @ path, path, "se3").rmse < 1e-9
    assert umeyama_ate(torch.eye(4).repeat(20, 1, 1), path).scale == 1.0


@given(seed=st.integers(0, 1000))
def test_umeyama_is_never_worse_than_the_anchor(seed):
    ours, truth = random_poses(8, seed), random_poses(8, seed + 1)
    rigid, similar = umeyama_ate(ours, truth, "se3").rmse, umeyama_ate(ours, truth).rmse
    assert similar <= rigid + 1e-9 and rigid <= pose_errors(ours, truth).ate + 1e-9


def test_relative_errors_of_a_constant_turn():
    path = moves.pan(20, frames=11)
    faster = moves.pan(30, frames=11)
    found = relative_pose_errors(faster, path)
    torch.testing.assert_close(found.rotation.rad2deg(), torch.ones(10, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert relative_pose_errors(faster, path, delta=5).mean_rotation == pytest.approx(math.radians(5), rel=1e-6)


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
    path = smooth_trajectory(5)
    with pytest.raises(SightlineError, match="alignment is 'sim3'"):
        pose_errors(path, path, "sim3")  # type: ignore[arg-type]
    with pytest.raises(SightlineError, match="delta is 5"):
        relative_pose_errors(path, path, 5)
    with pytest.raises(SightlineError, match="one frame"):
        _ = pose_errors(np.eye(4)[None], np.eye(4)[None]).without_first
    assert sl.evaluation.pose_errors is pose_errors
