"""The operations as torch custom ops, which a compiler treats as opaque and for which it has shapes and gradients.

Each runs its Triton kernel on CUDA (or on a CPU in Triton's interpreter) and its plain-torch reference elsewhere, so that a graph
captured with them runs anywhere. Names and signatures are those of `reference`. The camera rows have no gradient: they are data.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from sightline.kernels import reference, usable


def _kernels(x: Tensor, module: str) -> Any:
    """The module with the kernels that can take this tensor, or `reference`."""
    if usable(x):
        return importlib.import_module(f"sightline.kernels.{module}")
    return reference


def _without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Turn autocast off where it is on. Where it is off, nothing is entered, which saves CPU time in small models."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


@torch.library.custom_op("sightline::qk", mutates_args=())
def qk(
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
) -> tuple[Tensor, Tensor]:
    kernels = _kernels(query, "qk_triton")
    with _without_autocast(query):  # autocast would round the reference's products to bfloat16
        return kernels.qk(
            query, key, norm_query, norm_key, cos, sin, camera_rows, camera_weights, eps, min_moment, flip
        )


@torch.library.custom_op("sightline::qk_backward", mutates_args=())
def qk_backward(
    grad_query: Tensor,
    grad_key: Tensor,
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
) -> list[Tensor]:
    kernels = _kernels(query, "qk_backward_triton")
    rest = (query, key, norm_query, norm_key, cos, sin, camera_rows, camera_weights, eps, min_moment, flip)
    with _without_autocast(query):  # and the products at the end of the kernels' gradient
        return kernels.qk_backward(grad_query, grad_key, *rest)


@torch.library.custom_op("sightline::modulate", mutates_args=())
def modulate(x: Tensor, shift: Tensor, scale: Tensor, index: Tensor, eps: float) -> Tensor:
    return _kernels(x, "modulation_triton").modulate(x, shift, scale, index, eps)


@torch.library.custom_op("sightline::modulate_backward", mutates_args=())
def modulate_backward(
    grad: Tensor, x: Tensor, shift: Tensor, scale: Tensor, index: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return _kernels(x, "modulation_triton").modulate_backward(grad, x, shift, scale, index, eps)


@torch.library.custom_op("sightline::add_gated", mutates_args=())
def add_gated(x: Tensor, y: Tensor, gate: Tensor, index: Tensor) -> Tensor:
    return _kernels(x, "modulation_triton").add_gated(x, y, gate, index)


@torch.library.custom_op("sightline::add_gated_backward", mutates_args=())
def add_gated_backward(grad: Tensor, y: Tensor, gate: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    return _kernels(grad, "modulation_triton").add_gated_backward(grad, y, gate, index)


@torch.library.custom_op("sightline::linear_gelu", mutates_args=())
def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if not x.is_cuda:
        return reference.linear_gelu(x, weight, bias)
    # The GELU of the matrix product's epilogue, which on CUDA is the tanh form.
    return torch._addmm_activation(bias, x.flatten(0, -2), weight.t(), use_gelu=True).unflatten(0, x.shape[:-1])


@torch.library.custom_op("sightline::quantize_rows", mutates_args=())
def quantize_rows(x: Tensor, gelu: bool) -> tuple[Tensor, Tensor]:
    return _kernels(x, "quantize_triton").quantize_rows(x, gelu)


def fp8_product(rows: Tensor, row_scales: Tensor, weight: Tensor, weight_scales: Tensor, bias: Tensor | None) -> Tensor:
    """Not an operation of its own: a compiler knows torch's."""
    if not rows.is_cuda:
        return reference.fp8_product(rows, row_scales, weight, weight_scales, bias)
    return torch._scaled_mm(
        rows,
        weight.t(),
        scale_a=row_scales,
        scale_b=weight_scales,
        bias=bias,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )


# -- shapes for compilers. Results are contiguous whatever the strides of the arguments ----------------------------------


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _sums_like(x: Tensor) -> Tensor:
    """The gradient of a weight, which the kernels return in float32 or better."""
    return x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, torch.float32))


@qk.register_fake
def _(query: Tensor, key: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _like(query), _like(key)


@qk_backward.register_fake
def _(
    grad_query: Tensor, grad_key: Tensor, query: Tensor, key: Tensor, norm_query: Tensor, norm_key: Tensor,
    cos: Tensor, sin: Tensor, camera_rows: Tensor | None, camera_weights: Sequence[Tensor], *_: Any
) -> list[Tensor]:  # fmt: skip
    return [_like(query), _like(key), *(_sums_like(weight) for weight in (norm_query, norm_key, *camera_weights))]


@modulate.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return _like(x)


@modulate_backward.register_fake
def _(grad: Tensor, x: Tensor, shift: Tensor, scale: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _like(x), _sums_like(shift), _sums_like(scale)


@add_gated.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return _like(x)


@add_gated_backward.register_fake
def _(grad: Tensor, y: Tensor, gate: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    return _like(y), _sums_like(gate)


@linear_gelu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-1], len(weight))


@quantize_rows.register_fake
def _(x: Tensor, gelu: bool) -> tuple[Tensor, Tensor]:
    rows = x.flatten(0, -2)
    return rows.new_empty(rows.shape, dtype=reference.FP8), rows.new_empty(len(rows), 1, dtype=torch.float32)


# -- gradients --------------------------------------------------------------------------------------------------------


def _save_qk(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, camera_weights, eps, min_moment, flip = inputs
    ctx.save_for_backward(*tensors, *camera_weights)
    ctx.settings = (eps, min_moment, flip)


def _qk_gradients(ctx: Any, grad_query: Tensor, grad_key: Tensor) -> tuple[Any, ...]:
    # Read once: gradient checkpointing recomputes the saved tensors and hands them out a single time.
    query, key, norm_query, norm_key, cos, sin, camera_rows, *camera_weights = ctx.saved_tensors
    inputs = (query, key, norm_query, norm_key, cos, sin, camera_rows, camera_weights, *ctx.settings)
    grad_query_in, grad_key_in, *grads = qk_backward(grad_query, grad_key, *inputs)
    weights = (norm_query, norm_key, *camera_weights)
    grad_norm_query, grad_norm_key, *grad_camera_weights = (
        grad.to(weight.dtype) for grad, weight in zip(grads, weights, strict=True)
    )
    no_angles, no_camera, no_settings = (None, None), (None,), (None, None, None)
    return (
        grad_query_in, grad_key_in, grad_norm_query, grad_norm_key, *no_angles, *no_camera, grad_camera_weights, *no_settings
    )  # fmt: skip


def _save_modulate(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.eps = inputs
    ctx.save_for_backward(*tensors)


def _modulate_gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, shift, scale, index = ctx.saved_tensors
    grad_x, grad_shift, grad_scale = modulate_backward(grad, x, shift, scale, index, ctx.eps)
    return grad_x, grad_shift.to(shift.dtype), grad_scale.to(scale.dtype), None, None


def _save_add_gated(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[1:])


def _add_gated_gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    y, gate, index = ctx.saved_tensors
    grad_y, grad_gate = add_gated_backward(grad, y, gate, index)
    return grad, grad_y, grad_gate.to(gate.dtype), None


qk.register_autograd(_qk_gradients, setup_context=_save_qk)
modulate.register_autograd(_modulate_gradients, setup_context=_save_modulate)
add_gated.register_autograd(_add_gated_gradients, setup_context=_save_add_gated)
