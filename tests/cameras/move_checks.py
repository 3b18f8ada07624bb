"""What the tests of moves share: directions, projected points and tolerances."""

from __future__ import annotations

import torch

from sightline.cameras import lens
from sightline.cameras.trajectory import Trajectory

EASINGS = ("linear", "ease", "ease_in", "ease_out")
RIGHT, DOWN, FORWARD = torch.eye(3, dtype=torch.float64)
LEFT, UP = -RIGHT, -DOWN


def seen(trajectory: Trajectory, point: list[float]) -> torch.Tensor:  # -> [T, 2] pixels
    """Where a point of the world is in each picture."""
    world = torch.tensor([*point, 1.0], dtype=torch.float64)
    return lens.project(trajectory.intrinsics, (trajectory.world_to_camera @ world)[:, :3])


def focal_mm(trajectory: Trajectory) -> torch.Tensor:  # -> [T]
    return trajectory.intrinsics[:, 0, 0] * 36 / trajectory.width


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-9) -> bool:
    return bool((a - b).abs().max() < tolerance)


def same(a: Trajectory, b: Trajectory) -> bool:
    return all(
        torch.allclose(one, other, rtol=0, atol=1e-9)
        for one, other in ((a.camera_to_world, b.camera_to_world), (a.intrinsics, b.intrinsics))
    )
