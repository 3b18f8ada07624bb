"""Rotation vectors and Bezier curves of rotations, for splines through keys."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from sightline.cameras import se3

_SMALL = 1e-12


def log_rotation(rotation: Tensor) -> Tensor:  # [..., 3, 3] -> [..., 3]
    """Axis times angle, of the shorter way around."""
    quaternion = se3.rotation_to_quaternion(rotation)  # w >= 0
    sine = quaternion[..., 1:].norm(dim=-1, keepdim=True)
    angle = 2 * torch.atan2(sine, quaternion[..., :1])
    return quaternion[..., 1:] * torch.where(sine < _SMALL, torch.full_like(sine, 2.0), angle / sine.clamp_min(_SMALL))


def exp_rotation(vector: Tensor) -> Tensor:  # [..., 3] -> [..., 3, 3]
    """The inverse of `log_rotation`."""
    angle = vector.norm(dim=-1, keepdim=True)
    scale = torch.where(angle < _SMALL, torch.full_like(angle, 0.5), (angle / 2).sin() / angle.clamp_min(_SMALL))
    return se3.quaternion_to_rotation(torch.cat([(angle / 2).cos(), scale * vector], dim=-1))


def bezier(start: Tensor, end: Tensor, leave: Tensor, arrive: Tensor, u: Tensor) -> Tensor:  # [3, 3] x2, [3] x2, [S]
    """Rotations [S, 3, 3] from start to end with these angular velocities per unit of u, in the axes of the rotations.

    De Casteljau's construction, with the shorter arc in place of a line.
    """
    points = [start, start @ exp_rotation(leave / 3), end @ exp_rotation(-arrive / 3), end]
    rows = [point.expand(len(u), 3, 3) for point in points]
    while len(rows) > 1:
        rows = [se3.slerp(a, b, u) for a, b in pairwise(rows)]
    return rows[0]
