"""How all kernels divide their work: the position of a token, the width of a block, and runs of tokens."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _place(row, length):  # -> row, clip, position in the clip
    clip = row // length  # divided in 32 bits, which is fast; offsets need 64
    return row.to(tl.int64), clip.to(tl.int64), (row - clip * length).to(tl.int64)


@triton.jit
def _places(first, rows, length, tokens: tl.constexpr):  # -> row, whether it exists, its clip, its position in the clip
    row, clip, position = _place(first + tl.arange(0, tokens), length)
    return row, row < rows, clip, position


def dense(x: Tensor) -> Tensor:
    """The tensor with contiguous channels. The kernels accept any other strides."""
    return x if x.stride(-1) == 1 else x.contiguous()


def block_of(most: int, dim: int) -> int:
    """The number of channels in a block: at most `most`, no more than the model needs, and at least 16 for matrix products."""
    return min(most, max(16, triton.next_power_of_2(dim)))


def runs_of(rows: int, tokens: int, most: int) -> tuple[int, int]:
    """The tokens of a run, a multiple of the tile, and the number of runs, at most `most`. Each run has its own partial sums."""
    tiles = max(1, triton.cdiv(rows, tokens))
    run = triton.cdiv(tiles, min(most, tiles)) * tokens
    return run, triton.cdiv(rows, run)


def tile(settings: dict[str, int], dim: int) -> dict[str, int]:
    """The settings of a launch, with a block no wider than the model needs."""
    return settings | {"block": block_of(settings["block"], dim)}
