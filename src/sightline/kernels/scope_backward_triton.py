"""The gradient of SCoPE's weights, from those of query and key. It needs the rays, but not query and key themselves.

`_table` writes SCoPE's values for each token. `_along_columns` has a block of channels and a run of tokens: it sums the weights'
gradients over its tokens, and computes for each token the block's part of two sums over the width, which `_of_tokens` adds up.

For the projections only S[c, i] = sum over tokens of gate g f_i / RMS(E f) is summed, g being the gradient of query or key: the
gradients of E, of its norm's weights and of alpha are small products with S (`_of_projections`).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.kernels.qk_common_triton import (
    FEATURE_ROWS,
    Call,
    _normal_cdf,
    _packed,
    _places,
    _row,
    _sigmoid,
    _tokens,
    tile,
)
from sightline.kernels.scope_reference import ScopeWeights
from sightline.kernels.tiles_triton import runs_of

COLUMNS = {"tokens": 32, "block": 64, "num_warps": 4, "num_stages": 2, "maxnreg": 168}  # see qk_triton.FORWARD
TOKENS = {"tokens": 32, "num_warps": 4}
RUNS = 32  # of tokens, in kernels that sum over tokens


@triton.jit
def _table(
    table, about, camera_rows, grams, gate_in, gate_in_bias, alpha_q, alpha_k,
    rows, length, camera_batch, camera_row, min_moment,
    dim: tl.constexpr, flip: tl.constexpr, hidden: tl.constexpr, padded: tl.constexpr, parts: tl.constexpr,
    tokens: tl.constexpr,
):  # fmt: skip
    """table [N, 16 + padded]: f_q, f_k, the gate's hidden layer. about [N, 4]: 1 / RMS(E f) and that times alpha, for q, k."""
    row, known, clip, position = _places(tl.program_id(0) * tokens, rows, length, tokens)
    feature_q, feature_k, scale_q, scale_k, _, before = _tokens(
        camera_rows, clip, position, known, grams, gate_in, gate_in_bias, camera_batch, camera_row, min_moment,
        dim, flip, hidden, padded, parts,
    )  # fmt: skip
    to = table + row[:, None] * (FEATURE_ROWS + padded)
    column, unit = tl.arange(0, FEATURE_ROWS)[None, :], tl.arange(0, padded)[None, :]
    tl.store(to + column, (feature_q + feature_k).to(table.dtype.element_ty), mask=known[:, None])
    activated = before * _normal_cdf(before)
    tl.store(to + FEATURE_ROWS + unit, activated.to(table.dtype.element_ty), mask=known[:, None])
    about += row * 4
    tl.store(about, scale_q, mask=known)
    tl.store(about + 1, scale_q * tl.load(alpha_q), mask=known)
    tl.store(about + 2, scale_k, mask=known)
    tl.store(about + 3, scale_k * tl.load(alpha_k), mask=known)


