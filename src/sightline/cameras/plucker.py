"""Lines in space as Pluecker coordinates (d, m): direction and moment m = o x d of any point o on the line."""

from __future__ import annotations

import torch
from torch import Tensor

MOMENT_FLOOR = 1e-6  # the paper's epsilon on |m|


def line_through(origin: Tensor, direction: Tensor) -> Tensor:  # [..., 3], [..., 3] -> [..., 6]
    """(d, o x d). The direction is taken as it comes: normalise it first if a unit direction is meant."""
    origin, direction = torch.broadcast_tensors(origin, direction)
    return torch.cat([direction, torch.linalg.cross(origin, direction)], dim=-1)


def reciprocal_product(a: Tensor, b: Tensor) -> Tensor:  # [..., 6], [..., 6] -> [...]
    """d_a . m_b + d_b . m_a: zero exactly when the lines meet, are parallel or are equal.

    For unit directions it is the distance between the lines times the sine of the angle between them, with a sign.
    """
    return (a[..., :3] * b[..., 3:]).sum(-1) + (a[..., 3:] * b[..., :3]).sum(-1)


def move(motion: Tensor, line: Tensor) -> Tensor:  # [..., 4, 4], [..., 6] -> [..., 6]
    """The rigid motion (R, t) acting on a line: (R d, R m + t x R d)."""
    rotation, translation = motion[..., :3, :3], motion[..., :3, 3]
    direction = (rotation @ line[..., :3, None])[..., 0]
    moment = (rotation @ line[..., 3:, None])[..., 0]
    translation, direction = torch.broadcast_tensors(translation, direction)
    return torch.cat([direction, moment + torch.linalg.cross(translation, direction)], dim=-1)


def split_moment(
    moment: Tensor, floor: float = MOMENT_FLOOR
) -> tuple[Tensor, Tensor]:  # [..., 3] -> [..., 3], [..., 1]
    """Unit moment and log magnitude: m / max(|m|, floor) and log max(|m|, floor). A zero moment gives (0, log floor)."""
    magnitude = moment.norm(dim=-1, keepdim=True).clamp_min(floor)
    return moment / magnitude, magnitude.log()


def closest_point_to_origin(line: Tensor) -> Tensor:  # [..., 6] -> [..., 3]
    """The foot of the perpendicular from the origin, d x m / |d|^2."""
    direction, moment = line[..., :3], line[..., 3:]
    return torch.linalg.cross(direction, moment) / (direction * direction).sum(-1, keepdim=True)
