"""The loops of the Revisit protocol: away and back on schedule, and closed exactly."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.cameras import moves
from tests.cameras.move_checks import RIGHT, close, seen


@pytest.mark.parametrize("name", moves.REVISIT_LOOPS)
@pytest.mark.parametrize("easing", ["linear", "ease"])
def test_loops_are_away_and_back_in_the_protocol_s_windows(name: str, easing: moves.Easing) -> None:
    trajectory = moves.REVISIT_LOOPS[name](easing=easing)
    distance = trajectory.positions.norm(dim=-1)
    assert (distance[36:41] >= distance.max() * (1 - 1e-12)).all()
    assert (distance[1:36].diff() > 0).all()
    assert (distance[41:76].diff() < 0).all()
    assert torch.equal(trajectory.camera_to_world[76:], torch.eye(4).double().expand(5, 4, 4))


@pytest.mark.parametrize("name", moves.REVISIT_LOOPS)
@given(frames=st.integers(2, 200), amount=st.floats(-3, 3))
@settings(max_examples=20)
def test_loops_close_exactly_at_any_length(name: str, frames: int, amount: float) -> None:
    trajectory = moves.REVISIT_LOOPS[name](amount, frames=frames)
    assert torch.equal(trajectory.camera_to_world[-1], trajectory.camera_to_world[0])


def test_only_the_nonpalindromic_loop_returns_another_way() -> None:
    for name, make in moves.REVISIT_LOOPS.items():
        out, back = make().positions[:37], make().positions[40:77].flip(0)
        apart = float(torch.cdist(out[10:27], back).min(dim=1).values.max())
        assert (apart > 0.3) == (name == "loop_nonpalindromic")
    trajectory = moves.loop_nonpalindromic(0.5, 2.0)
    assert close(trajectory.positions[38], 0.5 * RIGHT)
    assert trajectory.positions[18, 2] > 0.2
    assert trajectory.positions[58, 2] < -0.2
    assert close(seen(trajectory, [0, 0, 2.0]), torch.tensor([416.0, 240.0]).double(), 1e-6)


def test_loops_go_the_way_of_their_moves() -> None:
    assert close(moves.loop_truck(0.4).camera_to_world[38], moves.truck(0.4).camera_to_world[-1])
    assert close(moves.loop_dolly(0.4).camera_to_world[38], moves.dolly(0.4).camera_to_world[-1])
    assert close(moves.loop_orbit(25, 3.0).camera_to_world[38], moves.orbit(25, 3.0).camera_to_world[-1])
