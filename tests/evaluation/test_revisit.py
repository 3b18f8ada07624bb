"""The Revisit protocol: its windows, its loops, and known answers of its metrics."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sightline.cameras import moves
from sightline.cameras.moves.loops import REVISIT_LOOPS
from sightline.data.clip_spec import ClipSpec
from sightline.evaluation import revisit
from sightline.evaluation.cases import Selection, default_sources
from sightline.worlds import distance_to_solids, sample_batch

SHOT = {"frames": 33, "width": 64, "height": 64}


@pytest.mark.parametrize(
    "frames, away, home",
    [
        (81, (36, 40), (76, 80)),
        (161, (72, 80), (152, 160)),
        (33, (15, 16), (31, 32)),
        (9, (4, 4), (8, 8)),
        (5, (2, 2), (4, 4)),
    ],
)
def test_the_windows_of_the_paper_and_their_proportions(frames, away, home):
    for expected, which in ((away, revisit.AWAY), (home, revisit.RETURN)):
        window = range(frames)[revisit.window_slice(frames, which)]
        assert (window[0], window[-1]) == expected


@pytest.mark.parametrize("name", list(REVISIT_LOOPS))
def test_a_camera_that_does_as_it_is_told_returns(name):
    loop = REVISIT_LOOPS[name](**SHOT)
    scores = revisit.return_scores(loop, loop)
    assert scores["return_ratio"] < 1e-9 and scores["return_rotation"] < 1e-4 and scores["normalised_ate"] < 1e-9
    half = revisit.return_scores(loop.scaled(0.5), loop)  # each is measured by its own maximum
    assert half["return_ratio"] < 1e-9 and half["normalised_ate"] < 1e-9


def test_a_camera_that_stays_away_has_a_ratio_of_one_and_one_that_never_left_has_none():
    loop = REVISIT_LOOPS["loop_truck"](**SHOT)
    stays = moves.truck(0.5, **SHOT)
    poses = stays.camera_to_world.clone()
    poses[revisit.window_slice(33, revisit.RETURN)] = poses[-1]
    assert np.isclose(revisit.return_scores(stays.replace(camera_to_world=poses), loop)["return_ratio"], 1)
    turned = revisit.return_scores(moves.pan(20, **SHOT).combine(loop), loop)
    assert 19 < turned["return_rotation"] <= 20.01
    assert revisit.return_scores(moves.static(**SHOT), loop) is None


def test_appearance_looks_at_the_windows_alone():
    """A video of the first picture, but for another one at the largest excursion."""
    first, other = np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 200, np.uint8)
    video = np.repeat(first[None], 33, axis=0)
    video[revisit.window_slice(33, revisit.AWAY)] = other
    video[20] = other

    class Distance:
        def frames(self, one, reference):
            return np.abs(one.astype(float) - reference).mean(axis=(1, 2, 3))

    class Features:
        def frames(self, one):
            return torch.tensor(one).float().flatten(1) + torch.arange(192)

    suite = SimpleNamespace(names=("lpips", "dino"), networks={"lpips": Distance(), "dino": Features()})
    scores = revisit.appearance_scores(video, first, suite)
    assert scores == {"return_lpips": 0.0, "lpips_recovery": 1.0, "return_dino": pytest.approx(1.0)}
    video[-1] = other
    scores = revisit.appearance_scores(video, first, suite)
    assert scores["return_lpips"] == 100 and scores["lpips_recovery"] == 0.5
    assert revisit.appearance_scores(np.repeat(first[None], 33, axis=0), first, suite).get("lpips_recovery") is None


def test_loops_of_a_world_keep_clear_of_its_solids_and_their_truth_returns():
    spec = ClipSpec(num_frames=9, width=48, height=48)
    cases = revisit.RevisitCases(Selection(default_sources(("openworld",), 1), 1, "all", 0.01, spec))
    assert [name.split("loop_")[1] for name in cases.names] == ["truck", "orbit", "dolly", "nonpalindromic"]
    case = cases.load(3)
    assert case.ground_truth is not None and np.array_equal(
        case.ground_truth[0], case.ground_truth[-1]
    )  # what moves stands still
    assert not np.array_equal(case.ground_truth[0], case.ground_truth[4]) and np.array_equal(
        case.clip.frames[0], case.ground_truth[0]
    )
    assert torch.allclose(case.trajectory.camera_to_world[0], torch.eye(4, dtype=torch.float64))
    assert case.clip.depth is not None and case.clip.depth.shape == (48, 48) and (case.clip.depth > 0).all()
    for seed in range(3):
        batch = sample_batch("walkthrough", [900_000 + seed], 9, 48, 48)
        for loop in REVISIT_LOOPS:
            trajectory = revisit.world_loop(loop, batch, 4.0)
            free = distance_to_solids(batch.scenes, trajectory.positions[None], torch.zeros(1, 9, dtype=torch.float64))
            assert free.min() > 0
            assert trajectory.positions.sub(trajectory.positions[0]).norm(dim=-1).max() > 0.02
