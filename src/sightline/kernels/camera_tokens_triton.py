"""What a camera encoding needs before the width is gone over: its weights packed for matrix products, and a table of its tokens.

The table holds each token's features and the hidden layer of its gate, in the type of the products' operands. The RMS of E f
comes from the Gram matrix of E, so it is known before E f is. For 16-bit queries the operands are float16, which has the 10 bits
of tf32 (but not its range: E may reach 1e4, and 1e5 overflows), their sums are float32, and what is added to query and key is
rounded to float16.

SCoPE has 7 features for the query and 7 for the key, each with a projection of its own: `_pack` puts both side by side into 16
columns. Sweep has one projection (`tied`), and its features are read from behind the camera rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.cameras.tokens import LOG_SCALE_OFFSET, ROW_WIDTH
from sightline.errors import SightlineError
from sightline.kernels.scope_reference import NORM_EPS, ScopeWeights
from sightline.kernels.sweep_reference import SweepWeights
from sightline.kernels.tiles_triton import _places, dense, tile

DELTA: tl.constexpr = tl.constexpr(LOG_SCALE_OFFSET.start)
FIRST_FEATURE: tl.constexpr = tl.constexpr(ROW_WIDTH)  # of Sweep
EPS: tl.constexpr = tl.constexpr(NORM_EPS)
PACK = {"block": 128, "num_warps": 4}
TOKENS = {"tokens": 32, "num_warps": 4}  # of kernels with one program per tile of tokens


@triton.jit
def _normal_cdf(x):
    return 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def _ray(camera_rows, at, known, turn, min_moment, first):  # -> [T, 16], s [T]
    """(d, m^, s) of each token in columns `first` to `first` + 6 and zeros elsewhere, or (m^, d, s) if turn is 3; and s."""
    column = tl.arange(0, 16)[None, :] - first
    inside = (column >= 0) & (column < 6)
    source = tl.where(inside, (column + turn) % 6, 0)
    ray = tl.load(camera_rows + at[:, None] + source, mask=known[:, None] & inside, other=0.0)
    magnitude = tl.sqrt(tl.sum(tl.where(source >= 3, ray * ray, 0.0), axis=1))
    magnitude = tl.maximum(magnitude, min_moment)
    log = tl.log(magnitude)
    feature = tl.where(source >= 3, ray / magnitude[:, None], ray)
    return tl.where(column == 6, log[:, None], feature), log


@triton.jit
def _gram(grams, parts: tl.constexpr, columns: tl.constexpr):  # -> [columns, columns], the sum of the parts
    part = tl.arange(0, parts)[:, None]
    place = tl.arange(0, columns * columns)[None, :]
    gram = tl.sum(tl.load(grams + part * (columns * columns) + place), axis=0)
    return tl.reshape(gram, (columns, columns))


@triton.jit
def _scale(feature, gram, present, dim, precision: tl.constexpr):  # -> [T], 1 / RMS(E f), 0 where there is no camera
    square = tl.sum(tl.dot(feature, gram, input_precision=precision) * feature, axis=1) / dim
    return tl.where(present, 1.0 / tl.sqrt(square + EPS), 0.0)


@triton.jit
def _before_gelu(gate_input, gate_in, gate_in_bias, hidden: tl.constexpr, padded: tl.constexpr):  # [T] -> [T, padded]
    unit = tl.arange(0, padded)
    weight = tl.load(gate_in + unit, mask=unit < hidden, other=0.0)
    bias = tl.load(gate_in_bias + unit, mask=unit < hidden, other=0.0)
    return gate_input[:, None] * weight[None, :] + bias[None, :]


@triton.jit
def _pack(project_q, project_k, ray_norm_q, ray_norm_k, gate_out, packed, grams, dim: tl.constexpr, tied: tl.constexpr,
          features: tl.constexpr, columns: tl.constexpr, hidden: tl.constexpr, padded: tl.constexpr,
          precision: tl.constexpr, block: tl.constexpr):  # fmt: skip
    """Arrange the weights for a block of channels, and compute the block's part of the Gram matrix.

    packed [dim, columns + padded]: E, or E_q and E_k side by side, each times its norm's weight; then the gate's output layer.
    """
    program = tl.program_id(0)
    channel = program * block + tl.arange(0, block)
    inside = (channel < dim)[:, None]
    column = tl.arange(0, columns)[None, :]
    if tied:
        project = tl.load(
            project_q + channel[:, None] * features + column, mask=inside & (column < features), other=0.0
        )
        scaled = project
    else:
        is_key, feature = column >= columns // 2, column % (columns // 2)
        at, real = channel[:, None] * features + feature, inside & (feature < features)
        project = tl.load(project_q + at, mask=real & (column < columns // 2), other=0.0)
        project += tl.load(project_k + at, mask=real & is_key, other=0.0)  # [BLOCK, columns]
        norm_q = tl.load(ray_norm_q + channel[:, None], mask=inside, other=0.0)
        norm_k = tl.load(ray_norm_k + channel[:, None], mask=inside, other=0.0)
        scaled = project * tl.where(is_key, norm_k, norm_q)
    to = packed + channel[:, None] * (columns + padded)
    tl.store(to + column, scaled.to(packed.dtype.element_ty), mask=inside)
    unit = tl.arange(0, padded)[None, :]
    last = tl.load(gate_out + channel[:, None] * hidden + unit, mask=inside & (unit < hidden), other=0.0)
    tl.store(to + columns + unit, last.to(packed.dtype.element_ty), mask=inside)
    gram = tl.dot(tl.trans(project), project, input_precision=precision)
    row = tl.arange(0, columns)[:, None]
    tl.store(grams + program * (columns * columns) + row * columns + column, gram)


@triton.jit
def _table(
    table, about, camera_rows, grams, gate_in, gate_in_bias, rows, length, camera_batch, camera_row, min_moment,
    dim: tl.constexpr, flip: tl.constexpr, tied: tl.constexpr, features: tl.constexpr, columns: tl.constexpr,
    hidden: tl.constexpr, padded: tl.constexpr, parts: tl.constexpr, precision: tl.constexpr, tokens: tl.constexpr,
):  # fmt: skip
    """table [N, columns + padded]: features, the gate's hidden layer. about [N, 3]: 1 / RMS(E f) of q and k, s + delta."""
    row, known, clip, position = _places(tl.program_id(0) * tokens, rows, length, tokens)
    at = clip * camera_batch + position * camera_row
    column, unit = tl.arange(0, columns)[None, :], tl.arange(0, padded)[None, :]
    gram = _gram(grams, parts, columns)
    ray, log = _ray(camera_rows, at, known, 0, min_moment, 0)
    present = tl.sum(tl.where(tl.arange(0, 16)[None, :] < 3, tl.abs(ray), 0.0), axis=1) > 0
    if tied:
        from_ = camera_rows + at[:, None] + FIRST_FEATURE + column
        feature = tl.load(from_, mask=known[:, None] & (column < features), other=0.0)
        scale_q = _scale(feature, gram, present, dim, precision)
        scale_k = scale_q
    else:
        ray_k, log = _ray(camera_rows, at, known, 3 if flip else 0, min_moment, 8)
        scale_q, scale_k = _scale(ray, gram, present, dim, precision), _scale(ray_k, gram, present, dim, precision)
        feature = ray + ray_k
    gate_input = log + tl.load(camera_rows + at + DELTA, mask=known, other=0.0)
    before = _before_gelu(gate_input, gate_in, gate_in_bias, hidden, padded)
    to = table + row[:, None] * (columns + padded)
    tl.store(to + column, feature.to(table.dtype.element_ty), mask=known[:, None])
    tl.store(to + columns + unit, (before * _normal_cdf(before)).to(table.dtype.element_ty), mask=known[:, None])
    about += row * 3
    tl.store(about, scale_q, mask=known)
    tl.store(about + 1, scale_k, mask=known)
    tl.store(about + 2, gate_input, mask=known)


