"""The gradient of `qk` in two kernels; the meaning is `plain.qk_backward`.

`_along_rows` makes, for each token, the sums over the width that a norm's gradient needs, and the gradient of the gate's
first layer. `_along_columns` then writes the gradients of query and key, and adds up those of every weight over a run of
tokens: partial sums that torch adds, no atomics, so the same inputs give the same bits.
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
    _normal_cdf,
    _ray_scale,
    _small_weight,
    _turned,
    tile,
)

ROWS = {"tokens": 16, "block": 64, "num_warps": 4, "num_stages": 2}  # see qk_triton.FORWARD
COLUMNS = {"tokens": 16, "block": 64, "num_warps": 4, "num_stages": 2}
RUNS = 32  # of tokens, each with its own partial sums
STATISTICS: tl.constexpr = tl.constexpr(
    8
)  # per token: 1 / RMS and the mean a norm subtracts, of q, k, E_q f_q, E_k f_k
VECTORS: tl.constexpr = tl.constexpr(5)  # weights with one number a channel: the four norms and the gate's last bias


@triton.jit
def _along_rows(
    grad_query, grad_key, query, key, statistics, grad_gate_in, grad_alpha,
    norm_query, norm_key, cos, sin, camera, gram,
    project_q, project_k, ray_norm_q, ray_norm_k, gate_in, gate_in_bias, gate_out, gate_out_bias, alpha_q, alpha_k,
    rows, length, dim, head_dim, query_batch, query_row, key_batch, key_row, camera_batch, camera_row, eps, floor,
    flip: tl.constexpr, with_camera: tl.constexpr, hidden: tl.constexpr, padded: tl.constexpr,
    precision: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    row = program * tokens + tl.arange(0, tokens)
    known = row < rows
    clip, position = row // length, row % length
    at_q, at_k = clip * query_batch + position * query_row, clip * key_batch + position * key_row
    square_q = tl.zeros((tokens,), tl.float32)
    square_k = tl.zeros((tokens,), tl.float32)
    along_q = tl.zeros((tokens,), tl.float32)  # sum of gradient x input: the part of it that a norm cannot pass
    along_k = tl.zeros((tokens,), tl.float32)
    if with_camera:
        at = clip * camera_batch + position * camera_row
        feature_q, log = _feature(camera, at, known, False, floor)
        feature_k, log = _feature(camera, at, known, flip, floor)
        present = tl.sum(tl.where(tl.arange(0, FEATURE_ROWS)[None, :] < 3, tl.abs(feature_q), 0.0), axis=1) > 0
        heard = log + tl.load(camera + at + DELTA, mask=known, other=0.0)
        before = _gate_hidden(heard, gate_in, gate_in_bias, hidden, padded)
        activated = before * _normal_cdf(before)
        ray_scale_q = _ray_scale(feature_q, gram, present, dim)
        ray_scale_k = _ray_scale(feature_k, gram + 49, present, dim)
        unit_q, unit_k = feature_q * ray_scale_q[:, None], feature_k * ray_scale_k[:, None]
        strength_q, strength_k = tl.load(alpha_q), tl.load(alpha_k)
        ray_along_q = tl.zeros((tokens,), tl.float32)
        ray_along_k = tl.zeros((tokens,), tl.float32)
        grad_activated = tl.zeros((tokens, padded), tl.float32)

    for start in range(0, dim, block):
        channel = start + tl.arange(0, block)
        inside = channel < dim
        here = known[:, None] & inside[None, :]
        turn_cos, turn_sin = _angles(cos, sin, position, known, start, dim, head_dim, block)
        from_ = row[:, None] * dim + channel[None, :]
        grad_q = tl.load(grad_query + from_, mask=here, other=0.0).to(tl.float32)
        grad_k = tl.load(grad_key + from_, mask=here, other=0.0).to(tl.float32)
        x = tl.load(query + at_q[:, None] + channel[None, :], mask=here, other=0.0).to(tl.float32)
        back = _turned(grad_q, turn_cos, -turn_sin, tokens, block)
        square_q += tl.sum(x * x, axis=1)
        along_q += tl.sum(back * tl.load(norm_query + channel, mask=inside, other=0.0)[None, :] * x, axis=1)
        x = tl.load(key + at_k[:, None] + channel[None, :], mask=here, other=0.0).to(tl.float32)
        back = _turned(grad_k, turn_cos, -turn_sin, tokens, block)
        square_k += tl.sum(x * x, axis=1)
        along_k += tl.sum(back * tl.load(norm_key + channel, mask=inside, other=0.0)[None, :] * x, axis=1)
        if with_camera:
            last = _small_weight(gate_out, channel, inside, hidden, padded)  # [padded, BLOCK]
            logits = tl.dot(activated, last, input_precision=precision)
            gate = tl.sigmoid(logits + tl.load(gate_out_bias + channel, mask=inside, other=0.0)[None, :])
            ray = tl.dot(unit_q, _small_weight(project_q, channel, inside, 7, FEATURE_ROWS), input_precision=precision)
            through_q = grad_q * ray * tl.load(ray_norm_q + channel, mask=inside, other=0.0)[None, :]
            ray = tl.dot(unit_k, _small_weight(project_k, channel, inside, 7, FEATURE_ROWS), input_precision=precision)
            through_k = grad_k * ray * tl.load(ray_norm_k + channel, mask=inside, other=0.0)[None, :]
            ray_along_q += tl.sum(through_q * gate, axis=1)
            ray_along_k += tl.sum(through_k * gate, axis=1)
            grad_logits = (strength_q * through_q + strength_k * through_k) * gate * (1.0 - gate)
            grad_activated += tl.dot(grad_logits, tl.trans(last), input_precision=precision)

    scale_q, scale_k = 1.0 / tl.sqrt(square_q / dim + eps), 1.0 / tl.sqrt(square_k / dim + eps)
    to = statistics + row * STATISTICS
    tl.store(to, scale_q, mask=known)
    tl.store(to + 1, along_q * scale_q / dim, mask=known)
    tl.store(to + 2, scale_k, mask=known)
    tl.store(to + 3, along_k * scale_k / dim, mask=known)
    if with_camera:
        tl.store(to + 4, ray_scale_q, mask=known)
        tl.store(to + 5, ray_along_q * strength_q / dim, mask=known)
        tl.store(to + 6, ray_scale_k, mask=known)
        tl.store(to + 7, ray_along_k * strength_k / dim, mask=known)
        tl.store(grad_alpha + 2 * program, tl.sum(ray_along_q, axis=0))
        tl.store(grad_alpha + 2 * program + 1, tl.sum(ray_along_k, axis=0))
        slope = _normal_cdf(before) + before * tl.exp(-0.5 * before * before) * 0.3989422804014327
        grad_before = tl.where(known[:, None], grad_activated * slope, 0.0)
        unit = tl.arange(0, padded)
        to = grad_gate_in + 2 * hidden * program + unit
        tl.store(to, tl.sum(grad_before * heard[:, None], axis=0), mask=unit < hidden)
        tl.store(to + hidden, tl.sum(grad_before, axis=0), mask=unit < hidden)


@triton.jit
def _along_columns(
    grad_query, grad_key, query, key, new_query, new_key, statistics, grad_vectors, grad_project, grad_gate_out, run,
    norm_query, norm_key, cos, sin, camera, gram,
    project_q, project_k, ray_norm_q, ray_norm_k, gate_in, gate_in_bias, gate_out, gate_out_bias, alpha_q, alpha_k,
    rows, length, dim, head_dim, query_batch, query_row, key_batch, key_row, camera_batch, camera_row, eps, floor,
    flip: tl.constexpr, with_camera: tl.constexpr, hidden: tl.constexpr, padded: tl.constexpr,
    precision: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    start, part = tl.program_id(0) * block, tl.program_id(1).to(tl.int64)
    channel = start + tl.arange(0, block)
    inside = channel < dim
    weight_q = tl.load(norm_query + channel, mask=inside, other=0.0)[None, :]
    weight_k = tl.load(norm_key + channel, mask=inside, other=0.0)[None, :]
    grad_norm_q = tl.zeros((block,), tl.float32)
    grad_norm_k = tl.zeros((block,), tl.float32)
    if with_camera:
        e_q = _small_weight(project_q, channel, inside, 7, FEATURE_ROWS)
        e_k = _small_weight(project_k, channel, inside, 7, FEATURE_ROWS)
        last = _small_weight(gate_out, channel, inside, hidden, padded)
        bias = tl.load(gate_out_bias + channel, mask=inside, other=0.0)[None, :]
        ray_weight_q = tl.load(ray_norm_q + channel, mask=inside, other=0.0)[None, :]
        ray_weight_k = tl.load(ray_norm_k + channel, mask=inside, other=0.0)[None, :]
        strength_q, strength_k = tl.load(alpha_q), tl.load(alpha_k)
        grad_ray_norm_q = tl.zeros((block,), tl.float32)
        grad_ray_norm_k = tl.zeros((block,), tl.float32)
        grad_bias = tl.zeros((block,), tl.float32)
        grad_e_q = tl.zeros((FEATURE_ROWS, block), tl.float32)
        grad_e_k = tl.zeros((FEATURE_ROWS, block), tl.float32)
        grad_last = tl.zeros((padded, block), tl.float32)

    for first in range(0, run, tokens):
        row = part * run + first + tl.arange(0, tokens)
        known = row < rows
        clip, position = row // length, row % length
        here = known[:, None] & inside[None, :]
        at = row[:, None] * dim + channel[None, :]
        about = statistics + row * STATISTICS
        turn_cos, turn_sin = _angles(cos, sin, position, known, start, dim, head_dim, block)
        grad_q = tl.load(grad_query + at, mask=here, other=0.0).to(tl.float32)
        grad_k = tl.load(grad_key + at, mask=here, other=0.0).to(tl.float32)

        at_q = clip * query_batch + position * query_row
        scale, mean = tl.load(about, mask=known, other=0.0)[:, None], tl.load(about + 1, mask=known, other=0.0)[:, None]
        x = tl.load(query + at_q[:, None] + channel[None, :], mask=here, other=0.0).to(tl.float32) * scale
        back = _turned(grad_q, turn_cos, -turn_sin, tokens, block)
        grad_norm_q += tl.sum(back * x, axis=0)
        tl.store(new_query + at, (scale * (back * weight_q - x * mean)).to(new_query.dtype.element_ty), mask=here)

        at_k = clip * key_batch + position * key_row
        scale, mean = (
            tl.load(about + 2, mask=known, other=0.0)[:, None],
            tl.load(about + 3, mask=known, other=0.0)[:, None],
        )
        x = tl.load(key + at_k[:, None] + channel[None, :], mask=here, other=0.0).to(tl.float32) * scale
        back = _turned(grad_k, turn_cos, -turn_sin, tokens, block)
        grad_norm_k += tl.sum(back * x, axis=0)
        tl.store(new_key + at, (scale * (back * weight_k - x * mean)).to(new_key.dtype.element_ty), mask=here)

        if with_camera:
            at_camera = clip * camera_batch + position * camera_row
            feature_q, log = _feature(camera, at_camera, known, False, floor)
            feature_k, log = _feature(camera, at_camera, known, flip, floor)
            heard = log + tl.load(camera + at_camera + DELTA, mask=known, other=0.0)
            before = _gate_hidden(heard, gate_in, gate_in_bias, hidden, padded)
            activated = before * _normal_cdf(before)
            gate = tl.sigmoid(tl.dot(activated, last, input_precision=precision) + bias)

            scale, mean = (
                tl.load(about + 4, mask=known, other=0.0)[:, None],
                tl.load(about + 5, mask=known, other=0.0)[:, None],
            )
            unit = tl.dot(feature_q * scale, e_q, input_precision=precision)
            grad_gate = strength_q * grad_q * unit * ray_weight_q
            grad_ray_norm_q += tl.sum(strength_q * grad_q * unit * gate, axis=0)
            grad_ray = scale * (strength_q * grad_q * gate * ray_weight_q - unit * mean)
            grad_e_q += tl.dot(tl.trans(feature_q), grad_ray, input_precision=precision)

            scale, mean = (
                tl.load(about + 6, mask=known, other=0.0)[:, None],
                tl.load(about + 7, mask=known, other=0.0)[:, None],
            )
            unit = tl.dot(feature_k * scale, e_k, input_precision=precision)
            grad_gate += strength_k * grad_k * unit * ray_weight_k
            grad_ray_norm_k += tl.sum(strength_k * grad_k * unit * gate, axis=0)
            grad_ray = scale * (strength_k * grad_k * gate * ray_weight_k - unit * mean)
            grad_e_k += tl.dot(tl.trans(feature_k), grad_ray, input_precision=precision)

            grad_logits = grad_gate * gate * (1.0 - gate)
            grad_bias += tl.sum(grad_logits, axis=0)
            grad_last += tl.dot(tl.trans(activated), grad_logits, input_precision=precision)

    to = grad_vectors + part * VECTORS * dim + channel
    tl.store(to, grad_norm_q, mask=inside)
    tl.store(to + dim, grad_norm_k, mask=inside)
    if with_camera:
        tl.store(to + 2 * dim, grad_ray_norm_q, mask=inside)
        tl.store(to + 3 * dim, grad_ray_norm_k, mask=inside)
        tl.store(to + 4 * dim, grad_bias, mask=inside)
        feature, unit = tl.arange(0, FEATURE_ROWS)[:, None], tl.arange(0, padded)[:, None]
        to = grad_project + (2 * part * dim + channel[None, :]) * 7 + feature
        tl.store(to, grad_e_q, mask=inside[None, :] & (feature < 7))
        tl.store(to + 7 * dim, grad_e_k, mask=inside[None, :] & (feature < 7))
        to = grad_gate_out + (part * dim + channel[None, :]) * hidden + unit
        tl.store(to, grad_last, mask=inside[None, :] & (unit < hidden))


def qk_backward(grad_query: Tensor, grad_key: Tensor, *arguments: Any) -> list[Tensor]:
    """As `plain.qk_backward`."""
    call = Call(*arguments)
    grads = [grad_query.contiguous(), grad_key.contiguous()]
    inputs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (call.query, call.key)]
    dim, hidden = call.dim, call.hidden
    tiles, columns = triton.cdiv(call.rows, ROWS["tokens"]), tile(COLUMNS, dim)
    whole = triton.cdiv(call.rows, columns["tokens"])
    run = triton.cdiv(whole, min(RUNS, whole)) * columns["tokens"]  # tokens of one run, whole tiles
    parts = triton.cdiv(call.rows, run)

    def room(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=grad_query.device)

    statistics, gate_in, alpha = room(call.rows, STATISTICS.value), room(tiles, 2, hidden), room(tiles, 2)
    vectors, project, gate_out = room(parts, VECTORS.value, dim), room(parts, 2, dim, 7), room(parts, dim, hidden)
    _along_rows[(tiles,)](
        *grads, call.query, call.key, statistics, gate_in, alpha, *call.tensors, *call.numbers,
        **call.settings, **tile(ROWS, dim),
    )  # fmt: skip
    _along_columns[(triton.cdiv(dim, columns["block"]), parts)](
        *grads, call.query, call.key, *inputs, statistics, vectors, project, gate_out, run,
        *call.tensors, *call.numbers, **call.settings, **columns,
    )  # fmt: skip
    norms = vectors[:, :2].sum(0)
    if not call.weights:
        return [*inputs, norms[0].clone(), norms[1].clone()]
    of_vectors, of_projects, of_gate, of_alphas = vectors.sum(0), project.sum(0), gate_in.sum(0), alpha.sum(0)
    found = [
        *of_vectors[:2], *of_projects, *of_vectors[2:4], of_gate[0][:, None], of_gate[1],
        gate_out.sum(0), of_vectors[4], of_alphas[:1], of_alphas[1:],
    ]  # fmt: skip
    return [*inputs, *(one.clone() for one in found)]  # an operation's results may not share memory
