"""The gradient of the camera's weights, from those of query and key. It needs the rays, but not query and key themselves.

`_along_columns` has a block of channels and a run of tokens: it sums the weights' gradients over its tokens, and computes for
each token the block's part of two sums over the width, which `_of_tokens` adds up.

For the projections only S[c, i] = sum over tokens of gate g f_i / RMS(E f) is summed. In SCoPE g is the gradient of query or key,
and the gradients of E, of its norm's weights and of alpha are small products with S (`_of_scope`). In Sweep query and key share
E f, so g is what reaches it from both, and the gradients of the norms' weights are sums of their own (`_of_sweep`).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.kernels.camera_tokens_triton import TOKENS, Camera, _before_gelu, _normal_cdf
from sightline.kernels.qk_common_triton import Call, _packed, _row, _sigmoid
from sightline.kernels.scope_reference import ScopeWeights
from sightline.kernels.sweep_reference import SweepWeights
from sightline.kernels.tiles_triton import runs_of, tile

COLUMNS = {"tokens": 32, "block": 64, "num_warps": 4, "num_stages": 2, "maxnreg": 168}  # see qk_triton.FORWARD
COLUMNS_TIED = {"tokens": 32, "block": 64, "num_warps": 8, "num_stages": 2, "maxnreg": 128}  # of Sweep
RUNS = 32  # of tokens, in kernels that sum over tokens


@triton.jit
def _along_columns(
    grad_query, grad_key, table, about, packed, gate_out_bias, ray_norm_q, ray_norm_k, alpha_q, alpha_k,
    sums, of_rays, of_hidden, run, rows,
    dim: tl.constexpr, tied: tl.constexpr, columns: tl.constexpr, padded: tl.constexpr, fast: tl.constexpr,
    precision: tl.constexpr, precision_of_sums: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    full_blocks: tl.constexpr = dim % block == 0
    width: tl.constexpr = columns + padded
    program, part = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * block + tl.arange(0, block)
    column, unit = tl.arange(0, columns)[None, :], tl.arange(0, padded)[None, :]
    project = _packed(packed, channel, 0, columns, width, dim, full_blocks)
    last = _packed(packed, channel, columns, padded, width, dim, full_blocks)
    bias = _row(gate_out_bias, channel, dim, full_blocks)
    sum_logits = tl.zeros((tokens, block), tl.float32)
    sum_rays = tl.zeros((columns, block), tl.float32)
    sum_last = tl.zeros((padded, block), tl.float32)
    strength_q, strength_k = tl.load(alpha_q), tl.load(alpha_k)
    if tied:
        weight_q = _row(ray_norm_q, channel, dim, full_blocks) * strength_q
        weight_k = _row(ray_norm_k, channel, dim, full_blocks) * strength_k
        sum_q = tl.zeros((tokens, block), tl.float32)
        sum_k = tl.zeros((tokens, block), tl.float32)

    for first in range(0, run, tokens):
        row = tl.program_id(1) * run + first + tl.arange(0, tokens)
        known = row < rows
        row = row.to(tl.int64)
        here = known[:, None] if full_blocks else known[:, None] & (channel < dim)[None, :]
        at = row[:, None] * dim + channel[None, :]
        from_, of = table + row[:, None] * width, about + row * 3
        features = tl.load(from_ + column, mask=known[:, None], other=0.0)
        activated = tl.load(from_ + columns + unit, mask=known[:, None], other=0.0)
        scale = tl.load(of, mask=known, other=0.0)[:, None]
        gate = _sigmoid(tl.dot(activated, last, input_precision=precision) + bias, fast)
        grad_q = tl.load(grad_query + at, mask=here, other=0.0).to(tl.float32)

        if tied:
            grad_k = tl.load(grad_key + at, mask=here, other=0.0).to(tl.float32)
            to = of_rays + program * rows + row  # this block's part of a sum over the width
            ray = tl.dot(features, project, input_precision=precision)
            added = gate * scale * ray
            sum_q += grad_q * added
            sum_k += grad_k * added
            gated = gate * (grad_q * weight_q + grad_k * weight_k)
            through = gated * ray
            tl.store(to, tl.sum(through, axis=1), mask=known)
            grad_logits = scale * through
            sum_rays += tl.dot(tl.trans(features).to(tl.float32), scale * gated, input_precision=precision_of_sums)
        else:
            to = of_rays + program * 2 * rows + row
            feature_q = tl.where(column < columns // 2, features, 0.0).to(features.dtype)
            feature_k = tl.where(column < columns // 2, 0.0, features).to(features.dtype)
            gated = gate * grad_q
            through = gated * tl.dot(feature_q, project, input_precision=precision)
            tl.store(to, tl.sum(through, axis=1), mask=known)
            grad_logits = scale * (strength_q * through)
            sum_rays += tl.dot(tl.trans(feature_q).to(tl.float32), scale * gated, input_precision=precision_of_sums)

            scale = tl.load(of + 1, mask=known, other=0.0)[:, None]
            gated = gate * tl.load(grad_key + at, mask=here, other=0.0).to(tl.float32)
            through = gated * tl.dot(feature_k, project, input_precision=precision)
            tl.store(to + rows, tl.sum(through, axis=1), mask=known)
            grad_logits += scale * (strength_k * through)
            sum_rays += tl.dot(tl.trans(feature_k).to(tl.float32), scale * gated, input_precision=precision_of_sums)

        grad_logits *= 1.0 - gate
        sum_logits += grad_logits
        sum_last += tl.dot(tl.trans(activated).to(tl.float32), grad_logits, input_precision=precision_of_sums)
        # [padded, T]
        grad_hidden = tl.dot(last.to(tl.float32), tl.trans(grad_logits), input_precision=precision_of_sums)
        to = of_hidden + (program * padded + tl.trans(unit)) * rows + row[None, :]
        tl.store(to, grad_hidden, mask=known[None, :])

    inside = channel < dim
    to = sums + part * (3 + width) * dim + channel
    tl.store(to, tl.sum(sum_logits, axis=0), mask=inside)
    if tied:
        tl.store(to + dim, tl.sum(sum_q, axis=0), mask=inside)
        tl.store(to + 2 * dim, tl.sum(sum_k, axis=0), mask=inside)
    to = to[None, :] + 3 * dim
    tl.store(to + tl.arange(0, columns)[:, None] * dim, sum_rays, mask=inside[None, :])
    to += columns * dim
    tl.store(to + tl.arange(0, padded)[:, None] * dim, sum_last, mask=inside[None, :])


@triton.jit
def _of_tokens(
    of_rays, of_hidden, table, about, gate_in, gate_in_bias, alpha_q, alpha_k, grad_gate_in, grad_gram, blocks, rows,
    dim: tl.constexpr, tied: tl.constexpr, columns: tl.constexpr, hidden: tl.constexpr, padded: tl.constexpr,
    precision: tl.constexpr, tokens: tl.constexpr,
):  # fmt: skip
    """Add up the parts of the blocks, and compute a tile's part of the gradients of the gate's first layer and of the norm."""
    program = tl.program_id(0).to(tl.int64)
    row = tl.program_id(0) * tokens + tl.arange(0, tokens)
    known = row < rows
    row = row.to(tl.int64)
    unit, column = tl.arange(0, padded), tl.arange(0, columns)
    along_q = tl.zeros((tokens,), tl.float32)
    along_k = tl.zeros((tokens,), tl.float32)
    grad_activated = tl.zeros((padded, tokens), tl.float32)
    for block in range(blocks):
        if tied:
            along_q += tl.load(of_rays + block * rows + row, mask=known, other=0.0)
        else:
            along_q += tl.load(of_rays + 2 * block * rows + row, mask=known, other=0.0)
            along_k += tl.load(of_rays + (2 * block + 1) * rows + row, mask=known, other=0.0)
        from_ = of_hidden + (block * padded + unit[:, None]).to(tl.int64) * rows + row[None, :]
        grad_activated += tl.load(from_, mask=known[None, :], other=0.0)

    # E times this matrix is what the gradient of the norm over E f subtracts, summed over the tokens.
    from_, about = table + row[:, None] * (columns + padded) + column[None, :], about + row * 3
    features = tl.load(from_, mask=known[:, None], other=0.0).to(tl.float32)
    scale = tl.load(about, mask=known, other=0.0)
    weight = scale * scale * scale * along_q / dim
    if tied:
        gram = tl.dot(tl.trans(features * weight[:, None]), features, input_precision=precision)
    else:
        feature_q = tl.where(column[None, :] < columns // 2, features, 0.0)
        feature_k = features - feature_q
        weight *= tl.load(alpha_q)
        gram = tl.dot(tl.trans(feature_q * weight[:, None]), feature_q, input_precision=precision)
        scale = tl.load(about + 1, mask=known, other=0.0)
        weight = scale * scale * scale * along_k / dim * tl.load(alpha_k)
        gram += tl.dot(tl.trans(feature_k * weight[:, None]), feature_k, input_precision=precision)
    to = grad_gram + program * (columns * columns) + column[:, None] * columns + column[None, :]
    tl.store(to, gram)

    gate_input = tl.load(about + 2, mask=known, other=0.0)
    before = _before_gelu(gate_input, gate_in, gate_in_bias, hidden, padded)
    slope = _normal_cdf(before) + before * tl.exp(-0.5 * before * before) * 0.3989422804014327
    grad_before = tl.where(known[:, None], tl.trans(grad_activated) * slope, 0.0)
    to = grad_gate_in + 2 * hidden * program + unit
    tl.store(to, tl.sum(grad_before * gate_input[:, None], axis=0), mask=unit < hidden)
    tl.store(to + hidden, tl.sum(grad_before, axis=0), mask=unit < hidden)


def camera_backward(call: Call, camera: Camera, grad_query: Tensor, grad_key: Tensor) -> ScopeWeights | SweepWeights:
    """The gradient of every weight."""

    def room(*shape: int) -> Tensor:
        return torch.empty(shape, device=grad_query.device)

    weights, shapes = camera.weights, {"dim": call.dim, "precision": camera.precision, **camera.shapes}
    columns = tile(COLUMNS_TIED if camera.tied else COLUMNS, call.dim)
    blocks, (run, runs) = triton.cdiv(call.dim, columns["block"]), runs_of(call.rows, columns["tokens"], RUNS)
    sums = room(runs, 3 + camera.width, call.dim)
    of_rays, of_hidden = room(blocks, 1 if camera.tied else 2, call.rows), room(blocks, camera.padded, call.rows)
    _along_columns[(blocks, runs)](
        grad_query, grad_key, *camera.tensors, sums, of_rays, of_hidden, run, call.rows, fast=call.fast, **shapes, **columns,
        precision_of_sums=camera.precision if call.exact else "tf32",  # float16 would lose small gradients
    )  # fmt: skip
    tiles = triton.cdiv(call.rows, TOKENS["tokens"])
    of_gate, gram = room(tiles, 2, camera.hidden), room(tiles, camera.columns, camera.columns)
    _of_tokens[(tiles,)](
        of_rays, of_hidden, camera.table, camera.about, weights.gate_in, weights.gate_in_bias, weights.alpha_q,
        weights.alpha_k, of_gate, gram, blocks, call.rows, hidden=camera.hidden, **shapes, **TOKENS,
    )  # fmt: skip
    bias, norms, rays, last = sums.sum(0).split([1, 2, camera.columns, camera.padded])
    gate_in, gate_in_bias = of_gate.sum(0)
    gate = (gate_in[:, None], gate_in_bias, last[: camera.hidden].T, bias[0])
    if isinstance(weights, SweepWeights):
        project, norm_q, norm_k, *alphas = _of_sweep(weights, rays, norms, gram.sum(0))
        gradients: ScopeWeights | SweepWeights = SweepWeights(project, norm_q, norm_k, *gate, *alphas)
    else:
        project_q, project_k, norm_q, norm_k, *alphas = _of_scope(weights, rays, gram.sum(0))
        gradients = ScopeWeights(project_q, project_k, norm_q, norm_k, *gate, *alphas)
    # The results of an operation may not share memory.
    return type(gradients)(*(gradient.clone(memory_format=torch.contiguous_format) for gradient in gradients))


def _of_scope(weights: ScopeWeights, rays: Tensor, gram: Tensor) -> tuple[Tensor, ...]:
    """The gradients of E_q, E_k [dim, 7], of the norms' weights [dim] and of alpha [1], each of query and key."""
    project = torch.stack([weights.project_q, weights.project_k])  # [2, dim, 7]
    norm = torch.stack([weights.norm_q, weights.norm_k])  # [2, dim]
    alpha = torch.cat([weights.alpha_q, weights.alpha_k])[:, None]  # [2, 1]
    rays = rays.unflatten(0, (2, 8))[:, :7].mT  # [2, dim, 7]
    subtracted = torch.stack([gram[:7, :7], gram[8:15, 8:15]])  # [2, 7, 7]
    along = (project * rays).sum(-1)  # [2, dim]
    of_project = torch.baddbmm(rays * (alpha * norm)[..., None], project, subtracted, alpha=-1)
    return *of_project, *(alpha * along), *(norm * along).sum(-1, keepdim=True)


def _of_sweep(weights: SweepWeights, rays: Tensor, norms: Tensor, gram: Tensor) -> tuple[Tensor, ...]:
    """The gradients of E [dim, features], of the norms' weights [dim] and of alpha [1], each of query and key."""
    features = weights.project.shape[1]
    of_project = torch.addmm(rays[:features].T, weights.project, gram[:features, :features], alpha=-1)
    norm = torch.stack([weights.norm_q, weights.norm_k])  # [2, dim]
    alpha = torch.cat([weights.alpha_q, weights.alpha_k])[:, None]  # [2, 1]
    return of_project, *(alpha * norms), *(norm * norms).sum(-1, keepdim=True)
