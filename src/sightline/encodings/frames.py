"""Camera frames as matrices, and attention in relative frames (with the channel layout of GTA and PRoPE).

A token with the frame M (from the world to its camera, or to its ray) attends with M^T q, M^-1 k and M^-1 v, and M is applied
to the result. Scores and values then depend on M_i M_j^-1 only, so a rigid motion of the whole world cancels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.tokens import INTRINSICS, POSITION, WORLD_TO_CAMERA, has_camera
from sightline.encodings.protocol import Attend
from sightline.encodings.rotary import multiply_blocks
from sightline.errors import SightlineError

ROPE_BASE = 100.0  # of the rotary embedding by row and column, as published


def world_to_camera(camera_rows: Tensor) -> Tensor:  # [B, N, 90] -> [B, N, 4, 4]
    """Each token's pose; the identity where there is no camera."""
    pose = camera_rows[..., WORLD_TO_CAMERA].unflatten(-1, (3, 4))
    pose = se3.from_parts(pose[..., :3], pose[..., 3])
    identity = torch.eye(4, dtype=camera_rows.dtype, device=camera_rows.device)
    return torch.where(has_camera(camera_rows)[..., None], pose, identity)


def projection(
    camera_rows: Tensor,  # [B, N, 90]
    lens: tuple[float, float] | None = None,  # fx / W and fy / H in place of the rows' own lens, centred
) -> tuple[Tensor, Tensor]:  # 2 x [B, N, 4, 4]
    """P = lift(K) T and its inverse, K normalised: fx / W, fy / H, cx / W - 1/2, cy / H - 1/2."""
    fx, fy, cx, cy = camera_rows[..., INTRINSICS].unbind(-1)
    if lens is not None:
        fx, fy, cx, cy = (torch.full_like(fx, value) for value in (*lens, 0.0, 0.0))
    present, pose = has_camera(camera_rows)[..., 0], world_to_camera(camera_rows)
    fx, fy = torch.where(present, fx, 1.0), torch.where(present, fy, 1.0)  # so that a row of zeros gives the identity
    return _lift(fx, fy, cx, cy) @ pose, se3.inverse(pose) @ _lift(1 / fx, 1 / fy, -cx / fx, -cy / fy)


def _lift(fx: Tensor, fy: Tensor, cx: Tensor, cy: Tensor) -> Tensor:  # 4 x [...] -> [..., 4, 4]
    zero, one = torch.zeros_like(fx), torch.ones_like(fx)
    rows = (fx, zero, cx, zero, zero, fy, cy, zero, zero, zero, one, zero, zero, zero, zero, one)
    return torch.stack(rows, dim=-1).unflatten(-1, (4, 4))


def require_frame_layout(head_dim: int, whole_heads: bool = False) -> None:
    """Refuse heads that cannot be split into 4x4 blocks (half of the channels) and pairs for column and row (a quarter each)."""
    if whole_heads:
        if head_dim % 4:
            raise SightlineError(
                f"head_dim is {head_dim}: expected a multiple of 4, for 4x4 blocks on all of each head."
            )
    elif head_dim % 8:
        raise SightlineError(f"head_dim is {head_dim}: expected a multiple of 8, for 4x4 blocks on half of each head.")


def attend_in_frames(
    query: Tensor,  # [B, N, H, D]
    key: Tensor,  # [B, N, H, D]
    value: Tensor,  # [B, N, H, D]
    matrix: Tensor,  # [B or 1, N, 4, 4]
    inverse: Tensor,  # [B or 1, N, 4, 4]
    camera_rows: Tensor,  # [B or 1, N, 90]
    attend: Attend,
    whole_heads: bool = False,
) -> Tensor:  # [B, N, H, D]
    """Attention with half of each head in the token's frame, a quarter rotated by its column and a quarter by its row.

    Values are transformed like keys. whole_heads: all of each head is in the frame, and nothing is rotated.
    """
    if whole_heads:
        with torch.autocast(query.device.type, enabled=False):
            query = multiply_blocks(query, matrix.transpose(-1, -2)).to(value.dtype)
            key, framed = (multiply_blocks(x, inverse).to(value.dtype) for x in (key, value))
        output = attend(query, key, framed)
        with torch.autocast(query.device.type, enabled=False):
            return multiply_blocks(output, matrix).to(value.dtype)
    with torch.autocast(query.device.type, enabled=False):
        row, column = (rotations(camera_rows[..., POSITION][..., axis], query.shape[-1] // 4) for axis in (0, 1))
        query = _transform(query, matrix.transpose(-1, -2), column, row).to(value.dtype)
        key = _transform(key, inverse, column, row).to(value.dtype)
        framed = _transform(value, inverse, column, row).to(value.dtype)
    output = attend(query, key, framed)
    with torch.autocast(query.device.type, enabled=False):
        back = _transform(output, matrix, (column[0], -column[1]), (row[0], -row[1]))
    return back.to(value.dtype)


def rotations(position: Tensor, width: int) -> tuple[Tensor, Tensor]:  # [B, N] -> cos, sin [B, N, 1, width / 2]
    """Rotary tables of positions along one axis."""
    pairs = torch.arange(width // 2, dtype=position.dtype, device=position.device)
    angle = position[..., None, None] * ROPE_BASE ** (-pairs / len(pairs))
    return angle.cos(), angle.sin()


def _transform(x: Tensor, matrix: Tensor, column: tuple[Tensor, Tensor], row: tuple[Tensor, Tensor]) -> Tensor:
    quarter = x.shape[-1] // 4
    framed, by_column, by_row = x.split([2 * quarter, quarter, quarter], dim=-1)
    return torch.cat([multiply_blocks(framed, matrix), _rotate(by_column, *column), _rotate(by_row, *row)], dim=-1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # pairs (p, p + half) by minus the angle, as published
    first, second = x.to(cos.dtype).chunk(2, dim=-1)
    return torch.cat([cos * first + sin * second, cos * second - sin * first], dim=-1)
