"""QKNorm, RoPE and SCoPE's addition in one pass over query and key, and its gradient. The meaning is `plain.qk`.

A program holds a tile of tokens and walks along the width in blocks. What belongs to a token (the 7 ray features, the gate's
hidden layer, the norms) is computed once and kept in registers; the encoding itself exists only block by block. The RMS of
E f comes from the 7x7 Gram matrix of E. Products with the small weights are matrix products of depth 16.

The gradient takes two kernels: one along rows, for the sums over the width that a norm's gradient needs, and one along
columns, which writes the inputs' gradients and adds up the weights' over a run of tokens: no atomics, so runs repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.cameras.tokens import LOG_SCALE_OFFSET
from sightline.kernels.plain import RAY_EPS, ScopeWeights

# Tokens of a tile (16 at least, for the matrix products), channels of a block, and how Triton compiles it. Chosen by registers
# and shared memory on sm_90; benchmarks/tune_kernels.py times others.
FORWARD = {"tokens": 16, "block": 128, "num_warps": 8, "num_stages": 2}
DELTA: tl.constexpr = tl.constexpr(LOG_SCALE_OFFSET.start)
FEATURE_ROWS: tl.constexpr = tl.constexpr(16)  # 7 features, padded to what a matrix product takes
EPS: tl.constexpr = tl.constexpr(RAY_EPS)


@triton.jit
def _feature(camera, at, known, flip: tl.constexpr, floor):  # -> [T, 16], s [T]
    """(d, m^, s) of each token, zero-padded, halves swapped for the key; and s itself."""
    column = tl.arange(0, FEATURE_ROWS)[None, :]
    source = (column + 3) % 6 if flip else column
    inside = known[:, None] & (column < 6)
    ray = tl.load(camera + at[:, None] + tl.where(column < 6, source, 0), mask=inside, other=0.0)
    is_moment = (column < 3) if flip else ((column >= 3) & (column < 6))
    magnitude = tl.sqrt(tl.sum(tl.where(is_moment, ray * ray, 0.0), axis=1))
    magnitude = tl.maximum(magnitude, floor)
    log = tl.log(magnitude)
    feature = tl.where(is_moment, ray / magnitude[:, None], ray)
    return tl.where(column == 6, log[:, None], feature), log


@triton.jit
def _ray_scale(feature, gram, present, dim):  # -> [T], 1 / RMS(E f), 0 where there is no camera
    rows, columns = tl.arange(0, FEATURE_ROWS)[:, None], tl.arange(0, FEATURE_ROWS)[None, :]
    gram = tl.load(gram + rows * 7 + columns, mask=(rows < 7) & (columns < 7), other=0.0)
    square = tl.sum(tl.dot(feature, gram, input_precision="ieee") * feature, axis=1) / dim
    return tl.where(present, 1.0 / tl.sqrt(square + EPS), 0.0)


@triton.jit
def _gate_hidden(
    heard, gate_in, gate_in_bias, hidden: tl.constexpr, padded: tl.constexpr
):  # -> before the GELU [T, padded]
    unit = tl.arange(0, padded)
    weight = tl.load(gate_in + unit, mask=unit < hidden, other=0.0)
    bias = tl.load(gate_in_bias + unit, mask=unit < hidden, other=0.0)
    return heard[:, None] * weight[None, :] + bias[None, :]


@triton.jit
def _normal_cdf(x):
    return 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def _small_weight(
    weight, channel, inside, width: tl.constexpr, padded: tl.constexpr
):  # [dim, width] -> [padded, BLOCK]
    row = tl.arange(0, padded)[:, None]
    return tl.load(weight + channel[None, :] * width + row, mask=inside[None, :] & (row < width), other=0.0)


@triton.jit
def _turned(x, cos, sin, tokens: tl.constexpr, block: tl.constexpr):  # [T, BLOCK], [T, BLOCK / 2] x2 -> [T, BLOCK]
    even, odd = tl.split(tl.reshape(x, (tokens, block // 2, 2)))
    return tl.reshape(tl.join(even * cos - odd * sin, even * sin + odd * cos), (tokens, block))


@triton.jit
def _angles(cos, sin, position, known, start, dim, head_dim, block: tl.constexpr):  # -> 2 x [T, BLOCK / 2]
    even = start + 2 * tl.arange(0, block // 2)
    at = position[:, None] * head_dim + (even % head_dim)[None, :]
    inside = known[:, None] & (even < dim)[None, :]
    return tl.load(cos + at, mask=inside, other=0.0), tl.load(sin + at + 1, mask=inside, other=0.0)


@triton.jit
def _forward(
    query, key, out_query, out_key, norm_query, norm_key, cos, sin, camera, gram,
    project_q, project_k, ray_norm_q, ray_norm_k, gate_in, gate_in_bias, gate_out, gate_out_bias, alpha_q, alpha_k,
    rows, length, dim, head_dim, query_batch, query_row, key_batch, key_row, camera_batch, camera_row, eps, floor,
    flip: tl.constexpr, with_camera: tl.constexpr, hidden: tl.constexpr, padded: tl.constexpr,
    precision: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * tokens + tl.arange(0, tokens)
    known = row < rows
    clip, position = row // length, row % length
    at_q, at_k = clip * query_batch + position * query_row, clip * key_batch + position * key_row

    square_q = tl.zeros((tokens,), tl.float32)
    square_k = tl.zeros((tokens,), tl.float32)
    for start in range(0, dim, block):
        channel = start + tl.arange(0, block)
        here = known[:, None] & (channel < dim)[None, :]
        x = tl.load(query + at_q[:, None] + channel[None, :], mask=here, other=0.0).to(tl.float32)
        square_q += tl.sum(x * x, axis=1)
        x = tl.load(key + at_k[:, None] + channel[None, :], mask=here, other=0.0).to(tl.float32)
        square_k += tl.sum(x * x, axis=1)
    scale_q, scale_k = 1.0 / tl.sqrt(square_q / dim + eps), 1.0 / tl.sqrt(square_k / dim + eps)

    if with_camera:
        at = clip * camera_batch + position * camera_row
        feature_q, log = _feature(camera, at, known, False, floor)
        feature_k, log = _feature(camera, at, known, flip, floor)
        present = tl.sum(tl.where(tl.arange(0, FEATURE_ROWS)[None, :] < 3, tl.abs(feature_q), 0.0), axis=1) > 0
        heard = log + tl.load(camera + at + DELTA, mask=known, other=0.0)
        before = _gate_hidden(heard, gate_in, gate_in_bias, hidden, padded)
        activated = before * _normal_cdf(before)
        # alpha and the ray's norm belong to the token: multiplied into its features once, not into every channel.
        ray_q = feature_q * (_ray_scale(feature_q, gram, present, dim) * tl.load(alpha_q))[:, None]
        ray_k = feature_k * (_ray_scale(feature_k, gram + 49, present, dim) * tl.load(alpha_k))[:, None]

    for start in range(0, dim, block):
        channel = start + tl.arange(0, block)
        inside = channel < dim
        here = known[:, None] & inside[None, :]
        turn_cos, turn_sin = _angles(cos, sin, position, known, start, dim, head_dim, block)
        weight = tl.load(norm_query + channel, mask=inside, other=0.0)
        x = tl.load(query + at_q[:, None] + channel[None, :], mask=here, other=0.0).to(tl.float32)
        new_q = _turned(x * scale_q[:, None] * weight[None, :], turn_cos, turn_sin, tokens, block)
        weight = tl.load(norm_key + channel, mask=inside, other=0.0)
        x = tl.load(key + at_k[:, None] + channel[None, :], mask=here, other=0.0).to(tl.float32)
        new_k = _turned(x * scale_k[:, None] * weight[None, :], turn_cos, turn_sin, tokens, block)
        if with_camera:
            logits = tl.dot(
                activated, _small_weight(gate_out, channel, inside, hidden, padded), input_precision=precision
            )
            gate = tl.sigmoid(logits + tl.load(gate_out_bias + channel, mask=inside, other=0.0)[None, :])
            project = _small_weight(project_q, channel, inside, 7, FEATURE_ROWS)
            weight = tl.load(ray_norm_q + channel, mask=inside, other=0.0)
            new_q += gate * weight[None, :] * tl.dot(ray_q, project, input_precision=precision)
            project = _small_weight(project_k, channel, inside, 7, FEATURE_ROWS)
            weight = tl.load(ray_norm_k + channel, mask=inside, other=0.0)
            new_k += gate * weight[None, :] * tl.dot(ray_k, project, input_precision=precision)
        to = row[:, None] * dim + channel[None, :]
        tl.store(out_query + to, new_q.to(out_query.dtype.element_ty), mask=here)
        tl.store(out_key + to, new_k.to(out_key.dtype.element_ty), mask=here)


class Call:
    """What forward and backward hand to their kernels, in the kernels' own order."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        norm_query: Tensor,
        norm_key: Tensor,
        cos: Tensor,
        sin: Tensor,
        camera: Tensor | None,
        scope: Sequence[Tensor],
        eps: float,
        floor: float,
        flip: bool,
    ) -> None:
        query, key = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key))
        batch, length, dim = query.shape
        self.query, self.key, self.rows, self.dim = query, key, batch * length, dim
        norms = [x.float().contiguous() for x in (norm_query, norm_key)]
        tables = [x.float().contiguous() for x in (cos, sin)]
        weights = [x.float().contiguous() for x in scope]
        self.hidden = 1
        packed, gram, camera_strides = norms[0], norms[0], (0, 0)  # without a camera, anything: never read
        if camera is not None:
            named = ScopeWeights(*weights)
            projections = torch.stack([named.project_q, named.project_k])
            gram = projections.mT @ projections  # [2, 7, 7]
            self.hidden = len(named.gate_in)
            packed = camera.float() if camera.stride(-1) == 1 else camera.float().contiguous()
            camera_strides = (packed.stride(0) if len(packed) > 1 else 0, packed.stride(1))
        self.weights = weights
        self.tensors = (*norms, *tables, packed, gram, *(weights or [norms[0]] * len(ScopeWeights._fields)))
        self.numbers = (
            self.rows, length, dim, cos.shape[-1], query.stride(0), query.stride(1), key.stride(0), key.stride(1),
            *camera_strides, eps, floor,
        )  # fmt: skip
        self.settings: dict[str, Any] = {
            "flip": flip,
            "with_camera": camera is not None,
            "hidden": self.hidden,
            "padded": max(16, triton.next_power_of_2(self.hidden)),
            # tf32's rounding is well below that of bf16 and fp16 results; float32 gets exact products.
            "precision": "ieee" if query.dtype == torch.float32 else "tf32",
        }


def tile(settings: dict[str, int], dim: int) -> dict[str, int]:
    """The settings of a launch, with a block no wider than the model needs."""
    return settings | {"block": min(settings["block"], max(16, triton.next_power_of_2(dim)))}


def qk(*arguments: Any) -> tuple[Tensor, Tensor]:
    """As `plain.qk`."""
    call = Call(*arguments)
    outputs = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (call.query, call.key)]
    _forward[(triton.cdiv(call.rows, FORWARD["tokens"]),)](
        call.query, call.key, *outputs, *call.tensors, *call.numbers, **call.settings, **tile(FORWARD, call.dim)
    )  # fmt: skip
    return outputs[0], outputs[1]
