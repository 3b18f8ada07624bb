"""Rigid motions as 4x4 matrices: invert, anchor, interpolate. Every function takes and returns float64 or float32 tensors."""

from __future__ import annotations

import torch
from torch import Tensor

_SMALL = 1e-12


def inverse(pose: Tensor) -> Tensor:  # [..., 4, 4] -> [..., 4, 4]
    """Inverse of a rigid motion, through the transpose of its rotation."""
    rotation_transposed = pose[..., :3, :3].transpose(-1, -2)
    return from_parts(rotation_transposed, -(rotation_transposed @ pose[..., :3, 3:])[..., 0])


def from_parts(rotation: Tensor, translation: Tensor) -> Tensor:  # [..., 3, 3], [..., 3] -> [..., 4, 4]
    """Assemble 4x4 poses; the leading shapes broadcast."""
    # Not torch.broadcast_shapes, which imports sympy: most of a second.
    batch = torch.broadcast_tensors(rotation[..., 0, 0], translation[..., 0])[0].shape
    pose = torch.zeros(*batch, 4, 4, dtype=rotation.dtype, device=rotation.device)
    pose[..., :3, :3] = rotation
    pose[..., :3, 3] = translation
    pose[..., 3, 3] = 1.0
    return pose


def anchor(camera_to_world: Tensor, frame: int = 0) -> Tensor:  # [..., T, 4, 4] -> [..., T, 4, 4]
    """The poses in the coordinates of one of the cameras, which becomes exactly the identity."""
    anchored = inverse(camera_to_world[..., frame, :, :])[..., None, :, :] @ camera_to_world
    anchored[..., frame, :, :] = torch.eye(4, dtype=anchored.dtype, device=anchored.device)
    return anchored


def orthonormality_error(rotation: Tensor) -> Tensor:  # [..., 3, 3] -> [...]
    """max |R^T R - I|; infinite for a reflection, so that no tolerance accepts it."""
    identity = torch.eye(3, dtype=rotation.dtype, device=rotation.device)
    error = (rotation.transpose(-1, -2) @ rotation - identity).abs().amax(dim=(-1, -2))
    return torch.where(torch.linalg.det(rotation) > 0, error, torch.full_like(error, torch.inf))


def nearest_rotation(matrix: Tensor) -> Tensor:  # [..., 3, 3] -> [..., 3, 3]
    """The rotation closest in Frobenius norm (orthogonal Procrustes)."""
    u, _, vh = torch.linalg.svd(matrix)
    flip = torch.ones_like(matrix[..., 0])
    flip[..., 2] = torch.linalg.det(u @ vh).sign()
    return (u * flip[..., None, :]) @ vh


def axis_rotation(axis: str, angle: Tensor) -> Tensor:  # "x" | "y" | "z", [...] radians -> [..., 3, 3]
    """Right-handed rotation about one coordinate axis."""
    cos, sin = angle.cos(), angle.sin()
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    rows = {
        "x": (one, zero, zero, zero, cos, -sin, zero, sin, cos),
        "y": (cos, zero, sin, zero, one, zero, -sin, zero, cos),
        "z": (cos, -sin, zero, sin, cos, zero, zero, zero, one),
    }[axis]
    return torch.stack(rows, dim=-1).unflatten(-1, (3, 3))


def rotation_angle(rotation: Tensor) -> Tensor:  # [..., 3, 3] -> [...] radians in [0, pi]
    """Geodesic angle, from both sine and cosine so that small angles are accurate."""
    skew = rotation - rotation.transpose(-1, -2)
    sine = 0.5 * torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], dim=-1).norm(dim=-1)
    cosine = 0.5 * (rotation.diagonal(dim1=-2, dim2=-1).sum(-1) - 1.0)
    return torch.atan2(sine, cosine)


def quaternion_to_rotation(quaternion: Tensor) -> Tensor:  # [..., 4] (w, x, y, z) -> [..., 3, 3]
    """Rotation matrices of quaternions, which are normalised first."""
    w, x, y, z = (quaternion / quaternion.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    return torch.stack(rows, dim=-1).unflatten(-1, (3, 3))


def rotation_to_quaternion(rotation: Tensor) -> Tensor:  # [..., 3, 3] -> [..., 4] (w, x, y, z), w >= 0
    """Unit quaternions of rotation matrices: magnitudes from the diagonal, signs relative to the largest component."""
    m = rotation
    m00, m11, m22 = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    # Row i holds 4 q_i (q_w, q_x, q_y, q_z), so the row of the largest component is the best conditioned.
    w_row = (1 + m00 + m11 + m22, m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1])
    x_row = (w_row[1], 1 + m00 - m11 - m22, m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0])
    y_row = (w_row[2], x_row[2], 1 - m00 + m11 - m22, m[..., 1, 2] + m[..., 2, 1])
    z_row = (w_row[3], x_row[3], y_row[3], 1 - m00 - m11 + m22)
    rows = torch.stack([torch.stack(row, dim=-1) for row in (w_row, x_row, y_row, z_row)], dim=-2)
    largest = rows.diagonal(dim1=-2, dim2=-1).argmax(dim=-1)
    best = rows.gather(-2, largest[..., None, None].expand(*largest.shape, 1, 4))[..., 0, :]
    quaternion = best / best.norm(dim=-1, keepdim=True)
    return torch.where(quaternion[..., :1] < 0, -quaternion, quaternion)


def slerp(start: Tensor, end: Tensor, fraction: Tensor) -> Tensor:  # [..., 3, 3] x2, [...] in [0, 1] -> [..., 3, 3]
    """Constant-speed rotation along the shorter arc."""
    a, b = rotation_to_quaternion(start), rotation_to_quaternion(end)
    dot = (a * b).sum(-1, keepdim=True)
    b = torch.where(dot < 0, -b, b)
    angle = torch.atan2((b - a * dot.abs()).norm(dim=-1, keepdim=True), dot.abs())
    f = fraction[..., None]
    sine = angle.sin().clamp_min(_SMALL)
    # At zero angle the two quaternions are equal and any weights that sum to one are right.
    weight_a = torch.where(angle < 1e-9, 1 - f, ((1 - f) * angle).sin() / sine)
    weight_b = torch.where(angle < 1e-9, f, (f * angle).sin() / sine)
    return quaternion_to_rotation(weight_a * a + weight_b * b)


def interpolate(poses: Tensor, positions: Tensor) -> Tensor:  # [T, 4, 4], [S] in [0, T-1] -> [S, 4, 4]
    """Poses at fractional frame numbers: slerp for rotations, linear for translations. Poses at integers are exact."""
    low = positions.floor().long().clamp(0, poses.shape[0] - 1)
    high = (low + 1).clamp_max(poses.shape[0] - 1)
    fraction = (positions - low).to(poses.dtype)
    translation = torch.lerp(poses[low, :3, 3], poses[high, :3, 3], fraction[:, None])
    between = from_parts(slerp(poses[low, :3, :3], poses[high, :3, :3], fraction), translation)
    return torch.where((fraction == 0)[:, None, None], poses[low], between)
