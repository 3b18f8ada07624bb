"""Rotary embeddings, and the slow temporal channels that some encodings use for the camera.

A head's channels are rotated in pairs (2p, 2p+1): the first by the frame index, the others by row and column. The second half
of the temporal pairs rotates so slowly (at most 0.2 rad over 21 latent frames, at 128 channels) that it is nearly unused.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sightline.errors import SightlineError

SLOT_PAIRS = 10  # at 128 channels a head; no encoding has more phases


class TemporalChannels(NamedTuple):
    """Channel indices within a head: the slow half of the temporal channels, and the camera's slot at its end."""

    slow: int  # start of the slow half
    slot: int  # start of the slot, as many 4-blocks as fit into the slow half (5 at 128 channels)
    end: int  # end of both, exclusive


def temporal_channels(head_dim: int) -> TemporalChannels:
    """Slow half and slot of a head: 22 .. 43 and 24 .. 43 at 128 channels. Heads too narrow for a block of four are refused."""
    end = head_dim - 4 * (head_dim // 6)  # rows and columns take 2 (D // 6) each, time the rest
    slow = 2 * (end // 2 // 2)
    width = min(slow - slow % 4, 2 * SLOT_PAIRS)
    if width == 0:
        raise SightlineError(
            f"head_dim is {head_dim}, of which {slow} are slow temporal channels: expected at least four, as 24 have."
        )
    return TemporalChannels(end - slow, end - width, end)


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # [B, N, H, D], [1, N, 1, D] x2 -> [B, N, H, D]
    """Wan's rotary embedding, pairs (2p, 2p+1), in diffusers' own order of operations, so that results are bit-identical."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[..., 0::2], sin[..., 1::2]
    rotated = torch.empty_like(x)
    rotated[..., 0::2] = even * cos - odd * sin
    rotated[..., 1::2] = even * sin + odd * cos
    return rotated.type_as(x)


def rope_except(
    x: Tensor,  # [B, N, H, D]
    rotary: tuple[Tensor, Tensor],  # 2 x [1, N, 1, D]
    start: int,
    new: Tensor,  # [B, N, H, C]
    present: Tensor,  # [B or 1, N, 1] bool
) -> Tensor:  # [B, N, H, D]
    """RoPE on x, except that the C channels from `start` on are `new`. A token without a camera keeps its native channels."""
    native, end = apply_rope(x, *rotary), start + new.shape[-1]
    new = torch.where(present[..., None], new.to(x.dtype), native[..., start:end])
    return torch.cat([native[..., :start], new, native[..., end:]], dim=-1)


def multiply_blocks(x: Tensor, matrix: Tensor) -> Tensor:  # [B, N, H, 4 c], [B or 1, N, 4, 4] -> [B, N, H, 4 c]
    """Multiply each run of four channels, as a vector, by its token's matrix, in the dtype of the matrix."""
    blocks = x.to(matrix.dtype).unflatten(-1, (-1, 4)).flatten(2, 3)  # [B, N, H c, 4]
    return (blocks @ matrix.transpose(-1, -2)).unflatten(2, (x.shape[2], -1)).flatten(3)
