"""Code that the kernels of `qk` share: loading of weights, RoPE, and the arguments of a call, checked and arranged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sightline.errors import SightlineError
from sightline.kernels.camera_tokens_triton import Camera
from sightline.kernels.sweep_reference import named_weights
from sightline.kernels.tiles_triton import dense


@triton.jit
def _sigmoid(x, fast: tl.constexpr):
    if fast:  # one instruction instead of eight; its error is at most 2^-12, so small gates are less accurate
        tanh = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [0.5 * x], dtype=tl.float32, is_pure=True, pack=1
        )
        return 0.5 * tanh + 0.5
    return tl.sigmoid(x)


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
        camera_weights: Sequence[Tensor],
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
        self.rows, self.eps = batch * length, eps
        self.places = (self.rows, length)
        self.strides = (*self.query.stride()[:2], *self.key.stride()[:2])
        self.norms = [x.float().contiguous() for x in (norm_query, norm_key)]
        self.angles = [x.float().contiguous() for x in (cos, sin)]
        self.exact = query.dtype == torch.float32
        self.fast = not self.exact and query.is_cuda
        self.camera: Camera | None = None
        if camera_rows is not None:
            weights = named_weights([weight.float().contiguous() for weight in camera_weights])
            operand = torch.float32 if self.exact else torch.float16
            self.camera = Camera(camera_rows, weights, self.places, min_moment, flip, operand)

    @property
    def of_camera(self) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
        """The camera's tensors and constants for the forward kernel. Without a camera any tensors: they are never read."""
        if self.camera is None:
            constants = {"with_camera": False, "tied": False, "columns": 16, "padded": 16, "precision": "ieee"}
            return (self.norms[0],) * 8, constants
        constants = {"with_camera": True, "precision": self.camera.precision, **self.camera.shapes}
        return self.camera.tensors, constants
