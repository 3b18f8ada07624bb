"""The memory of HY-WorldPlay: which earlier latent frames a chunk sees, chosen by how much of its view they show."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from sightline.backbones.wan_configs import HY_CHUNK
from sightline.cameras import se3

_RECENT, _MEMORY = 12, HY_CHUNK  # latent frames before a chunk, and those of one earlier chunk
WINDOW = _RECENT + _MEMORY
# As the release measures it: by points in a sphere of this radius, in a view of these angles, whatever the lens is.
_POINTS, _RADIUS = 50_000, 8.0
_HALF_AZIMUTH, _HALF_ELEVATION = 30.0, 17.5


def context_frames(world_to_camera: Tensor, start: int) -> list[int]:  # [t, 4, 4]
    """The latent frames that the chunk which begins at `start` sees, in order: all earlier ones while they are few, then the
    latest twelve and the earlier chunk whose view overlaps most with its own."""
    if start < WINDOW:
        return list(range(start))
    query = world_to_camera[start : start + HY_CHUNK]
    chunks = range(0, start - _RECENT, HY_CHUNK)
    seen = [overlap(query, world_to_camera[[first, first + 2]]) for first in chunks]
    best = chunks[seen.index(max(seen))]
    return [*range(best, best + _MEMORY), *range(start - _RECENT, start)]


def overlap(query: Tensor, earlier: Tensor) -> float:  # [q, 4, 4], [e, 4, 4], world to camera
    """The share of the points in view of a camera that an earlier one has in view too, averaged over all pairs."""
    points = _points_in_view().to(query)  # [P, 3], in the axes of the query
    poses = query[:, None] @ se3.inverse(earlier)  # [q, e, 4, 4]
    to_points = points - poses[..., None, :3, 3]  # [q, e, P, 3]
    azimuth, elevation = _angles(to_points)
    forward_azimuth, forward_elevation = _angles(poses[..., None, :3, 2])  # [q, e, 1]
    turned = torch.remainder(azimuth - forward_azimuth + 180, 360) - 180
    in_view = (turned.abs() < _HALF_AZIMUTH) & ((elevation - forward_elevation).abs() < _HALF_ELEVATION)
    return float((in_view & (to_points.norm(dim=-1) < _RADIUS)).double().mean())


@cache
def _points_in_view() -> Tensor:  # [P, 3]
    """Points spread evenly over the part of the sphere that a camera in its middle sees. Always the same ones."""
    generator = torch.Generator().manual_seed(0)
    distance, turn, height = torch.rand(3, _POINTS, generator=generator, dtype=torch.float64)
    up = 1 - 2 * height
    around = (1 - up.square()).sqrt()
    directions = torch.stack([around * (2 * math.pi * turn).cos(), around * (2 * math.pi * turn).sin(), up], dim=-1)
    points = _RADIUS * distance.pow(1 / 3)[:, None] * directions
    azimuth, elevation = _angles(points)
    return points[(azimuth.abs() < _HALF_AZIMUTH) & (elevation.abs() < _HALF_ELEVATION)]


def _angles(vectors: Tensor) -> tuple[Tensor, Tensor]:  # [..., 3] -> 2 x [...] degrees
    """Around the vertical axis, from forward, and from the horizontal plane."""
    x, y, z = vectors.unbind(-1)
    return torch.atan2(x, z).rad2deg(), torch.atan2(y, (x.square() + z.square()).sqrt()).rad2deg()