class Camera:
    """The camera's weights and tokens of one call, arranged for the kernels.

    packed [dim, columns + padded], table [tokens, columns + padded] and about [tokens, 3] are those of the kernels above.
    """

    def __init__(
        self,
        camera_rows: Tensor,  # [B or 1, N, 90 or more]
        weights: ScopeWeights | SweepWeights,  # float32, contiguous
        places: tuple[int, int],  # the number of tokens in all clips, and in a clip
        min_moment: float,
        flip: bool,
        operand: torch.dtype,  # of matrix products
    ) -> None:
        self.weights, self.operand, self.tied = weights, operand, isinstance(weights, SweepWeights)
        self.projections = [side.project for side in weights.sides.values()]  # of query and key
        self.dim, self.features = self.projections[0].shape
        self.hidden = len(weights.gate_in)
        if self.tied and camera_rows.shape[-1] != ROW_WIDTH + self.features:
            raise SightlineError(
                f"camera_rows has {camera_rows.shape[-1]} columns: expected {ROW_WIDTH} and {self.features} features."
            )
        self.columns = max(16, (1 if self.tied else 2) * triton.next_power_of_2(self.features))
        self.padded = max(16, triton.next_power_of_2(self.hidden))
        # Products of float32 operands: Sweep's are too deep for exact ones, which would not fit into registers.
        self.precision = "tf32x3" if self.tied else "ieee"
        self.packed, grams = self._pack()
        self.table, self.about = self._table(dense(camera_rows.float()), grams, places, min_moment, flip)

    @property
    def width(self) -> int:
        return self.columns + self.padded

    @property
    def shapes(self) -> dict[str, int]:
        """What every kernel takes as constants."""
        return {"tied": self.tied, "columns": self.columns, "padded": self.padded}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What the kernels that go over the width take."""
        weights = self.weights
        norms = (weights.norm_q, weights.norm_k, weights.alpha_q, weights.alpha_k)
        return self.table, self.about, self.packed, weights.gate_out_bias, *norms

    def _pack(self) -> tuple[Tensor, Tensor]:  # [dim, width], [parts, columns, columns]
        weights, device, pack = self.weights, self.projections[0].device, tile(PACK, self.dim)
        packed = torch.empty(self.dim, self.width, dtype=self.operand, device=device)
        # A power of two, because Triton sums over powers of two; the programs beyond the width write zeros.
        parts = triton.next_power_of_2(triton.cdiv(self.dim, pack["block"]))
        grams = torch.empty(parts, self.columns, self.columns, device=device)
        _pack[(parts,)](
            *self.projections, weights.norm_q, weights.norm_k, weights.gate_out, packed, grams, dim=self.dim,
            features=self.features, hidden=self.hidden, precision=self.precision, **self.shapes, **pack,
        )  # fmt: skip
        # Every program of `_table` adds up the parts itself, unless they are large.
        return packed, grams.sum(0, keepdim=True) if self.tied else grams

    def _table(
        self, camera_rows: Tensor, grams: Tensor, places: tuple[int, int], min_moment: float, flip: bool
    ) -> tuple[Tensor, Tensor]:
        table = torch.empty(places[0], self.width, dtype=self.operand, device=camera_rows.device)
        about = torch.empty(places[0], 3, device=camera_rows.device)
        strides = (camera_rows.stride(0) if len(camera_rows) > 1 else 0, camera_rows.stride(1))
        _table[(triton.cdiv(places[0], TOKENS["tokens"]),)](
            table, about, camera_rows, grams, self.weights.gate_in, self.weights.gate_in_bias, *places, *strides, min_moment,
            dim=self.dim, flip=flip, features=self.features, hidden=self.hidden, parts=len(grams),
            precision=self.precision, **self.shapes, **TOKENS,
        )  # fmt: skip
        return table, about
