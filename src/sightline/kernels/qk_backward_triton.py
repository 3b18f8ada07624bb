"""The gradient of `qk` in two kernels; the meaning is `plain.qk_backward`.

`_along_rows` makes, for each token, the sums over the width that a norm's gradient needs, and the gradient of the gate's
first layer; it leaves what belongs to a token in two small tables. `_along_columns` then writes the gradients of query and
key, and adds up those of the weights over a run of tokens: partial sums that torch adds, no atomics, so the same inputs give
the same bits. Of SCoPE's projections only S[c, i] = sum over tokens of gate g f_i / RMS(E f) is added up: the gradients of E,
of its norm's weights and of alpha are small products of S (`_of_projections`).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.kernels.qk_triton import (
    DELTA,
    FEATURE_ROWS,
    Call,
    _angles,
    _feature,
    _gate_hidden,
    _gram,
    _normal_cdf,
    _packed,
    _places,
    _ray_scale,
    _row,
    _sigmoid,
    _turned,
    tile,
)

ROWS = {"tokens": 32, "block": 128, "num_warps": 8, "num_stages": 1}  # see qk_triton.FORWARD
COLUMNS = {"tokens": 16, "block": 128, "num_warps": 4, "num_stages": 2}
RUNS = 32  # of tokens, each with its own partial sums
ABOUT: tl.constexpr = tl.constexpr(
    8
)  # of a token, q then k: 1 / RMS and the mean a norm subtracts; 1 / RMS(E f), times alpha
SUMS: tl.constexpr = tl.constexpr(3)  # weights with one number a channel: both norms and the gate's last bias


@triton.jit
def _eights(x, tokens: tl.constexpr, block: tl.constexpr):  # [T, BLOCK] -> [T, BLOCK / 8]
    """Sums of what one thread holds: an eighth of the registers, and no exchange between threads yet."""
    return tl.sum(tl.reshape(x, (tokens, block // 8, 8)), axis=2)


@triton.jit
def _along_rows(
    grad_query, grad_key, query, key, about, table, grad_gate_in, grad_gram,
    norm_query, norm_key, cos, sin, camera, packed, grams, gate_in, gate_in_bias, gate_out_bias, alpha_q, alpha_k,
    rows, length, query_batch, query_row, key_batch, key_row, camera_batch, camera_row, eps, floor,
    dim: tl.constexpr, head_dim: tl.constexpr, flip: tl.constexpr, with_camera: tl.constexpr, hidden: tl.constexpr,
    padded: tl.constexpr, parts: tl.constexpr, fast: tl.constexpr, precision: tl.constexpr,
    tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    whole: tl.constexpr = dim % block == 0
    same_angles: tl.constexpr = block % head_dim == 0
    width: tl.constexpr = FEATURE_ROWS + padded
    program = tl.program_id(0).to(tl.int64)
    row, known, clip, position = _places(tl.program_id(0) * tokens, rows, length, tokens)
    query += (clip * query_batch + position * query_row)[:, None]
    key += (clip * key_batch + position * key_row)[:, None]
    square_q = tl.zeros((tokens, block // 8), tl.float32)
    square_k = tl.zeros((tokens, block // 8), tl.float32)
    along_q = tl.zeros((tokens, block // 8), tl.float32)  # gradient x input: the part of it that a norm cannot pass
    along_k = tl.zeros((tokens, block // 8), tl.float32)
    if with_camera:
        at = clip * camera_batch + position * camera_row
        exact_q, log = _feature(camera, at, known, 0, floor, 0)
        exact_k, log = _feature(camera, at, known, 3 if flip else 0, floor, 8)
        present = tl.sum(tl.where(tl.arange(0, FEATURE_ROWS)[None, :] < 3, tl.abs(exact_q), 0.0), axis=1) > 0
        gram = _gram(grams, parts)
        ray_scale_q = _ray_scale(exact_q, gram, present, dim)
        ray_scale_k = _ray_scale(exact_k, gram, present, dim)
        strength_q, strength_k = ray_scale_q * tl.load(alpha_q), ray_scale_k * tl.load(alpha_k)
        heard = log + tl.load(camera + at + DELTA, mask=known, other=0.0)
        before = _gate_hidden(heard, gate_in, gate_in_bias, hidden, padded)
        activated = (before * _normal_cdf(before)).to(packed.dtype.element_ty)
        feature_q, feature_k = exact_q.to(packed.dtype.element_ty), exact_k.to(packed.dtype.element_ty)
        ray_along_q = tl.zeros((tokens,), tl.float32)
        ray_along_k = tl.zeros((tokens,), tl.float32)
        grad_activated = tl.zeros((padded, tokens), tl.float32)  # this way round, products share a layout that fits all
    if same_angles:
        turn_cos, turn_sin = _angles(cos, sin, position, known, 0, head_dim, block)

    for start in range(0, dim, block):
        channel = start + tl.arange(0, block)
        here = known[:, None] if whole else known[:, None] & (channel < dim)[None, :]
        if not same_angles:
            turn_cos, turn_sin = _angles(cos, sin, position, known, start, head_dim, block)
        from_ = row[:, None] * dim + channel[None, :]
        grad_q = tl.load(grad_query + from_, mask=here, other=0.0).to(tl.float32)
        grad_k = tl.load(grad_key + from_, mask=here, other=0.0).to(tl.float32)
        x = tl.load(query + channel[None, :], mask=here, other=0.0).to(tl.float32)
        back = _turned(grad_q, turn_cos, -turn_sin, tokens, block)
        square_q += _eights(x * x, tokens, block)
        along_q += _eights(back * _row(norm_query, channel, dim, whole) * x, tokens, block)
        x = tl.load(key + channel[None, :], mask=here, other=0.0).to(tl.float32)
        back = _turned(grad_k, turn_cos, -turn_sin, tokens, block)
        square_k += _eights(x * x, tokens, block)
        along_k += _eights(back * _row(norm_key, channel, dim, whole) * x, tokens, block)
        if with_camera:
            last = _packed(packed, channel, FEATURE_ROWS, padded, width, dim, whole)  # [padded, BLOCK]
            both = _packed(packed, channel, 0, FEATURE_ROWS, width, dim, whole)
            logits = tl.dot(activated, last, input_precision="ieee") + _row(gate_out_bias, channel, dim, whole)
            gate = _sigmoid(logits, fast)
            through_q = grad_q * tl.dot(feature_q, both, input_precision="ieee")
            through_k = grad_k * tl.dot(feature_k, both, input_precision="ieee")
            ray_along_q += tl.sum(through_q * gate, axis=1)
            ray_along_k += tl.sum(through_k * gate, axis=1)
            grad_logits = (strength_q[:, None] * through_q + strength_k[:, None] * through_k) * (gate - gate * gate)
            grad_activated += tl.dot(last.to(tl.float32), tl.trans(grad_logits), input_precision=precision)

    scale_q = 1.0 / tl.sqrt(tl.sum(square_q, axis=1) / dim + eps)
    scale_k = 1.0 / tl.sqrt(tl.sum(square_k, axis=1) / dim + eps)
    to = about + row * ABOUT
    tl.store(to, scale_q, mask=known)
    tl.store(to + 1, tl.sum(along_q, axis=1) * scale_q / dim, mask=known)
    tl.store(to + 2, scale_k, mask=known)
    tl.store(to + 3, tl.sum(along_k, axis=1) * scale_k / dim, mask=known)
    if with_camera:
        tl.store(to + 4, ray_scale_q, mask=known)
        tl.store(to + 5, strength_q, mask=known)
        tl.store(to + 6, ray_scale_k, mask=known)
        tl.store(to + 7, strength_k, mask=known)
        column, unit = tl.arange(0, FEATURE_ROWS)[None, :], tl.arange(0, padded)
        to = table + row[:, None] * width
        tl.store(to + column, feature_q + feature_k, mask=known[:, None])
        tl.store(to + FEATURE_ROWS + unit[None, :], activated, mask=known[:, None])
        # What the norm over E f subtracts, summed over the tokens: E times this matrix.
        weight_q = ray_scale_q * ray_scale_q * strength_q * ray_along_q / dim
        weight_k = ray_scale_k * ray_scale_k * strength_k * ray_along_k / dim
        share = tl.dot(tl.trans(exact_q * weight_q[:, None]), exact_q, input_precision="ieee")
        share += tl.dot(tl.trans(exact_k * weight_k[:, None]), exact_k, input_precision="ieee")
        square = tl.arange(0, FEATURE_ROWS)[:, None] * FEATURE_ROWS + column
        tl.store(grad_gram + program * (FEATURE_ROWS * FEATURE_ROWS) + square, share)
        slope = _normal_cdf(before) + before * tl.exp(-0.5 * before * before) * 0.3989422804014327
        grad_before = tl.where(known[:, None], tl.trans(grad_activated) * slope, 0.0)
        to = grad_gate_in + 2 * hidden * program + unit
        tl.store(to, tl.sum(grad_before * heard[:, None], axis=0), mask=unit < hidden)
        tl.store(to + hidden, tl.sum(grad_before, axis=0), mask=unit < hidden)


@triton.jit
def _along_columns(
    grad_query, grad_key, query, key, new_query, new_key, about, table, sums, run,
    norm_query, norm_key, cos, sin, camera, packed, grams, gate_in, gate_in_bias, gate_out_bias, alpha_q, alpha_k,
    rows, length, query_batch, query_row, key_batch, key_row, camera_batch, camera_row, eps, floor,
    dim: tl.constexpr, head_dim: tl.constexpr, flip: tl.constexpr, with_camera: tl.constexpr, hidden: tl.constexpr,
    padded: tl.constexpr, parts: tl.constexpr, fast: tl.constexpr, precision: tl.constexpr,
    tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    whole: tl.constexpr = dim % block == 0
    width: tl.constexpr = FEATURE_ROWS + padded
    start, part = tl.program_id(0) * block, tl.program_id(1).to(tl.int64)
    channel = start + tl.arange(0, block)
    weight_q, weight_k = _row(norm_query, channel, dim, whole), _row(norm_key, channel, dim, whole)
    sum_q = tl.zeros((tokens, block), tl.float32)
    sum_k = tl.zeros((tokens, block), tl.float32)
    if with_camera:
        both = _packed(packed, channel, 0, FEATURE_ROWS, width, dim, whole)
        last = _packed(packed, channel, FEATURE_ROWS, padded, width, dim, whole)
        bias = _row(gate_out_bias, channel, dim, whole)
        column, unit = tl.arange(0, FEATURE_ROWS)[None, :], tl.arange(0, padded)[None, :]
        sum_logits = tl.zeros((tokens, block), tl.float32)
        sum_rays = tl.zeros((FEATURE_ROWS, block), tl.float32)
        sum_last = tl.zeros((padded, block), tl.float32)

    for first in range(0, run, tokens):
        row, known, clip, position = _places(tl.program_id(1) * run + first, rows, length, tokens)
        here = known[:, None] if whole else known[:, None] & (channel < dim)[None, :]
        at = row[:, None] * dim + channel[None, :]
        of = about + row * ABOUT
        turn_cos, turn_sin = _angles(cos, sin, position, known, start, head_dim, block)
        grad_q = tl.load(grad_query + at, mask=here, other=0.0).to(tl.float32)
        grad_k = tl.load(grad_key + at, mask=here, other=0.0).to(tl.float32)

        scale, mean = tl.load(of, mask=known, other=0.0)[:, None], tl.load(of + 1, mask=known, other=0.0)[:, None]
        from_ = (clip * query_batch + position * query_row)[:, None] + channel[None, :]
        x = tl.load(query + from_, mask=here, other=0.0).to(tl.float32) * scale
        back = _turned(grad_q, turn_cos, -turn_sin, tokens, block)
        sum_q += back * x
        tl.store(new_query + at, (scale * (back * weight_q - x * mean)).to(new_query.dtype.element_ty), mask=here)

        scale, mean = tl.load(of + 2, mask=known, other=0.0)[:, None], tl.load(of + 3, mask=known, other=0.0)[:, None]
        from_ = (clip * key_batch + position * key_row)[:, None] + channel[None, :]
        x = tl.load(key + from_, mask=here, other=0.0).to(tl.float32) * scale
        back = _turned(grad_k, turn_cos, -turn_sin, tokens, block)
        sum_k += back * x
        tl.store(new_key + at, (scale * (back * weight_k - x * mean)).to(new_key.dtype.element_ty), mask=here)

        if with_camera:
            from_ = table + row[:, None] * width
            features = tl.load(from_ + column, mask=known[:, None], other=0.0)
            activated = tl.load(from_ + FEATURE_ROWS + unit, mask=known[:, None], other=0.0)
            ray_scale_q, strength_q = tl.load(of + 4, mask=known, other=0.0), tl.load(of + 5, mask=known, other=0.0)
            ray_scale_k, strength_k = tl.load(of + 6, mask=known, other=0.0), tl.load(of + 7, mask=known, other=0.0)
            feature_q = tl.where(column < 8, features, 0.0).to(features.dtype)
            feature_k = tl.where(column < 8, 0.0, features).to(features.dtype)
            gate = _sigmoid(tl.dot(activated, last, input_precision="ieee") + bias, fast)
            grad_gate = strength_q[:, None] * grad_q * tl.dot(feature_q, both, input_precision="ieee")
            grad_gate += strength_k[:, None] * grad_k * tl.dot(feature_k, both, input_precision="ieee")
            grad_logits = grad_gate * (gate - gate * gate)
            sum_logits += grad_logits
            sum_last += tl.dot(tl.trans(activated).to(tl.float32), grad_logits, input_precision=precision)
            gated = gate * grad_q * ray_scale_q[:, None]
            sum_rays += tl.dot(tl.trans(feature_q).to(tl.float32), gated, input_precision=precision)
            gated = gate * grad_k * ray_scale_k[:, None]
            sum_rays += tl.dot(tl.trans(feature_k).to(tl.float32), gated, input_precision=precision)

    inside = channel < dim
    to = sums + part * (SUMS + width) * dim + channel
    tl.store(to, tl.sum(sum_q, axis=0), mask=inside)
    tl.store(to + dim, tl.sum(sum_k, axis=0), mask=inside)
    if with_camera:
        tl.store(to + 2 * dim, tl.sum(sum_logits, axis=0), mask=inside)
        to = to[None, :] + SUMS * dim
        tl.store(to + tl.arange(0, FEATURE_ROWS)[:, None] * dim, sum_rays, mask=inside[None, :])
        to += FEATURE_ROWS * dim
        tl.store(to + tl.arange(0, padded)[:, None] * dim, sum_last, mask=inside[None, :])


def qk_backward(grad_query: Tensor, grad_key: Tensor, *arguments: Any) -> list[Tensor]:
    """As `plain.qk_backward`."""
    call = Call(*arguments)
    call.settings["precision"] = (
        "ieee" if call.operand == torch.float32 else "tf32"
    )  # float16 would lose small gradients
    grads = [grad_query.contiguous(), grad_key.contiguous()]
    inputs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (call.query, call.key)]
    tiles, columns = triton.cdiv(call.rows, ROWS["tokens"]), tile(COLUMNS, call.dim)
    whole = triton.cdiv(call.rows, columns["tokens"])
    run = triton.cdiv(whole, min(RUNS, whole)) * columns["tokens"]  # tokens of one run, whole tiles
    parts = triton.cdiv(call.rows, run)

    def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=grad_query.device)

    width = FEATURE_ROWS.value + call.padded
    about, table = room(call.rows, ABOUT.value), room(call.rows, width, dtype=call.operand)
    gate_in, gram = room(tiles, 2, call.hidden), room(tiles, FEATURE_ROWS.value, FEATURE_ROWS.value)
    sums = room(parts, SUMS.value + width, call.dim)
    _along_rows[(tiles,)](
        *grads, call.query, call.key, about, table, gate_in, gram, *call.tensors, *call.numbers,
        **call.settings, **tile(ROWS, call.dim),
    )  # fmt: skip
    _along_columns[(triton.cdiv(call.dim, columns["block"]), parts)](
        *grads, call.query, call.key, *inputs, about, table, sums, run, *call.tensors, *call.numbers,
        **call.settings, **columns,
    )  # fmt: skip
    if call.weights is None:
        return [*inputs, *(one.clone() for one in sums[:, :2].sum(0))]
    total, of_gate = sums.sum(0), gate_in.sum(0)
    rays, last = total[SUMS.value :].split([FEATURE_ROWS.value, call.padded])  # [16, dim], [padded, dim]
    projects, ray_norms, alphas = _of_projections(call, rays, gram.sum(0))
    found = [
        *total[:2], *projects, *ray_norms, of_gate[0][:, None], of_gate[1], last[: call.hidden].T, total[2],
        alphas[:1], alphas[1:],
    ]  # fmt: skip
    return [*inputs, *(one.clone(memory_format=torch.contiguous_format) for one in found)]  # none may share memory


def _of_projections(call: Call, rays: Tensor, gram: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of E [2, dim, 7], of the norms' weights [2, dim] and of alpha [2], of query and key."""
    weights = call.weights
    assert weights is not None
    project, norm = torch.stack(weights[:2]), torch.stack(weights[2:4])
    alpha = torch.cat([weights.alpha_q, weights.alpha_k])[:, None]  # [2, 1]
    rays = rays.view(2, 8, call.dim)[:, :7].mT  # [2, dim, 7]
    subtracted = torch.stack([gram[:7, :7], gram[8:15, 8:15]])  # [2, 7, 7]
    along = (project * rays).sum(-1)  # [2, dim]
    of_project = torch.baddbmm(rays * (alpha * norm)[..., None], project, subtracted, alpha=-1)
    return of_project, alpha * along, (norm * along).sum(-1)
