"""The gradient of `qk` through QKNorm and RoPE. `camera_backward_triton` has the gradient of the camera's weights.

`_along_rows` computes, for each token, the sums over the width that the gradient of a norm needs. `_along_columns` has a block of
channels and a run of tokens: it writes the gradients of query and key, and sums those of the norms' weights over its run. Partial
sums are added in a fixed order, without atomics, so the same inputs always give the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.kernels.camera_backward_triton import RUNS, camera_backward
from sightline.kernels.qk_common_triton import Call, _angles, _row, _turned
from sightline.kernels.tiles_triton import _places, runs_of, tile

ROWS = {"tokens": 32, "block": 128, "num_warps": 8, "num_stages": 1}  # see qk_triton.FORWARD
COLUMNS = {"tokens": 16, "block": 128, "num_warps": 4, "num_stages": 2}


@triton.jit
def _eights(x, tokens: tl.constexpr, block: tl.constexpr):  # [T, BLOCK] -> [T, BLOCK / 8]
    """Sums over eight channels of one thread: they need an eighth of the registers and no exchange between threads."""
    return tl.sum(tl.reshape(x, (tokens, block // 8, 8)), axis=2)


@triton.jit
def _along_rows(
    grad_query, grad_key, query, key, statistics, norm_query, norm_key, cos, sin,
    rows, length, query_batch, query_row, key_batch, key_row, eps,
    dim: tl.constexpr, head_dim: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    full_blocks: tl.constexpr = dim % block == 0
    same_angles: tl.constexpr = block % head_dim == 0
    row, known, clip, position = _places(tl.program_id(0) * tokens, rows, length, tokens)
    query += (clip * query_batch + position * query_row)[:, None]
    key += (clip * key_batch + position * key_row)[:, None]
    square_q = tl.zeros((tokens, block // 8), tl.float32)
    square_k = tl.zeros((tokens, block // 8), tl.float32)
    along_q = tl.zeros(
        (tokens, block // 8), tl.float32
    )  # gradient times input, whose mean the norm's gradient subtracts
    along_k = tl.zeros((tokens, block // 8), tl.float32)
    if same_angles:
        turn_cos, turn_sin = _angles(cos, sin, position, known, 0, head_dim, block)

    for start in range(0, dim, block):
        channel = start + tl.arange(0, block)
        here = known[:, None] if full_blocks else known[:, None] & (channel < dim)[None, :]
        if not same_angles:
            turn_cos, turn_sin = _angles(cos, sin, position, known, start, head_dim, block)
        from_ = row[:, None] * dim + channel[None, :]
        grad = tl.load(grad_query + from_, mask=here, other=0.0).to(tl.float32)
        x = tl.load(query + channel[None, :], mask=here, other=0.0).to(tl.float32)
        back = _turned(grad, turn_cos, -turn_sin, tokens, block)
        square_q += _eights(x * x, tokens, block)
        along_q += _eights(back * _row(norm_query, channel, dim, full_blocks) * x, tokens, block)
        grad = tl.load(grad_key + from_, mask=here, other=0.0).to(tl.float32)
        x = tl.load(key + channel[None, :], mask=here, other=0.0).to(tl.float32)
        back = _turned(grad, turn_cos, -turn_sin, tokens, block)
        square_k += _eights(x * x, tokens, block)
        along_k += _eights(back * _row(norm_key, channel, dim, full_blocks) * x, tokens, block)

    scale_q = 1.0 / tl.sqrt(tl.sum(square_q, axis=1) / dim + eps)
    scale_k = 1.0 / tl.sqrt(tl.sum(square_k, axis=1) / dim + eps)
    statistics += row * 4
    tl.store(statistics, scale_q, mask=known)
    tl.store(statistics + 1, tl.sum(along_q, axis=1) * scale_q / dim, mask=known)
    tl.store(statistics + 2, scale_k, mask=known)
    tl.store(statistics + 3, tl.sum(along_k, axis=1) * scale_k / dim, mask=known)


@triton.jit
def _along_columns(
    grad_query, grad_key, query, key, new_query, new_key, statistics, sums, run, norm_query, norm_key, cos, sin,
    rows, length, query_batch, query_row, key_batch, key_row,
    dim: tl.constexpr, head_dim: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    full_blocks: tl.constexpr = dim % block == 0
    start, part = tl.program_id(0) * block, tl.program_id(1).to(tl.int64)
    channel = start + tl.arange(0, block)
    weight_q, weight_k = _row(norm_query, channel, dim, full_blocks), _row(norm_key, channel, dim, full_blocks)
    sum_q = tl.zeros((tokens, block), tl.float32)
    sum_k = tl.zeros((tokens, block), tl.float32)

    for first in range(0, run, tokens):
        row, known, clip, position = _places(tl.program_id(1) * run + first, rows, length, tokens)
        here = known[:, None] if full_blocks else known[:, None] & (channel < dim)[None, :]
        at = row[:, None] * dim + channel[None, :]
        of = statistics + row * 4
        turn_cos, turn_sin = _angles(cos, sin, position, known, start, head_dim, block)

        scale, mean = tl.load(of, mask=known, other=0.0)[:, None], tl.load(of + 1, mask=known, other=0.0)[:, None]
        grad = tl.load(grad_query + at, mask=here, other=0.0).to(tl.float32)
        from_ = (clip * query_batch + position * query_row)[:, None] + channel[None, :]
        x = tl.load(query + from_, mask=here, other=0.0).to(tl.float32) * scale
        back = _turned(grad, turn_cos, -turn_sin, tokens, block)
        sum_q += back * x
        tl.store(new_query + at, (scale * (back * weight_q - x * mean)).to(new_query.dtype.element_ty), mask=here)

        scale, mean = tl.load(of + 2, mask=known, other=0.0)[:, None], tl.load(of + 3, mask=known, other=0.0)[:, None]
        grad = tl.load(grad_key + at, mask=here, other=0.0).to(tl.float32)
        from_ = (clip * key_batch + position * key_row)[:, None] + channel[None, :]
        x = tl.load(key + from_, mask=here, other=0.0).to(tl.float32) * scale
        back = _turned(grad, turn_cos, -turn_sin, tokens, block)
        sum_k += back * x
        tl.store(new_key + at, (scale * (back * weight_k - x * mean)).to(new_key.dtype.element_ty), mask=here)

    to = sums + 2 * part * dim + channel
    tl.store(to, tl.sum(sum_q, axis=0), mask=channel < dim)
    tl.store(to + dim, tl.sum(sum_k, axis=0), mask=channel < dim)


def qk_backward(grad_query: Tensor, grad_key: Tensor, *arguments: Any) -> list[Tensor]:
    """See `reference.qk_backward`."""
    call = Call(*arguments)
    grads = (grad_query.contiguous(), grad_key.contiguous())
    both = (*grads, call.query, call.key)
    inputs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (call.query, call.key)]
    tables, shapes = (*call.norms, *call.angles), {"dim": call.dim, "head_dim": call.angles[0].shape[-1]}
    # For query and key each: 1 / RMS, and the mean that the gradient subtracts.
    statistics = torch.empty(call.rows, 4, device=grad_query.device)
    _along_rows[(triton.cdiv(call.rows, ROWS["tokens"]),)](
        *both, statistics, *tables, *call.places, *call.strides, call.eps, **shapes, **tile(ROWS, call.dim)
    )  # fmt: skip
    columns = tile(COLUMNS, call.dim)
    run, runs = runs_of(call.rows, columns["tokens"], RUNS)
    sums = torch.empty(runs, 2, call.dim, device=grad_query.device)
    _along_columns[(triton.cdiv(call.dim, columns["block"]), runs)](
        *both, *inputs, statistics, sums, run, *tables, *call.places, *call.strides, **shapes, **columns
    )  # fmt: skip
    norms = [norm.clone() for norm in sums.sum(0)]  # the results of an operation may not share memory
    return [*inputs, *norms, *(camera_backward(call, call.camera, *grads) if call.camera is not None else [])]
