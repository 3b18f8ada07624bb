"""The Triton kernel of `quantize_rows`: the largest magnitude of a row, its scale, and its numbers in FP8, in one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.kernels import INTERPRETED
from sightline.kernels.reference import FP8, FP8_MAX, FP8_SMALLEST
from sightline.kernels.tiles_triton import dense


@triton.jit
def _quantize(x, out, scales, dim, row_stride, most, smallest, gelu: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, block)
    inside = channel < dim
    value = tl.load(x + row * row_stride + channel, mask=inside, other=0.0).to(tl.float32)
    if gelu:  # the tanh form: 0.5 x (1 + tanh z) is x sigmoid(2 z)
        value = value * tl.sigmoid(1.5957691216057308 * (value + 0.044715 * value * value * value))
    scale = tl.maximum(tl.max(tl.abs(value), axis=0), smallest) / most
    tl.store(out + row * dim + channel, (value / scale).to(out.dtype.element_ty), mask=inside)
    tl.store(scales + row, scale)


def quantize_rows(x: Tensor, gelu: bool) -> tuple[Tensor, Tensor]:
    """See `reference.quantize_rows`."""
    rows = dense(x.flatten(0, -2))
    count, dim = rows.shape
    # Triton's interpreter loses the carry where FP8 rounds up to a power of two (125 becomes 64), so torch rounds there.
    out = torch.empty(count, dim, dtype=torch.float32 if INTERPRETED else FP8, device=x.device)
    scales = torch.empty(count, 1, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(dim)
    _quantize[(count,)](
        rows, out, scales, dim, rows.stride(0), FP8_MAX, FP8_SMALLEST, gelu=gelu, block=block, num_warps=_warps(block)
    )
    return out.to(FP8), scales


def _warps(block: int) -> int:
    return min(16, max(4, block // 1024))  # at most 32 numbers for each thread at the widths of 5B and 14B
