"""Trajectories as a figure needs them: camera centres, frusta and colours in the axes right, forward, up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from sightline.cameras.trajectory import Trajectory
from sightline.figures.style import COLOURS

_FRUSTUM_SIZE = 0.1  # depth of a frustum over the extent of the trajectories
_MIN_FRUSTA, _MAX_FRUSTA = 7, 17  # along one trajectory: as many as its length has room for, side by side
_FIRST_TO_LAST = LinearSegmentedColormap.from_list("first to last", ["#20456f", "#3b8ea5", "#e9a23b", "#c8452c"])


@dataclass(frozen=True)
class TrajectoryView:
    """One anchored trajectory as numpy arrays, in the axes of the figure: right, forward, up."""

    trajectory: Trajectory
    colours: np.ndarray  # [T, 3]
    frustum_depth: float
    weight: float = 1.0  # of its lines: the first of several is wider, so that it shows beneath one on the same path

    @cached_property
    def centres(self) -> np.ndarray:  # [T, 3]
        return _right_forward_up(self.trajectory.positions.numpy())

    @cached_property
    def corners(self) -> np.ndarray:  # [T, 4, 3], clockwise from the top left
        """Corners of the picture, `frustum_depth` in front of each camera; a lens with xi is drawn as a pinhole."""
        width, height, intrinsics = self.trajectory.width, self.trajectory.height, self.trajectory.intrinsics.numpy()
        pixels = np.array([(0, 0), (width, 0), (width, height), (0, height)], dtype=float)
        focal, centre = intrinsics[:, None, (0, 1), (0, 1)], intrinsics[:, None, :2, 2]
        in_plane = (pixels - centre) / focal
        rays = np.concatenate([in_plane, np.ones_like(in_plane[..., :1])], axis=-1) * self.frustum_depth
        rotations = self.trajectory.rotations.numpy()
        return _right_forward_up(rays @ rotations.transpose(0, 2, 1) + self.trajectory.positions.numpy()[:, None])

    @cached_property
    def points(self) -> np.ndarray:  # [5 T, 3]
        """Everything that has to fit into a panel."""
        return np.concatenate([self.centres, self.corners.reshape(-1, 3)])

    @cached_property
    def shown(self) -> list[int]:
        """Frames whose frustum is drawn: evenly spaced in time, always the first and the last, no view twice in a row."""
        length = np.linalg.norm(np.diff(self.centres, axis=0), axis=-1).sum()
        room = round(_FRUSTUM_SIZE * length / self.frustum_depth * _MIN_FRUSTA)
        count = min(max(room, _MIN_FRUSTA), _MAX_FRUSTA)
        shown: list[int] = []
        for frame in np.linspace(0, len(self.centres) - 1, count).round().astype(int).tolist():
            if not shown or np.abs(self.corners[frame] - self.corners[shown[-1]]).max() > 1e-6 * self.frustum_depth:
                shown.append(frame)
        return shown

    @property
    def ends(self) -> list[int]:
        return sorted({self.shown[0], self.shown[-1]})


def trajectory_views(trajectories: Sequence[Trajectory]) -> list[TrajectoryView]:
    anchored = [one.anchored() for one in trajectories]
    extent = max(float(np.ptp(one.positions.numpy(), axis=0).max()) for one in anchored)
    rounding = 1e-12 * max(float(one.positions.abs().max()) for one in trajectories)
    depth = _FRUSTUM_SIZE * extent if extent > rounding else 1.0
    views = []
    for index, one in enumerate(anchored):
        if len(anchored) == 1:
            colours = _FIRST_TO_LAST(np.linspace(0, 1, len(one)))[:, :3]
        else:
            colours = np.tile(to_rgb(COLOURS[index % len(COLOURS)]), (len(one), 1))
        views.append(TrajectoryView(one, colours, depth, 2.0 if index == 0 and len(anchored) > 1 else 1.0))
    return views


def _right_forward_up(points: np.ndarray) -> np.ndarray:  # [..., 3] x right, y down, z forward -> [..., 3]
    return np.stack([points[..., 0], points[..., 2], -points[..., 1]], axis=-1)
