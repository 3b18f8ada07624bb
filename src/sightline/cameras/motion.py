"""How far and how smoothly a camera moves and turns along a trajectory."""

from __future__ import annotations

from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.trajectory import Trajectory

NOISE = 1e-3  # units, and relative to positions: rounding in files of few digits
MIN_FRAMES = 5  # shorter trajectories have no usual step


def extent(trajectory: Trajectory) -> float:
    """Largest distance from the first camera."""
    return float((trajectory.positions - trajectory.positions[0]).norm(dim=-1).max())


def is_moving(trajectory: Trajectory) -> bool:
    return extent(trajectory) > NOISE * max(1.0, float(trajectory.positions.abs().max()))


def differences(trajectory: Trajectory, order: int) -> Tensor:  # -> [T - order]
    """Lengths of the repeated differences of positions: steps, accelerations, and their changes."""
    return trajectory.positions.diff(n=order, dim=0).norm(dim=-1)


def turns(trajectory: Trajectory) -> Tensor:  # -> [T - 1]
    """Rotation from each frame to the next, in degrees."""
    rotations = trajectory.rotations
    return se3.rotation_angle(rotations[:-1].transpose(-1, -2) @ rotations[1:]).rad2deg()


def largest_turn(trajectory: Trajectory) -> float:
    """Largest rotation from the first frame, in degrees."""
    rotations = trajectory.rotations
    return float(se3.rotation_angle(rotations[0].T @ rotations).max().rad2deg())
