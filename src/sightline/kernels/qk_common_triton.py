"""Code that the kernels of `qk` share: the ray features of a token, the layout of SCoPE's weights, and the kernels' arguments.

The RMS of E f comes from the 7x7 Gram matrix of E. Products with the small weights are matrix products of depth 16, for which
`_pack` arranges the weights. For 16-bit queries their operands are float16, which has the 10 bits of tf32 (but not its range: E
may reach 1e4, and 1e5 overflows), their sums are float32, and what is added to query and key is rounded to float16.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.cameras.tokens import LOG_SCALE_OFFSET
from sightline.errors import SightlineError
from sightline.kernels.scope_reference import NORM_EPS, ScopeWeights
from sightline.kernels.tiles_triton import _place, block_of, dense

DELTA: tl.constexpr = tl.constexpr(LOG_SCALE_OFFSET.start)
PACK_BLOCK = 128
FEATURE_ROWS: tl.constexpr = tl.constexpr(16)  # 7 features of the query from 0 on, 7 of the key from 8 on
EPS: tl.constexpr = tl.constexpr(NORM_EPS)


@triton.jit
def _places(first, rows, length, tokens: tl.constexpr):  # -> row, whether it exists, its clip, its position in the clip
    row, clip, position = _place(first + tl.arange(0, tokens), length)
    return row, row < rows, clip, position


@triton.jit
def _feature(camera_rows, at, known, turn, min_moment, first):  # -> [T, 16], s [T]
    """(d, m^, s) of each token in columns `first` to `first` + 6 and zeros elsewhere, or (m^, d, s) if turn is 3; and s."""
    column = tl.arange(0, FEATURE_ROWS)[None, :] - first
    inside = (column >= 0) & (column < 6)
    source = tl.where(inside, (column + turn) % 6, 0)
    ray = tl.load(camera_rows + at[:, None] + source, mask=known[:, None] & inside, other=0.0)
    magnitude = tl.sqrt(tl.sum(tl.where(source >= 3, ray * ray, 0.0), axis=1))
    magnitude = tl.maximum(magnitude, min_moment)
    log = tl.log(magnitude)
    feature = tl.where(source >= 3, ray / magnitude[:, None], ray)
    return tl.where(column == 6, log[:, None], feature), log


@triton.jit
def _gram(grams, parts: tl.constexpr):  # -> [16, 16], of E_q and E_k side by side
    part = tl.arange(0, parts)[:, None]
    column = tl.arange(0, FEATURE_ROWS * FEATURE_ROWS)[None, :]
    gram = tl.sum(tl.load(grams + part * (FEATURE_ROWS * FEATURE_ROWS) + column), axis=0)
    return tl.reshape(gram, (FEATURE_ROWS, FEATURE_ROWS))


@triton.jit
def _ray_scale(feature, gram, present, dim):  # -> [T], 1 / RMS(E f), 0 where there is no camera
    square = tl.sum(tl.dot(feature, gram, input_precision="ieee") * feature, axis=1) / dim
    return tl.where(present, 1.0 / tl.sqrt(square + EPS), 0.0)


@triton.jit
def _normal_cdf(x):
    return 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def _sigmoid(x, fast: tl.constexpr):
    if fast:  # one instruction instead of eight; its error is at most 2^-12, so small gates are less accurate
        tanh = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [0.5 * x], dtype=tl.float32, is_pure=True, pack=1
        )
        return 0.5 * tanh + 0.5
    return tl.sigmoid(x)


@triton.jit
def _tokens(
    camera_rows, clip, position, known, grams, gate_in, gate_in_bias, camera_batch, camera_row, min_moment,
    dim: tl.constexpr, flip: tl.constexpr, hidden: tl.constexpr, padded: tl.constexpr, parts: tl.constexpr,
):  # fmt: skip
    """SCoPE's values for each token: both features [T, 16], their 1 / RMS(E f) [T], the gate's input s + delta [T] and its
    hidden layer before the GELU [T, padded]."""
    at = clip * camera_batch + position * camera_row
    feature_q, log = _feature(camera_rows, at, known, 0, min_moment, 0)
    feature_k, log = _feature(camera_rows, at, known, 3 if flip else 0, min_moment, 8)
    present = tl.sum(tl.where(tl.arange(0, FEATURE_ROWS)[None, :] < 3, tl.abs(feature_q), 0.0), axis=1) > 0
    gram = _gram(grams, parts)
    gate_input = log + tl.load(camera_rows + at + DELTA, mask=known, other=0.0)
    unit = tl.arange(0, padded)
    weight = tl.load(gate_in + unit, mask=unit < hidden, other=0.0)
    bias = tl.load(gate_in_bias + unit, mask=unit < hidden, other=0.0)
    before = gate_input[:, None] * weight[None, :] + bias[None, :]
    scale_q, scale_k = _ray_scale(feature_q, gram, present, dim), _ray_scale(feature_k, gram, present, dim)
    return feature_q, feature_k, scale_q, scale_k, gate_input, before


@triton.jit
def _row(weight, channel, dim: tl.constexpr, full_blocks: tl.constexpr):  # [dim] -> [1, BLOCK]
    if full_blocks:
        return tl.load(weight + channel)[None, :]
    return tl.load(weight + channel, mask=channel < dim, other=0.0)[None, :]


@triton.jit
def _packed(packed, channel, first: tl.constexpr, count: tl.constexpr, width: tl.constexpr, dim: tl.constexpr,
            full_blocks: tl.constexpr):  # fmt: skip
    """[dim, width] -> [count, BLOCK]: columns from `first` on."""
    at = packed + channel[None, :] * width + first + tl.arange(0, count)[:, None]
    if full_blocks:
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
    """Arrange SCoPE's weights for a block of channels, and compute the block's part of the Gram matrix.

    packed [dim, 16 + padded]: E_q (7) and a zero, E_k (7) and a zero, each times its norm's weight; then the gate's output layer.
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
    gram = tl.dot(tl.trans(both), both, input_precision="ieee")
    tl.store(grams + program * (FEATURE_ROWS * FEATURE_ROWS) + row * FEATURE_ROWS + column, gram)