@triton.jit
def _along_columns(
    grad_query, grad_key, table, about, packed, gate_out_bias, sums, of_rays, of_hidden, run, rows,
    dim: tl.constexpr, padded: tl.constexpr, fast: tl.constexpr, precision: tl.constexpr,
    tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    full_blocks: tl.constexpr = dim % block == 0
    width: tl.constexpr = FEATURE_ROWS + padded
    program, part = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * block + tl.arange(0, block)
    column, unit = tl.arange(0, FEATURE_ROWS)[None, :], tl.arange(0, padded)[None, :]
    both = _packed(packed, channel, 0, FEATURE_ROWS, width, dim, full_blocks)
    last = _packed(packed, channel, FEATURE_ROWS, padded, width, dim, full_blocks)
    bias = _row(gate_out_bias, channel, dim, full_blocks)
    sum_logits = tl.zeros((tokens, block), tl.float32)
    sum_rays = tl.zeros((FEATURE_ROWS, block), tl.float32)
    sum_last = tl.zeros((padded, block), tl.float32)

    for first in range(0, run, tokens):
        row = tl.program_id(1) * run + first + tl.arange(0, tokens)
        known = row < rows
        row = row.to(tl.int64)
        here = known[:, None] if full_blocks else known[:, None] & (channel < dim)[None, :]
        at = row[:, None] * dim + channel[None, :]
        from_, of = table + row[:, None] * width, about + row * 4
        features = tl.load(from_ + column, mask=known[:, None], other=0.0)
        activated = tl.load(from_ + FEATURE_ROWS + unit, mask=known[:, None], other=0.0)
        feature_q = tl.where(column < 8, features, 0.0).to(features.dtype)
        feature_k = tl.where(column < 8, 0.0, features).to(features.dtype)
        gate = _sigmoid(tl.dot(activated, last, input_precision="ieee") + bias, fast)

        gated = gate * tl.load(grad_query + at, mask=here, other=0.0).to(tl.float32)
        through = gated * tl.dot(feature_q, both, input_precision="ieee")
        to = of_rays + program * 2 * rows + row  # this block's part of a sum over the width
        tl.store(to, tl.sum(through, axis=1), mask=known)
        grad_logits = tl.load(of + 1, mask=known, other=0.0)[:, None] * through
        gated *= tl.load(of, mask=known, other=0.0)[:, None]
        sum_rays += tl.dot(tl.trans(feature_q).to(tl.float32), gated, input_precision=precision)

        gated = gate * tl.load(grad_key + at, mask=here, other=0.0).to(tl.float32)
        through = gated * tl.dot(feature_k, both, input_precision="ieee")
        tl.store(to + rows, tl.sum(through, axis=1), mask=known)
        grad_logits += tl.load(of + 3, mask=known, other=0.0)[:, None] * through
        gated *= tl.load(of + 2, mask=known, other=0.0)[:, None]
        sum_rays += tl.dot(tl.trans(feature_k).to(tl.float32), gated, input_precision=precision)

        grad_logits *= 1.0 - gate
        sum_logits += grad_logits
        sum_last += tl.dot(tl.trans(activated).to(tl.float32), grad_logits, input_precision=precision)
        grad_hidden = tl.dot(last.to(tl.float32), tl.trans(grad_logits), input_precision=precision)  # [padded, T]
        to = of_hidden + (program * padded + tl.trans(unit)) * rows + row[None, :]
        tl.store(to, grad_hidden, mask=known[None, :])

    inside = channel < dim
    to = sums + part * (1 + width) * dim + channel
    tl.store(to, tl.sum(sum_logits, axis=0), mask=inside)
    to = to[None, :] + dim
    tl.store(to + tl.arange(0, FEATURE_ROWS)[:, None] * dim, sum_rays, mask=inside[None, :])
    to += FEATURE_ROWS * dim
    tl.store(to + tl.arange(0, padded)[:, None] * dim, sum_last, mask=inside[None, :])


@triton.jit
def _of_tokens(
    of_rays, of_hidden, about, grad_gate_in, grad_gram, blocks, camera_rows, grams, gate_in, gate_in_bias,
    rows, length, camera_batch, camera_row, min_moment,
    dim: tl.constexpr, flip: tl.constexpr, hidden: tl.constexpr, padded: tl.constexpr, parts: tl.constexpr,
    tokens: tl.constexpr,
):  # fmt: skip
    """Add up the parts of the blocks, and compute a tile's part of the gradients of the gate's first layer and of the norm."""
    program = tl.program_id(0).to(tl.int64)
    row, known, clip, position = _places(tl.program_id(0) * tokens, rows, length, tokens)
    unit, column = tl.arange(0, padded), tl.arange(0, FEATURE_ROWS)
    along_q = tl.zeros((tokens,), tl.float32)
    along_k = tl.zeros((tokens,), tl.float32)
    grad_activated = tl.zeros((padded, tokens), tl.float32)
    for block in range(blocks):
        along_q += tl.load(of_rays + 2 * block * rows + row, mask=known, other=0.0)
        along_k += tl.load(of_rays + (2 * block + 1) * rows + row, mask=known, other=0.0)
        from_ = of_hidden + (block * padded + unit[:, None]).to(tl.int64) * rows + row[None, :]
        grad_activated += tl.load(from_, mask=known[None, :], other=0.0)
    feature_q, feature_k, scale_q, scale_k, gate_input, before = _tokens(
        camera_rows, clip, position, known, grams, gate_in, gate_in_bias, camera_batch, camera_row, min_moment,
        dim, flip, hidden, padded, parts,
    )  # fmt: skip
    about += row * 4
    # E times this matrix is what the gradient of the norm over E f subtracts, summed over the tokens.
    weight_q = scale_q * scale_q * tl.load(about + 1, mask=known, other=0.0) * along_q / dim
    weight_k = scale_k * scale_k * tl.load(about + 3, mask=known, other=0.0) * along_k / dim
    gram = tl.dot(tl.trans(feature_q * weight_q[:, None]), feature_q, input_precision="ieee")
    gram += tl.dot(tl.trans(feature_k * weight_k[:, None]), feature_k, input_precision="ieee")
    to = grad_gram + program * (FEATURE_ROWS * FEATURE_ROWS) + column[:, None] * FEATURE_ROWS + column[None, :]
    tl.store(to, gram)
    slope = _normal_cdf(before) + before * tl.exp(-0.5 * before * before) * 0.3989422804014327
    grad_before = tl.where(known[:, None], tl.trans(grad_activated) * slope, 0.0)
    to = grad_gate_in + 2 * hidden * program + unit
    tl.store(to, tl.sum(grad_before * gate_input[:, None], axis=0), mask=unit < hidden)
    tl.store(to + hidden, tl.sum(grad_before, axis=0), mask=unit < hidden)


def scope_backward(call: Call, grad_query: Tensor, grad_key: Tensor) -> ScopeWeights:
    """The gradient of every weight."""

    def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=grad_query.device)

    tiles, features = triton.cdiv(call.rows, TOKENS["tokens"]), FEATURE_ROWS.value
    gate = (call.gate_in, call.gate_in_bias)
    tokens = {**call.of_tokens, **TOKENS}
    table, about = room(call.rows, call.width, dtype=call.operand), room(call.rows, 4)
    _table[(tiles,)](
        table, about, call.camera_rows, call.grams, *gate, call.alpha_q, call.alpha_k, *call.places, *call.camera_strides,
        call.min_moment, **tokens,
    )  # fmt: skip
    columns = tile(COLUMNS, call.dim)
    blocks, (run, runs) = triton.cdiv(call.dim, columns["block"]), runs_of(call.rows, columns["tokens"], RUNS)
    sums = room(runs, 1 + call.width, call.dim)
    of_rays, of_hidden = room(blocks, 2, call.rows), room(blocks, call.padded, call.rows)
    _along_columns[(blocks, runs)](
        grad_query, grad_key, table, about, call.packed, call.gate_out_bias, sums, of_rays, of_hidden, run, call.rows,
        dim=call.dim, padded=call.padded, fast=call.fast, **columns,
        precision="ieee" if call.exact else "tf32",  # float16 would lose small gradients
    )  # fmt: skip
    of_gate, gram = room(tiles, 2, call.hidden), room(tiles, features, features)
    _of_tokens[(tiles,)](
        of_rays, of_hidden, about, of_gate, gram, blocks, call.camera_rows, call.grams, *gate,
        *call.places, *call.camera_strides, call.min_moment, **tokens,
    )  # fmt: skip
    bias, rays, last = sums.sum(0).split([1, features, call.padded])
    (project_q, project_k), (norm_q, norm_k), (alpha_q, alpha_k) = _of_projections(call, rays, gram.sum(0))
    gate_in, gate_in_bias = of_gate.sum(0)
    gradients = ScopeWeights(
        project_q=project_q,
        project_k=project_k,
        norm_q=norm_q,
        norm_k=norm_k,
        gate_in=gate_in[:, None],
        gate_in_bias=gate_in_bias,
        gate_out=last[: call.hidden].T,
        gate_out_bias=bias[0],
        alpha_q=alpha_q[None],
        alpha_k=alpha_k[None],
    )
    # The results of an operation may not share memory.
    return ScopeWeights(*(gradient.clone(memory_format=torch.contiguous_format) for gradient in gradients))


def _of_projections(call: Call, rays: Tensor, gram: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of E [2, dim, 7], of the norms' weights [2, dim] and of alpha [2], for query and key."""
    weights = call.weights
    assert weights is not None
    project = torch.stack([weights.project_q, weights.project_k])  # [2, dim, 7]
    norm = torch.stack([weights.norm_q, weights.norm_k])  # [2, dim]
    alpha = torch.cat([weights.alpha_q, weights.alpha_k])[:, None]  # [2, 1]
    rays = rays.view(2, 8, call.dim)[:, :7].mT  # [2, dim, 7]
    subtracted = torch.stack([gram[:7, :7], gram[8:15, 8:15]])  # [2, 7, 7]
    along = (project * rays).sum(-1)  # [2, dim]
    of_project = torch.baddbmm(rays * (alpha * norm)[..., None], project, subtracted, alpha=-1)
    return of_project, alpha * along, (norm * along).sum(-1)
