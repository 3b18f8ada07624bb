"""Epipolar lines: where the line of sight of one pixel appears in another frame. Whatever the pixel shows lies on it."""

from __future__ import annotations

import torch
from torch import Tensor

from sightline.cameras import lens, se3
from sightline.cameras.trajectory import Trajectory

_NEAR, _FAR, _POINTS = 1e-2, 1e4, 400  # depths along the ray, in scene units, spaced evenly in their logarithm
_MIN_DEPTH = 1e-4


def epipolar_line(
    trajectory: Trajectory,
    frame: int,
    at: tuple[float, float],  # x, y in that frame, as fractions of the picture
    other: int,
) -> Tensor:  # [K, 2] pixels of the other frame, in order along the ray
    """The part of a pixel's ray that the other frame sees; empty where it sees none of it.

    If the two cameras are at one place, the whole ray is a single point.
    """
    pixel = torch.tensor([at[0] * trajectory.width, at[1] * trajectory.height], dtype=torch.float64)
    ray = lens.pixel_rays(trajectory.intrinsics[frame], pixel, trajectory.xi)
    depths = torch.logspace(torch.tensor(_NEAR).log10(), torch.tensor(_FAR).log10(), _POINTS, dtype=torch.float64)
    from_other = se3.inverse(trajectory.camera_to_world[other]) @ trajectory.camera_to_world[frame]
    points = (ray * depths[:, None]) @ from_other[:3, :3].T + from_other[:3, 3]
    pixels = lens.project(trajectory.intrinsics[other], points, trajectory.xi)
    x, y = pixels.unbind(-1)
    seen = (points[:, 2] > _MIN_DEPTH) & (x >= 0) & (x <= trajectory.width) & (y >= 0) & (y <= trajectory.height)
    inside = seen.nonzero()[:, 0]
    if not len(inside):
        return pixels.new_zeros(0, 2)
    # One point beyond each end, where it is in front, so that the line reaches the edge of the picture.
    first, last = int(inside[0]), int(inside[-1])
    first -= first > 0 and bool(points[first - 1, 2] > _MIN_DEPTH)
    last += last < _POINTS - 1 and bool(points[last + 1, 2] > _MIN_DEPTH)
    return pixels[first : last + 1]
