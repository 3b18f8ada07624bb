"""Oriented lines in Pluecker coordinates (d, m): direction and moment, m = p x d for any point p on the line."""

from __future__ import annotations

import torch
from torch import Tensor

MIN_MOMENT = 1e-6  # the paper's epsilon on |m|


def line_through(origin: Tensor, direction: Tensor) -> Tensor:  # [..., 3], [..., 3] -> [..., 6]
    """The line (d, o x d) through a point. The direction is not normalised."""
    origin, direction = torch.broadcast_tensors(origin, direction)
    return torch.cat([direction, torch.linalg.cross(origin, direction)], dim=-1)


def reciprocal_product(a: Tensor, b: Tensor) -> Tensor:  # [..., 6], [..., 6] -> [...]
    """d_a . m_b + d_b . m_a: zero exactly when the lines meet, are parallel or are equal.

    For unit directions it is the distance between the lines times the sine of the angle between them, with a sign.
    """
    return (a[..., :3] * b[..., 3:]).sum(-1) + (a[..., 3:] * b[..., :3]).sum(-1)


def split_moment(
    moment: Tensor, min_norm: float = MIN_MOMENT
) -> tuple[Tensor, Tensor]:  # [..., 3] -> [..., 3], [..., 1]
    """Unit moment m / n and log n, with the magnitude n = max(|m|, min_norm). A zero moment gives (0, log min_norm)."""
    magnitude = moment.norm(dim=-1, keepdim=True).clamp_min(min_norm)
    return moment / magnitude, magnitude.log()


def closest_point_to_origin(line: Tensor) -> Tensor:  # [..., 6] -> [..., 3]
    """The foot of the perpendicular from the origin, d x m / |d|^2."""
    direction, moment = line[..., :3], line[..., 3:]
    return torch.linalg.cross(direction, moment) / (direction * direction).sum(-1, keepdim=True)
