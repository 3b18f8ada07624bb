"""QKNorm, RoPE and SCoPE's addition in one pass over query and key, and its gradient. The meaning is `plain.qk`.

A program holds a tile of tokens and walks along the width in blocks. What belongs to a token (the 7 ray features, the gate's
hidden layer, the norms) is computed once and kept in registers; the encoding itself exists only block by block. The RMS of
E f comes from the 7x7 Gram matrix of E. Products with the small weights are matrix products of depth 16, for which `_pack`
lays the weights out; for 16-bit queries their operands are float16, whose 10 bits are tf32's, and sums are float32.
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

# Tokens of a tile (16 at least, for the matrix products), channels of a block, and how Triton compiles it. Where a block holds
# whole heads, RoPE's angles are read once. benchmarks/tune_kernels.py times others.
FORWARD = {"tokens": 32, "block": 128, "num_warps": 8, "num_stages": 2, "maxnreg": 128}
DELTA: tl.constexpr = tl.constexpr(LOG_SCALE_OFFSET.start)
PACK_BLOCK = 128
FEATURE_ROWS: tl.constexpr = tl.constexpr(16)  # 7 features of the query from 0 on, 7 of the key from 8 on
EPS: tl.constexpr = tl.constexpr(RAY_EPS)


@triton.jit
def _places(first, rows, length, tokens: tl.constexpr):  # -> row, whether there is one, its clip, its place in that
    row = first + tl.arange(0, tokens)  # counted in 32 bits, which divide fast; offsets need 64
    clip = row // length
    return row.to(tl.int64), row < rows, clip.to(tl.int64), (row - clip * length).to(tl.int64)


@triton.jit
def _feature(camera, at, known, turn, floor, first):  # -> [T, 16], s [T]
    """(d, m^, s) of each token in columns `first` to `first` + 6, zeros elsewhere; with turn = 3 (m^, d, s). And s itself."""
    column = tl.arange(0, FEATURE_ROWS)[None, :] - first
    inside = (column >= 0) & (column < 6)
    source = tl.where(inside, (column + turn) % 6, 0)
    ray = tl.load(camera + at[:, None] + source, mask=known[:, None] & inside, other=0.0)
    magnitude = tl.sqrt(tl.sum(tl.where(source >= 3, ray * ray, 0.0), axis=1))
    magnitude = tl.maximum(magnitude, floor)
    log = tl.log(magnitude)
    feature = tl.where(source >= 3, ray / magnitude[:, None], ray)
    return tl.where(column == 6, log[:, None], feature), log


@triton.jit
def _gram(grams, parts: tl.constexpr):  # -> [16, 16], of E_q and E_k side by side
    part = tl.arange(0, parts)[:, None]
    column = tl.arange(0, FEATURE_ROWS * FEATURE_ROWS)[None, :]
    found = tl.sum(tl.load(grams + part * (FEATURE_ROWS * FEATURE_ROWS) + column), axis=0)
    return tl.reshape(found, (FEATURE_ROWS, FEATURE_ROWS))


@triton.jit
def _ray_scale(feature, gram, present, dim):  # -> [T], 1 / RMS(E f), 0 where there is no camera
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
def _sigmoid(x, fast: tl.constexpr):
    if fast:  # one instruction instead of eight; off by 2^-12 at most, an eighth of a bfloat16's rounding
        tanh = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [0.5 * x], dtype=tl.float32, is_pure=True, pack=1
        )
        return 0.5 * tanh + 0.5
    return tl.sigmoid(x)


@triton.jit
def _row(weight, channel, dim: tl.constexpr, whole: tl.constexpr):  # [dim] -> [1, BLOCK]
    if whole:
        return tl.load(weight + channel)[None, :]
    return tl.load(weight + channel, mask=channel < dim, other=0.0)[None, :]


@triton.jit
def _packed(packed, channel, first: tl.constexpr, count: tl.constexpr, width: tl.constexpr, dim: tl.constexpr,
            whole: tl.constexpr):  # fmt: skip
    """[dim, width] -> [count, BLOCK]: columns from `first` on."""
    at = packed + channel[None, :] * width + first + tl.arange(0, count)[:, None]
    if whole:
        return tl.load(at)
    return tl.load(at, mask=(channel < dim)[None, :], other=0.0)


@triton.jit
def _turned(x, cos, sin, tokens: tl.constexpr, block: tl.constexpr):  # [T, BLOCK], [T, BLOCK / 2] x2 -> [T, BLOCK]
    even, odd = tl.split(tl.reshape(x, (tokens, block // 2, 2)))
    return tl.reshape(tl.join(even * cos - odd * sin, even * sin + odd * cos), (tokens, block))


@triton.jit
def _angles(cos, sin, position, known, start, head_dim: tl.constexpr, block: tl.constexpr):  # -> 2 x [T, BLOCK / 2]
    even = start + 2 * tl.arange(0, block // 2)
    at = position[:, None] * head_dim + (even % head_dim)[None, :]
    return tl.load(cos + at, mask=known[:, None], other=0.0), tl.load(sin + at + 1, mask=known[:, None], other=0.0)


@triton.jit
def _pack(project_q, project_k, ray_norm_q, ray_norm_k, gate_out, packed, grams, dim: tl.constexpr,
          hidden: tl.constexpr, padded: tl.constexpr, block: tl.constexpr):  # fmt: skip
    """SCoPE's weights of a block of channels as the products want them, and the block's share of the Gram matrix.

    packed [dim, 16 + padded]: E_q (7) and a zero, E_k (7) and a zero, each times its norm's weight; then the gate's.
    """
    program = tl.program_id(0)
    channel = program * block + tl.arange(0, block)
    inside = (channel < dim)[:, None]
    column = tl.arange(0, FEATURE_ROWS)[None, :]
    is_key, feature = column >= 8, column % 8
    at, real = channel[:, None] * 7 + feature, inside & (feature < 7)
    both = tl.load(project_q + at, mask=real & (column < 8), other=0.0)
    both += tl.load(project_k + at, mask=real & is_key, other=0.0)  # [BLOCK, 16]
    norm_q = tl.load(ray_norm_q + channel[:, None], mask=inside, other=0.0)
    norm_k = tl.load(ray_norm_k + channel[:, None], mask=inside, other=0.0)
    width: tl.constexpr = FEATURE_ROWS + padded
    to = packed + channel[:, None] * width
    tl.store(to + column, (both * tl.where(is_key, norm_k, norm_q)).to(packed.dtype.element_ty), mask=inside)
    unit = tl.arange(0, padded)[None, :]
    last = tl.load(gate_out + channel[:, None] * hidden + unit, mask=inside & (unit < hidden), other=0.0)
    tl.store(to + FEATURE_ROWS + unit, last.to(packed.dtype.element_ty), mask=inside)
    row = tl.arange(0, FEATURE_ROWS)[:, None]
    share = tl.dot(tl.trans(both), both, input_precision="ieee")
    tl.store(grams + program * (FEATURE_ROWS * FEATURE_ROWS) + row * FEATURE_ROWS + column, share)


@triton.jit
def _forward(
    query, key, out_query, out_key, norm_query, norm_key, cos, sin, camera, packed, grams,
    gate_in, gate_in_bias, gate_out_bias, alpha_q, alpha_k,
    rows, length, query_batch, query_row, key_batch, key_row, camera_batch, camera_row, eps, floor,
    dim: tl.constexpr, head_dim: tl.constexpr, flip: tl.constexpr, with_camera: tl.constexpr, hidden: tl.constexpr,
    padded: tl.constexpr, parts: tl.constexpr, fast: tl.constexpr, tokens: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    whole: tl.constexpr = dim % block == 0
    same_angles: tl.constexpr = block % head_dim == 0  # in every block
    row, known, clip, position = _places(tl.program_id(0) * tokens, rows, length, tokens)
    query += (clip * query_batch + position * query_row)[:, None]
    key += (clip * key_batch + position * key_row)[:, None]

    square_q = tl.zeros((tokens, block), tl.float32)
    square_k = tl.zeros((tokens, block), tl.float32)
    for start in tl.range(0, dim, block, loop_unroll_factor=4):
        channel = start + tl.arange(0, block)[None, :]
        here = known[:, None] if whole else known[:, None] & (channel < dim)
        x = tl.load(query + channel, mask=here, other=0.0).to(tl.float32)
        square_q += x * x
        x = tl.load(key + channel, mask=here, other=0.0).to(tl.float32)
        square_k += x * x
    scale_q = 1.0 / tl.sqrt(tl.sum(square_q, axis=1) / dim + eps)
    scale_k = 1.0 / tl.sqrt(tl.sum(square_k, axis=1) / dim + eps)

    if with_camera:
        at = clip * camera_batch + position * camera_row
        feature_q, log = _feature(camera, at, known, 0, floor, 0)
        feature_k, log = _feature(camera, at, known, 3 if flip else 0, floor, 8)
        present = tl.sum(tl.where(tl.arange(0, FEATURE_ROWS)[None, :] < 3, tl.abs(feature_q), 0.0), axis=1) > 0
        gram = _gram(grams, parts)
        strength_q = _ray_scale(feature_q, gram, present, dim) * tl.load(alpha_q)
        strength_k = _ray_scale(feature_k, gram, present, dim) * tl.load(alpha_k)
        heard = log + tl.load(camera + at + DELTA, mask=known, other=0.0)
        before = _gate_hidden(heard, gate_in, gate_in_bias, hidden, padded)
        activated = (before * _normal_cdf(before)).to(packed.dtype.element_ty)
        nothing = tl.zeros((tokens, FEATURE_ROWS), packed.dtype.element_ty)
        feature_q, feature_k = feature_q.to(packed.dtype.element_ty), feature_k.to(packed.dtype.element_ty)
    if same_angles:
        turn_cos, turn_sin = _angles(cos, sin, position, known, 0, head_dim, block)

    for start in range(0, dim, block):
        channel = start + tl.arange(0, block)
        here = known[:, None] if whole else known[:, None] & (channel < dim)[None, :]
        if not same_angles:
            turn_cos, turn_sin = _angles(cos, sin, position, known, start, head_dim, block)
        x_q = tl.load(query + channel[None, :], mask=here, other=0.0).to(tl.float32)
        x_k = tl.load(key + channel[None, :], mask=here, other=0.0).to(tl.float32)
        if with_camera:
            last = _packed(packed, channel, FEATURE_ROWS, padded, FEATURE_ROWS + padded, dim, whole)
            both = _packed(packed, channel, 0, FEATURE_ROWS, FEATURE_ROWS + padded, dim, whole)
            # Adding a product with zeros moves the 16-bit values to the layout of products, before they are 32 bits.
            x_q = tl.dot(nothing, both, acc=x_q)
            x_k = tl.dot(nothing, both, acc=x_k)
        normed = x_q * scale_q[:, None] * _row(norm_query, channel, dim, whole)
        new_q = _turned(normed, turn_cos, turn_sin, tokens, block)
        normed = x_k * scale_k[:, None] * _row(norm_key, channel, dim, whole)
        new_k = _turned(normed, turn_cos, turn_sin, tokens, block)
        if with_camera:
            logits = tl.dot(activated, last, input_precision="ieee") + _row(gate_out_bias, channel, dim, whole)
            gate = _sigmoid(logits, fast)
            new_q += gate * strength_q[:, None] * tl.dot(feature_q, both, input_precision="ieee")
            new_k += gate * strength_k[:, None] * tl.dot(feature_k, both, input_precision="ieee")
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
        batch, length, self.dim = query.shape
        self.query, self.key, self.rows = query, key, batch * length
        exact = query.dtype == torch.float32
        self.operand = torch.float32 if exact else torch.float16
        norms = [x.float().contiguous() for x in (norm_query, norm_key)]
        tables = [x.float().contiguous() for x in (cos, sin)]
        self.weights: ScopeWeights | None = None
        self.hidden, parts = 1, 1
        rays, camera_strides = [norms[0]] * 8, (0, 0)  # without a camera, anything: never read
        if camera is not None:
            self.weights = weights = ScopeWeights(*(x.float().contiguous() for x in scope))
            self.hidden = len(weights.gate_in)
            rows = camera.float() if camera.stride(-1) == 1 else camera.float().contiguous()
            camera_strides = (rows.stride(0) if len(rows) > 1 else 0, rows.stride(1))
            packed, grams = self._pack(weights)
            parts = len(grams)
            rays = [rows, packed, grams, *weights[4:6], *weights[7:]]
        self.tensors = (*norms, *tables, *rays)
        self.numbers = (
            self.rows, length, query.stride(0), query.stride(1), key.stride(0), key.stride(1), *camera_strides, eps, floor
        )  # fmt: skip
        self.settings: dict[str, Any] = {
            "dim": self.dim,
            "head_dim": cos.shape[-1],
            "flip": flip,
            "with_camera": camera is not None,
            "hidden": self.hidden,
            "padded": self.padded,
            "parts": parts,
            "fast": not exact and query.is_cuda,
        }

    @property
    def padded(self) -> int:
        return max(16, triton.next_power_of_2(self.hidden))

    def _pack(self, weights: ScopeWeights) -> tuple[Tensor, Tensor]:  # [dim, 16 + padded], [parts, 16, 16]
        device, block = self.query.device, min(PACK_BLOCK, max(16, triton.next_power_of_2(self.dim)))
        programs = triton.cdiv(self.dim, block)
        packed = torch.empty(self.dim, FEATURE_ROWS.value + self.padded, dtype=self.operand, device=device)
        # A power of two, for whoever adds them up; the programs beyond the width write zeros.
        grams = torch.empty(triton.next_power_of_2(programs), FEATURE_ROWS.value, FEATURE_ROWS.value, device=device)
        _pack[(len(grams),)](
            *weights[:4], weights.gate_out, packed, grams, self.dim, self.hidden, self.padded, block, num_warps=4
        )  # fmt: skip
        return packed, grams


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
