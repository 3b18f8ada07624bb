"""One group of clips per step: the group is a function of seed and step, and any position can be entered."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from sightline.data import order as order_module
from sightline.data.latents import ConcatenatedLatents
from sightline.data.order import OneGroupPerStep, Shuffled
from sightline.data.split import share_of_scene
from sightline.errors import SightlineError

LENGTHS, WEIGHTS, BATCH = (30, 10, 7), (2.0, 1.0, 1.0), 4


def steps_of(seed=0):
    orders = [Shuffled(length, seed) for length in LENGTHS]
    return OneGroupPerStep(orders, LENGTHS, WEIGHTS, BATCH, seed)


def group_of(index):
    return 0 if index < 30 else 1 if index < 40 else 2


def test_every_step_is_of_one_group_and_groups_keep_their_weights():
    run = list(islice(steps_of().from_position(0), BATCH * 2000))
    steps = [run[start : start + BATCH] for start in range(0, len(run), BATCH)]
    groups = [{group_of(index) for index in step} for step in steps]
    assert all(len(group) == 1 for group in groups)
    counts = Counter(group.pop() for group in groups)
    assert counts[0] / len(steps) == pytest.approx(0.5, abs=0.04)
    # Within a group no clip comes again before all have come.
    of_last = [index for index in run if index >= 40]
    for start in range(0, len(of_last) - 7, 7):
        assert sorted(of_last[start : start + 7]) == list(range(40, 47))
    assert list(islice(steps_of(seed=1).from_position(0), 400)) != run[:400]


def test_any_position_can_be_entered(monkeypatch):
    monkeypatch.setattr(order_module, "_BLOCK", 8)
    run = list(islice(steps_of().from_position(0), 300))
    for position in (0, 1, 4, 31, 32, 33, 64, 150):
        assert list(islice(steps_of().from_position(position), 50)) == run[position : position + 50]


def test_a_scene_has_one_share_and_shares_have_their_sizes():
    shares = Counter(share_of_scene("orbit", f"{scene:08d}", WEIGHTS) for scene in range(4000))
    assert shares[0] / 4000 == pytest.approx(0.5, abs=0.03) and shares[1] / 4000 == pytest.approx(0.25, abs=0.03)
    assert share_of_scene("orbit", "00000001", [1.0]) == 0


class Numbers:
    """A dataset whose batches are the indices that were asked for."""

    def __init__(self, name, length):
        self.name, self.length = name, length

    def __len__(self):
        return self.length

    def read(self, indices):
        return self.name, list(indices)


def test_datasets_one_after_the_other():
    together = ConcatenatedLatents([Numbers("a", 3), Numbers("b", 0), Numbers("c", 2)])
    assert len(together) == 5 and together.first_of_each() == [0, 3]
    assert together.read([2, 0]) == ("a", [2, 0]) and together.read([4, 3]) == ("c", [1, 0])
    with pytest.raises(SightlineError, match=r"clips \[2, 3\] are of 2 datasets: expected one in a batch"):
        together.read([2, 3])
