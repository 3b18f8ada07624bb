"""How all kernels cut their work: where a token lies, how wide a block is, and runs of tokens with partial sums of their own."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _place(row, length):  # -> row, clip, place in the clip
    clip = row // length  # counted in 32 bits, which divide fast; offsets need 64
    return row.to(tl.int64), clip.to(tl.int64), (row - clip * length).to(tl.int64)


def dense(x: Tensor) -> Tensor:
    """With channels side by side in memory; other strides are the kernels' own business."""
    return x if x.stride(-1) == 1 else x.contiguous()


def block_of(most: int, dim: int) -> int:
    """Channels of a block: no more than the model needs, and what a matrix product takes at least."""
    return min(most, max(16, triton.next_power_of_2(dim)))


def runs_of(rows: int, tokens: int, most: int) -> tuple[int, int]:
    """Tokens of one run, whole tiles of them, and how many runs (`most` at most): each has partial sums of its own."""
    tiles = max(1, triton.cdiv(rows, tokens))
    run = triton.cdiv(tiles, min(most, tiles)) * tokens
    return run, triton.cdiv(rows, run)
