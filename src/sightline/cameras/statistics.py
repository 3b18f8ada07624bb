"""Statistics of a trajectory (length, extent, rotation, moments of its token rays), and comparison of two trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.cameras import lens, plucker, se3
from sightline.cameras.tokens import token_rays
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

_MAX_MOMENT_FRAMES = 500  # a longer trajectory is sampled at this many frames
TOKEN_GRID = (15, 26)  # rows and columns of a 480x832 picture at 32 pixels per token


@dataclass(frozen=True)
class MomentStatistics:
    """|m| over the rays of all frames through the centres of a token grid, the trajectory anchored at frame 0, in its unit.

    The moment is the distance of a token's ray from the first camera's centre.
    """

    median: float
    percentile_5: float
    percentile_95: float
    zero_fraction: float
    """Fraction of rays with |m| <= MIN_MOMENT. These carry no information on position."""


@dataclass(frozen=True)
class TrajectoryStatistics:
    """Distances are in the unit of the trajectory, rotations in degrees."""

    frames: int
    seconds: float
    """From the first frame to the last."""
    path_length: float
    """Sum of the steps between consecutive camera centres."""
    extent: float
    """Largest distance of a camera centre from the first one."""
    net_displacement: float
    """Distance of the last camera centre from the first one."""
    net_translation: tuple[float, float, float]
    """The last camera centre as the first camera sees it: right, down, forward."""
    loop_gap: float
    """Net displacement over the extent: 0 where the trajectory is closed or does not move."""
    total_turn: float
    """Sum of the rotations between consecutive frames."""
    net_turn: float
    """Rotation between the first and the last frame."""
    largest_step: float
    """Longest step between consecutive camera centres."""
    largest_turn: float
    """Largest rotation between consecutive frames."""
    focal_mm: tuple[float, float]
    """Shortest and longest horizontal focal length, on a sensor 36 mm wide."""
    horizontal_fov: tuple[float, float]
    """Narrowest and widest horizontal field of view, in degrees, xi included."""
    moment: MomentStatistics


@dataclass(frozen=True, eq=False)
class TrajectoryComparison:
    """Two trajectories, each anchored at its own frame 0, compared frame by frame. Nothing else is aligned."""

    rotation: Tensor  # [T] radians
    """Angle between the two cameras of a frame."""
    translation: Tensor  # [T]
    """Distance between the two camera centres of a frame, in the unit of the trajectories."""
    focal: Tensor  # [T]
    """Focal length of the second trajectory over that of the first, each relative to its image width."""
    path_lengths: tuple[float, float]
    """Path lengths of the first and of the second trajectory."""

    @property
    def mean_rotation(self) -> float:
        return float(self.rotation.mean())

    @property
    def max_rotation(self) -> float:
        return float(self.rotation.max())

    @property
    def mean_translation(self) -> float:
        return float(self.translation.mean())

    @property
    def max_translation(self) -> float:
        return float(self.translation.max())


def trajectory_statistics(trajectory: Trajectory, token_grid: tuple[int, int] = TOKEN_GRID) -> TrajectoryStatistics:
    """Statistics of one trajectory. token_grid: (rows, columns) for the moments."""
    steps, turns = _steps(trajectory), _turns(trajectory)
    from_first = (trajectory.positions - trajectory.positions[0]).norm(dim=-1)
    extent, net = float(from_first.max()), float(from_first[-1])
    x, y, z = trajectory.anchored().positions[-1].tolist()
    focal_mm = trajectory.intrinsics[:, 0, 0] * (lens.FULL_FRAME_MM / trajectory.width)
    fov = _horizontal_fov(trajectory)
    return TrajectoryStatistics(
        frames=len(trajectory),
        seconds=(len(trajectory) - 1) / trajectory.fps,
        path_length=float(steps.sum()),
        extent=extent,
        net_displacement=net,
        net_translation=(x, y, z),
        loop_gap=net / extent if extent > 0 else 0.0,
        total_turn=float(turns.sum()),
        net_turn=float(se3.rotation_angle(trajectory.rotations[0].T @ trajectory.rotations[-1]).rad2deg()),
        largest_step=float(steps.max()),
        largest_turn=float(turns.max()),
        focal_mm=(float(focal_mm.min()), float(focal_mm.max())),
        horizontal_fov=(float(fov.min()), float(fov.max())),
        moment=_moment_statistics(trajectory, *token_grid),
    )


def describe(trajectory: Trajectory) -> str:
    """One line: distance, rotation, lens, time and picture of a trajectory."""
    distance, turn = float(_steps(trajectory).sum()), float(_turns(trajectory).sum())
    focal = trajectory.intrinsics[:, 0, 0] * (lens.FULL_FRAME_MM / trajectory.width)
    ends = [f"{mm:.4g}" for mm in (float(focal[0]), float(focal[-1]))]
    seconds = (len(trajectory) - 1) / trajectory.fps
    unit = {"scene": "scene units", "metre": "m"}.get(trajectory.unit, trajectory.unit)
    return (
        f"distance {distance:.4g} {unit}, rotation {turn:.4g} degrees, lens {' to '.join(dict.fromkeys(ends))} mm, "
        f"{seconds:.4g} s at {trajectory.fps:.4g} fps, {len(trajectory)} frames of {trajectory.width}x{trajectory.height}"
    )


def compare(a: Trajectory, b: Trajectory) -> TrajectoryComparison:
    """Differences of `b` from `a` in every frame, both anchored at their first frame. Lengths are taken to be in one unit."""
    if len(a) != len(b):
        raise SightlineError(f"b has {len(b)} frames: expected {len(a)}, as many as a (see Trajectory.resampled).")
    rotation, translation = anchored_differences(a.anchored().camera_to_world, b.anchored().camera_to_world)
    return TrajectoryComparison(
        rotation=rotation,
        translation=translation,
        focal=(b.intrinsics[:, 0, 0] / b.width) / (a.intrinsics[:, 0, 0] / a.width),
        path_lengths=(float(_steps(a).sum()), float(_steps(b).sum())),
    )


def anchored_differences(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:  # [T, 4, 4] x2 -> [T] radians, [T]
    """Angles and distances between the cameras of two trajectories in the same coordinates."""
    rotation = se3.rotation_angle(a[:, :3, :3].transpose(-1, -2) @ b[:, :3, :3])
    return rotation, (a[:, :3, 3] - b[:, :3, 3]).norm(dim=-1)


def moment_magnitudes(trajectory: Trajectory, token_grid: tuple[int, int] = TOKEN_GRID) -> Tensor:  # -> [t, h w]
    """|m| of the rays through the centres of a (rows, columns) grid, the trajectory anchored at frame 0.

    A trajectory of more than 500 frames is sampled at 500, evenly spaced.
    """
    frames = torch.linspace(0, len(trajectory) - 1, min(len(trajectory), _MAX_MOMENT_FRAMES)).round().long()
    return token_rays(trajectory.anchored(), frames, *token_grid)[..., 3:].norm(dim=-1)


def _steps(trajectory: Trajectory) -> Tensor:  # -> [max(T - 1, 1)]
    """Distances between consecutive camera centres; one step of 0 for a single frame."""
    return _or_zero(trajectory.positions.diff(dim=0).norm(dim=-1))


def _turns(trajectory: Trajectory) -> Tensor:  # -> [max(T - 1, 1)] degrees
    rotations = trajectory.rotations
    return _or_zero(se3.rotation_angle(rotations[:-1].transpose(-1, -2) @ rotations[1:]).rad2deg())


def _or_zero(values: Tensor) -> Tensor:
    return values if len(values) else values.new_zeros(1)


def _horizontal_fov(trajectory: Trajectory) -> Tensor:  # -> [T] degrees
    """Angle from the left edge of the image to the right edge, on the row of the principal point."""
    centre_y = trajectory.intrinsics[:, 1, 2]
    edges = [torch.stack([torch.full_like(centre_y, x), centre_y], dim=-1) for x in (0.0, float(trajectory.width))]
    left, right = (lens.pixel_rays(trajectory.intrinsics, edge, trajectory.xi) for edge in edges)
    return (torch.atan2(right[:, 0], right[:, 2]) - torch.atan2(left[:, 0], left[:, 2])).rad2deg()


def _moment_statistics(trajectory: Trajectory, rows: int, columns: int) -> MomentStatistics:
    moment = moment_magnitudes(trajectory, (rows, columns)).flatten()
    ordered = moment.sort().values
    low, median, high = (float(ordered[round(q * (len(ordered) - 1))]) for q in (0.05, 0.5, 0.95))
    zero_fraction = float((moment <= plucker.MIN_MOMENT).double().mean())
    return MomentStatistics(median, low, high, zero_fraction)
