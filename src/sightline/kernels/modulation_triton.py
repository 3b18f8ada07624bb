"""Norms and residuals modulated by timestep, with a table of the distinct timesteps. They compute what `reference` defines.

A program holds one token at full width. The gradient of the table sums over the tokens of each row: it multiplies by the one-hot
matrix of the index, over a run of tokens, and torch adds up the partial sums of the runs. Each program of a large table has
some of its rows, and passes over tokens of other rows without reading them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.kernels.tiles_triton import _place, block_of, dense, runs_of

TOKENS, BLOCK = 32, 128  # tile of the table's gradient
RUNS = 64
ENTRIES = 64  # rows of the table that a program sums: their sums stay in registers


@triton.jit
def _modulate(x, shift, scale, index, out, length, dim, x_batch, x_row, table_row, index_batch, index_row, eps,
              block: tl.constexpr):  # fmt: skip
    row, clip, position = _place(tl.program_id(0), length)
    channel = tl.arange(0, block)
    inside = channel < dim
    entry = tl.load(index + clip * index_batch + position * index_row).to(tl.int64) * table_row
    value = tl.load(x + clip * x_batch + position * x_row + channel, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, value - tl.sum(value, axis=0) / dim, 0.0)
    unit = centred / tl.sqrt(tl.sum(centred * centred, axis=0) / dim + eps)
    result = unit * (1.0 + tl.load(scale + entry + channel, mask=inside, other=0.0))
    result += tl.load(shift + entry + channel, mask=inside, other=0.0)
    tl.store(out + row * dim + channel, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _modulate_backward(grad, x, scale, index, out, statistics, length, dim, x_batch, x_row, table_row, index_batch,
                       index_row, eps, block: tl.constexpr):  # fmt: skip
    row, clip, position = _place(tl.program_id(0), length)
    channel = tl.arange(0, block)
    inside = channel < dim
    entry = tl.load(index + clip * index_batch + position * index_row).to(tl.int64) * table_row
    value = tl.load(x + clip * x_batch + position * x_row + channel, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=0) / dim
    centred = tl.where(inside, value - mean, 0.0)
    deviation = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / dim + eps)
    unit = centred * deviation
    through = tl.load(grad + row * dim + channel, mask=inside, other=0.0).to(tl.float32)
    through *= 1.0 + tl.load(scale + entry + channel, mask=inside, other=0.0)
    result = deviation * (through - tl.sum(through, axis=0) / dim - unit * (tl.sum(through * unit, axis=0) / dim))
    tl.store(out + row * dim + channel, result.to(out.dtype.element_ty), mask=inside)
    tl.store(statistics + 2 * row, mean)
    tl.store(statistics + 2 * row + 1, deviation)


@triton.jit
def _add_gated(x, y, gate, index, out, length, dim, x_batch, x_row, y_batch, y_row, table_row, index_batch, index_row,
               add: tl.constexpr, block: tl.constexpr):  # fmt: skip
    row, clip, position = _place(tl.program_id(0), length)
    channel = tl.arange(0, block)
    inside = channel < dim
    entry = tl.load(index + clip * index_batch + position * index_row).to(tl.int64) * table_row
    result = tl.load(y + clip * y_batch + position * y_row + channel, mask=inside, other=0.0).to(tl.float32)
    result *= tl.load(gate + entry + channel, mask=inside, other=0.0)
    if add:
        result += tl.load(x + clip * x_batch + position * x_row + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * dim + channel, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _table_gradient(grad, x, statistics, index, of_grad, of_product, run, rows, length, dim, entries, x_batch, x_row,
                    index_batch, index_row, normed: tl.constexpr, padded: tl.constexpr, whole: tl.constexpr,
                    precision: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr):  # fmt: skip
    """Sums over the tokens of each table row: of grad times x or, if normed, of grad and of grad times the normed x."""
    channel, part = tl.program_id(0) * block + tl.arange(0, block), tl.program_id(1).to(tl.int64)
    inside = channel < dim
    entry = tl.program_id(2) * padded + tl.arange(0, padded)
    sum_grad = tl.zeros((padded, block), tl.float32)
    sum_product = tl.zeros((padded, block), tl.float32)
    for first in range(0, run, tokens):
        row, clip, position = _place(tl.program_id(1) * run + first + tl.arange(0, tokens), length)
        known = row < rows
        here = known[:, None] & inside[None, :]
        entry_of_token = tl.load(index + clip * index_batch + position * index_row, mask=known, other=-1)
        chosen = (entry[:, None] == entry_of_token[None, :]).to(tl.float32)  # [padded, T]
        wanted = True
        if not whole:  # a part of the table, which few tokens use
            wanted = tl.max(tl.max(chosen, axis=1), axis=0) > 0
        if wanted:
            slope = tl.load(grad + row[:, None] * dim + channel[None, :], mask=here, other=0.0).to(tl.float32)
            at = (clip * x_batch + position * x_row)[:, None] + channel[None, :]
            value = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
            if normed:
                mean = tl.load(statistics + 2 * row, mask=known, other=0.0)
                value = (value - mean[:, None]) * tl.load(statistics + 2 * row + 1, mask=known, other=0.0)[:, None]
                sum_grad += tl.dot(chosen, slope, input_precision=precision)
            sum_product += tl.dot(chosen, slope * value, input_precision=precision)
    to = (part * entries + entry[:, None]) * dim + channel[None, :]
    here = (entry < entries)[:, None] & inside[None, :]
    if normed:
        tl.store(of_grad + to, sum_grad, mask=here)
    tl.store(of_product + to, sum_product, mask=here)


def modulate(x: Tensor, shift: Tensor, scale: Tensor, index: Tensor, eps: float) -> Tensor:
    """See `reference.modulate`."""
    x, (shift, scale) = dense(x), _tables(shift, scale)
    batch, length, dim = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(dim)
    _modulate[(batch * length,)](
        x, shift, scale, index, out, length, dim, *x.stride()[:2], shift.stride(0), *index.stride(), eps,
        block=block, num_warps=_warps(block),
    )  # fmt: skip
    return out


def modulate_backward(
    grad: Tensor, x: Tensor, shift: Tensor, scale: Tensor, index: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """See `reference.modulate_backward`."""
    grad, x, (scale,) = grad.contiguous(), dense(x), _tables(scale)
    batch, length, dim = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    statistics = torch.empty(batch * length, 2, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(dim)
    _modulate_backward[(batch * length,)](
        grad, x, scale, index, out, statistics, length, dim, *x.stride()[:2], scale.stride(0), *index.stride(), eps,
        block=block, num_warps=_warps(block),
    )  # fmt: skip
    of_shift, of_scale = _by_row(grad, x, statistics, index, len(scale))
    return out, of_shift, of_scale


def add_gated(x: Tensor, y: Tensor, gate: Tensor, index: Tensor) -> Tensor:
    """See `reference.add_gated`."""
    return _gated(dense(x), y, gate, index, x.dtype)


def add_gated_backward(grad: Tensor, y: Tensor, gate: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """See `reference.add_gated_backward`."""
    grad, y = grad.contiguous(), dense(y)
    return _gated(None, grad, gate, index, y.dtype), _by_row(grad, y, None, index, len(gate))[0]


def _gated(x: Tensor | None, y: Tensor, gate: Tensor, index: Tensor, dtype: torch.dtype) -> Tensor:
    y, (gate,) = dense(y), _tables(gate)
    batch, length, dim = y.shape
    out = torch.empty(y.shape, dtype=dtype, device=y.device)
    base, block = y if x is None else x, triton.next_power_of_2(dim)
    _add_gated[(batch * length,)](
        base, y, gate, index, out, length, dim, *base.stride()[:2], *y.stride()[:2], gate.stride(0), *index.stride(),
        add=x is not None, block=block, num_warps=_warps(block),
    )  # fmt: skip
    return out


def _by_row(grad: Tensor, x: Tensor, statistics: Tensor | None, index: Tensor, entries: int) -> list[Tensor]:
    """Sums over the tokens of each row: of grad times x or, with statistics, of grad and of grad times the normed x."""
    batch, length, dim = x.shape
    run, parts = runs_of(batch * length, TOKENS, RUNS)
    normed = statistics is not None
    sums = torch.empty(1 + normed, parts, entries, dim, dtype=torch.float32, device=x.device)
    block = block_of(BLOCK, dim)
    padded = min(ENTRIES, max(16, triton.next_power_of_2(entries)))
    _table_gradient[(triton.cdiv(dim, block), parts, triton.cdiv(entries, padded))](
        grad, x, grad if statistics is None else statistics, index, sums[0], sums[-1], run, batch * length, length, dim,
        entries, *x.stride()[:2], *index.stride(), normed=normed,
        padded=padded, whole=entries <= padded, tokens=TOKENS, block=block,
        precision="ieee" if grad.dtype == torch.float32 else "tf32",  # 16-bit gradients are exact in tf32, and products nearly so
    )  # fmt: skip
    return [parts.sum(0) for parts in sums]  # separate tensors: the results of an operation may not share memory


def _tables(*tables: Tensor) -> list[Tensor]:
    """The tables in float32, with unit stride along the width and one row stride for all. Parts of one table are not copied."""
    tables = tuple(dense(table.float()) for table in tables)
    if len({table.stride(0) for table in tables}) > 1:
        tables = tuple(table.contiguous() for table in tables)
    return list(tables)


def _warps(block: int) -> int:
    return 4 if block <= 4096 else 8  # 4 was faster on an H200 at the width of 5B; wider blocks would spill registers
