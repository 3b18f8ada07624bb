"""QKNorm, RoPE and the camera's addition to query and key in one kernel. It computes what `reference.qk` defines.

A program holds a tile of tokens and goes over the width in blocks twice: once for the norms, then for everything else. The values
of a token (its features and its gate's hidden layer, from the table of `camera_tokens_triton`, and the norms) stay in registers;
the encoding itself only exists block by block.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.kernels.qk_common_triton import Call, _angles, _packed, _row, _sigmoid, _turned
from sightline.kernels.tiles_triton import _places, tile

# The tokens of a tile (at least 16, for the matrix products), the channels of a block, and Triton's compile options. Where a
# block holds entire heads, RoPE's angles are read once. benchmarks/tune_kernels.py times other values.
FORWARD = {"tokens": 32, "block": 128, "num_warps": 8, "num_stages": 1, "maxnreg": 128}
FORWARD_TIED = dict(FORWARD)  # of Sweep, whose products are deeper


@triton.jit
def _forward(
    query, key, out_query, out_key, norm_query, norm_key, cos, sin,
    table, about, packed, gate_out_bias, ray_norm_q, ray_norm_k, alpha_q, alpha_k,
    rows, length, query_batch, query_row, key_batch, key_row, eps,
    dim: tl.constexpr, head_dim: tl.constexpr, with_camera: tl.constexpr, tied: tl.constexpr, columns: tl.constexpr,
    padded: tl.constexpr, precision: tl.constexpr, fast: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    full_blocks: tl.constexpr = dim % block == 0
    same_angles: tl.constexpr = block % head_dim == 0  # in every block
    row, known, clip, position = _places(tl.program_id(0) * tokens, rows, length, tokens)
    query += (clip * query_batch + position * query_row)[:, None]
    key += (clip * key_batch + position * key_row)[:, None]

    square_q = tl.zeros((tokens, block), tl.float32)
    square_k = tl.zeros((tokens, block), tl.float32)
    for start in tl.range(0, dim, block, loop_unroll_factor=4):  # four loads in flight at once
        channel = start + tl.arange(0, block)[None, :]
        here = known[:, None] if full_blocks else known[:, None] & (channel < dim)
        x = tl.load(query + channel, mask=here, other=0.0).to(tl.float32)
        square_q += x * x
        x = tl.load(key + channel, mask=here, other=0.0).to(tl.float32)
        square_k += x * x
    scale_q = 1.0 / tl.sqrt(tl.sum(square_q, axis=1) / dim + eps)
    scale_k = 1.0 / tl.sqrt(tl.sum(square_k, axis=1) / dim + eps)

    if with_camera:
        width: tl.constexpr = columns + padded
        column, unit = tl.arange(0, columns)[None, :], tl.arange(0, padded)[None, :]
        from_ = table + row[:, None] * width
        features = tl.load(from_ + column, mask=known[:, None], other=0.0)
        activated = tl.load(from_ + columns + unit, mask=known[:, None], other=0.0)
        strength_q, strength_k = tl.load(alpha_q), tl.load(alpha_k)
        ray_scale_q = tl.load(about + row * 3, mask=known, other=0.0)[:, None]
        if not tied:
            ray_scale_q *= strength_q
            ray_scale_k = tl.load(about + row * 3 + 1, mask=known, other=0.0)[:, None] * strength_k
            feature_q = tl.where(column < columns // 2, features, 0.0).to(features.dtype)
            feature_k = tl.where(column < columns // 2, 0.0, features).to(features.dtype)
    if same_angles:
        turn_cos, turn_sin = _angles(cos, sin, position, known, 0, head_dim, block)

    # In reverse order, because the last blocks are still in the caches.
    for back in range(0, dim, block):
        start = (dim - 1) // block * block - back
        channel = start + tl.arange(0, block)
        here = known[:, None] if full_blocks else known[:, None] & (channel < dim)[None, :]
        if not same_angles:
            turn_cos, turn_sin = _angles(cos, sin, position, known, start, head_dim, block)
        x_q = tl.load(query + channel[None, :], mask=here, other=0.0).to(tl.float32)
        x_k = tl.load(key + channel[None, :], mask=here, other=0.0).to(tl.float32)
        if with_camera:
            last = _packed(packed, channel, columns, padded, width, dim, full_blocks)
            project = _packed(packed, channel, 0, columns, width, dim, full_blocks)
            logits = tl.dot(activated, last, input_precision=precision) + _row(gate_out_bias, channel, dim, full_blocks)
            gate = _sigmoid(logits, fast)
            # The change from the layout of products to that of loads goes through shared memory; 16 bits halve its size.
            if tied:
                both = gate * ray_scale_q * tl.dot(features, project, input_precision=precision)
                both = both.to(packed.dtype.element_ty).to(tl.float32)
                add_q = both * (_row(ray_norm_q, channel, dim, full_blocks) * strength_q)
                add_k = both * (_row(ray_norm_k, channel, dim, full_blocks) * strength_k)
            else:
                add_q = gate * ray_scale_q * tl.dot(feature_q, project, input_precision=precision)
                add_k = gate * ray_scale_k * tl.dot(feature_k, project, input_precision=precision)
                add_q, add_k = add_q.to(packed.dtype.element_ty), add_k.to(packed.dtype.element_ty)
        to = row[:, None] * dim + channel[None, :]
        new = scale_q[:, None] * _turned(
            x_q * _row(norm_query, channel, dim, full_blocks), turn_cos, turn_sin, tokens, block
        )
        if with_camera:
            new += add_q.to(tl.float32)
        tl.store(out_query + to, new.to(out_query.dtype.element_ty), mask=here)
        new = scale_k[:, None] * _turned(
            x_k * _row(norm_key, channel, dim, full_blocks), turn_cos, turn_sin, tokens, block
        )
        if with_camera:
            new += add_k.to(tl.float32)
        tl.store(out_key + to, new.to(out_key.dtype.element_ty), mask=here)


def qk(*arguments: Any) -> tuple[Tensor, Tensor]:
    """See `reference.qk`."""
    call = Call(*arguments)
    outputs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (call.query, call.key)]
    tensors, constants = call.of_camera
    settings = tile(FORWARD_TIED if constants["tied"] else FORWARD, call.dim)
    _forward[(triton.cdiv(call.rows, settings["tokens"]),)](
        call.query, call.key, *outputs, *call.norms, *call.angles, *tensors, *call.places, *call.strides, call.eps,
        dim=call.dim, head_dim=call.angles[0].shape[-1], fast=call.fast, **constants, **settings,
    )  # fmt: skip
    return outputs[0], outputs[1]