class Call:
    """The arguments of `qk`, checked and arranged for its kernels."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        norm_query: Tensor,
        norm_key: Tensor,
        cos: Tensor,
        sin: Tensor,
        camera_rows: Tensor | None,
        scope_weights: Sequence[Tensor],
        eps: float,
        min_moment: float,
        flip: bool,
    ) -> None:
        batch, length, self.dim = query.shape
        expected = {"key": (key, query.shape), "cos": (cos, (1, length, 1, cos.shape[-1])), "sin": (sin, cos.shape)}
        expected |= {"norm_query": (norm_query, (self.dim,)), "norm_key": (norm_key, (self.dim,))}
        if camera_rows is not None:
            clips = 1 if len(camera_rows) == 1 else batch
            expected["camera_rows"] = (camera_rows, (clips, length, camera_rows.shape[-1]))
        for name, (tensor, shape) in expected.items():  # a kernel would read beyond the end of a smaller tensor
            if tensor.shape != torch.Size(shape):
                raise SightlineError(f"{name} has shape {tuple(tensor.shape)}: expected {tuple(shape)}.")
        self.query, self.key = dense(query), dense(key)
        self.rows, self.eps, self.min_moment = batch * length, eps, min_moment
        self.places = (self.rows, length)
        self.strides = (*self.query.stride()[:2], *self.key.stride()[:2])
        self.norms = [x.float().contiguous() for x in (norm_query, norm_key)]
        self.angles = [x.float().contiguous() for x in (cos, sin)]
        self.exact = query.dtype == torch.float32
        self.operand = torch.float32 if self.exact else torch.float16  # of products with SCoPE's weights
        self.weights: ScopeWeights | None = None
        self.hidden, self.camera_strides = 1, (0, 0)
        # Without a camera the kernels take any pointer for what belongs to SCoPE: they never read it.
        self.camera_rows = self.packed = self.grams = unused = self.norms[0]
        self.gate_in = self.gate_in_bias = self.gate_out_bias = self.alpha_q = self.alpha_k = unused
        parts = 1
        if camera_rows is not None:
            self.weights = weights = ScopeWeights(*(weight.float().contiguous() for weight in scope_weights))
            self.hidden = len(weights.gate_in)
            self.camera_rows = rows = dense(camera_rows.float())
            self.camera_strides = (rows.stride(0) if len(rows) > 1 else 0, rows.stride(1))
            self.packed, self.grams = self._pack(weights)
            parts = len(self.grams)
            self.gate_in, self.gate_in_bias = weights.gate_in, weights.gate_in_bias
            self.gate_out_bias = weights.gate_out_bias
            self.alpha_q, self.alpha_k = weights.alpha_q, weights.alpha_k
        self.of_tokens = {"dim": self.dim, "flip": flip, "hidden": self.hidden, "padded": self.padded, "parts": parts}
        self.fast = not self.exact and query.is_cuda

    @property
    def padded(self) -> int:
        return max(16, triton.next_power_of_2(self.hidden))

    @property
    def width(self) -> int:
        return FEATURE_ROWS.value + self.padded

    def _pack(self, weights: ScopeWeights) -> tuple[Tensor, Tensor]:  # [dim, 16 + padded], [parts, 16, 16]
        device, block = self.query.device, block_of(PACK_BLOCK, self.dim)
        programs = triton.cdiv(self.dim, block)
        packed = torch.empty(self.dim, self.width, dtype=self.operand, device=device)
        # A power of two, because Triton sums over powers of two; the programs beyond the width write zeros.
        grams = torch.empty(triton.next_power_of_2(programs), FEATURE_ROWS.value, FEATURE_ROWS.value, device=device)
        _pack[(len(grams),)](
            weights.project_q, weights.project_k, weights.norm_q, weights.norm_k, weights.gate_out, packed, grams,
            self.dim, self.hidden, self.padded, block, num_warps=4,
        )  # fmt: skip
        return packed, grams


def tile(settings: dict[str, int], dim: int) -> dict[str, int]:
    """The settings of a launch, with a block no wider than the model needs."""
    return settings | {"block": block_of(settings["block"], dim)}
