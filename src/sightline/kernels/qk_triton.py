"""QKNorm, RoPE and SCoPE's addition to query and key in one kernel. It computes what `reference.qk` defines.

A program holds a tile of tokens and goes over the width in blocks twice: once for the norms, then for everything else. The values
of a token (the 7 ray features, the gate's hidden layer, the norms) are computed once and stay in registers; the encoding itself
only exists block by block.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.kernels.qk_common_triton import (
    FEATURE_ROWS,
    Call,
    _angles,
    _normal_cdf,
    _packed,
    _places,
    _row,
    _sigmoid,
    _tokens,
    _turned,
    tile,
)

# The tokens of a tile (at least 16, for the matrix products), the channels of a block, and Triton's compile options. Where a
# block holds entire heads, RoPE's angles are read once. benchmarks/tune_kernels.py times other values.
FORWARD = {"tokens": 32, "block": 128, "num_warps": 8, "num_stages": 1, "maxnreg": 128}


@triton.jit
def _forward(
    query, key, out_query, out_key, norm_query, norm_key, cos, sin, camera_rows, packed, grams,
    gate_in, gate_in_bias, gate_out_bias, alpha_q, alpha_k,
    rows, length, query_batch, query_row, key_batch, key_row, camera_batch, camera_row, eps, min_moment,
    dim: tl.constexpr, head_dim: tl.constexpr, flip: tl.constexpr, with_camera: tl.constexpr, hidden: tl.constexpr,
    padded: tl.constexpr, parts: tl.constexpr, fast: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
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
        feature_q, feature_k, strength_q, strength_k, _, before = _tokens(
            camera_rows, clip, position, known, grams, gate_in, gate_in_bias, camera_batch, camera_row, min_moment,
            dim, flip, hidden, padded, parts,
        )  # fmt: skip
        strength_q, strength_k = strength_q * tl.load(alpha_q), strength_k * tl.load(alpha_k)
        activated = (before * _normal_cdf(before)).to(packed.dtype.element_ty)
        feature_q, feature_k = feature_q.to(packed.dtype.element_ty), feature_k.to(packed.dtype.element_ty)
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
            last = _packed(packed, channel, FEATURE_ROWS, padded, FEATURE_ROWS + padded, dim, full_blocks)
            both = _packed(packed, channel, 0, FEATURE_ROWS, FEATURE_ROWS + padded, dim, full_blocks)
            logits = tl.dot(activated, last, input_precision="ieee") + _row(gate_out_bias, channel, dim, full_blocks)
            gate = _sigmoid(logits, fast)
            # The change from the layout of products to that of loads goes through shared memory; 16 bits halve its size.
            add_q = gate * strength_q[:, None] * tl.dot(feature_q, both, input_precision="ieee")
            add_k = gate * strength_k[:, None] * tl.dot(feature_k, both, input_precision="ieee")
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
    _forward[(triton.cdiv(call.rows, FORWARD["tokens"]),)](
        call.query, call.key, *outputs, *call.norms, *call.angles,
        call.camera_rows, call.packed, call.grams, call.gate_in, call.gate_in_bias, call.gate_out_bias,
        call.alpha_q, call.alpha_k,
        *call.places, *call.strides, *call.camera_strides, call.eps, call.min_moment,
        head_dim=call.angles[0].shape[-1], with_camera=call.weights is not None, fast=call.fast, **call.of_tokens,
        **tile(FORWARD, call.dim),
    )  # fmt: skip
    return outputs[0], outputs[1]
