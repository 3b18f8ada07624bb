"""Every fused operation and its gradient in plain torch, computed in float32 (in float64 for float64 inputs).

These functions say what each operation computes. They run where the kernels cannot, and the tests compare the kernels with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.kernels.scope_reference import Side, rms_norm_backward, scope_encoding, scope_encoding_backward
from sightline.kernels.sweep_reference import SweepWeights, named_weights, sweep_encoding, sweep_encoding_backward

# -- query and key ----------------------------------------------------------------------------------------------------


def qk(
    query: Tensor,  # [B, N, dim] as projected, any row stride
    key: Tensor,  # [B, N, dim]
    norm_query: Tensor,  # [dim] QKNorm's weights
    norm_key: Tensor,  # [dim]
    cos: Tensor,  # [1, N, 1, D] RoPE tables, D channels a head
    sin: Tensor,  # [1, N, 1, D]
    camera_rows: Tensor | None,  # [B or 1, N, 90], behind them Sweep's features; no gradient; None without a camera
    camera_weights: Sequence[Tensor],  # ScopeWeights or SweepWeights as a flat list, empty without a camera
    eps: float,  # of QKNorm
    min_moment: float,
    flip: bool,  # of SCoPE: swap the halves of the ray on the key side
) -> tuple[Tensor, Tensor]:  # [B, N, dim] x2
    """QKNorm over the full width, RoPE, and SCoPE's or Sweep's addition. Rounded once, at the end."""
    exact = _exact(query)
    new_query = _rotate(F.rms_norm(query.to(exact), query.shape[-1:], norm_query.to(exact), eps), cos, sin)
    new_key = _rotate(F.rms_norm(key.to(exact), key.shape[-1:], norm_key.to(exact), eps), cos, sin)
    if camera_rows is not None:
        weights, rows = named_weights(camera_weights), camera_rows.to(exact)
        if isinstance(weights, SweepWeights):
            ray_q, ray_k = sweep_encoding(rows, weights.sides, weights.gate, min_moment)
        else:
            ray_q, ray_k = scope_encoding(rows, weights.sides, weights.gate, min_moment, flip)
        new_query, new_key = new_query + ray_q, new_key + ray_k
    return new_query.to(query.dtype), new_key.to(key.dtype)


def qk_backward(
    grad_query: Tensor,  # [B, N, dim]
    grad_key: Tensor,  # [B, N, dim]
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
    """The gradients of query, key, norm_query, norm_key and, with a camera, of its weights, as a flat list."""
    exact = _exact(query)
    grad_query, grad_key = grad_query.to(exact), grad_key.to(exact)
    grad_query_in, grad_norm_query = _qk_norm_and_rope_backward(grad_query, query, norm_query, cos, sin, eps)
    grad_key_in, grad_norm_key = _qk_norm_and_rope_backward(grad_key, key, norm_key, cos, sin, eps)
    gradients = [grad_query_in, grad_key_in, grad_norm_query, grad_norm_key]
    if camera_rows is None:
        return gradients
    weights, rows = named_weights([weight.to(exact) for weight in camera_weights]), camera_rows.to(exact)
    grads: dict[Side, Tensor] = {"q": grad_query, "k": grad_key}
    if isinstance(weights, SweepWeights):
        return [*gradients, *sweep_encoding_backward(grads, rows, weights, min_moment)]
    return [*gradients, *scope_encoding_backward(grads, rows, weights, min_moment, flip)]


def _qk_norm_and_rope_backward(
    grad: Tensor,  # [B, N, dim]
    x: Tensor,  # [B, N, dim]
    norm: Tensor,  # [dim]
    cos: Tensor,
    sin: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:  # [B, N, dim], [dim]
    """The gradients of one of query and key, and of its norm's weights."""
    exact = grad.dtype
    grad_normed = _rotate(grad, cos, -sin)  # a rotation's transpose turns the other way
    scale = (x.to(exact).square().mean(-1, keepdim=True) + eps).rsqrt()
    unit = x.to(exact) * scale
    grad_x = rms_norm_backward(grad_normed * norm.to(exact), unit, scale).to(x.dtype)
    return grad_x, (grad_normed * unit).flatten(0, 1).sum(0)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # [B, N, dim], [1, N, 1, D] x2 -> [B, N, dim]
    even, odd = x.unflatten(-1, (-1, cos.shape[-1] // 2, 2)).unbind(-1)  # [B, N, H, D / 2] x2
    cos, sin = cos[..., 0::2].to(x.dtype), sin[..., 1::2].to(x.dtype)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(2)


# -- modulation ---------------------------------------------------------------------------------------------------------


def modulate(
    x: Tensor,  # [B, N, dim]
    shift: Tensor,  # [K, dim], one row for each distinct timestep
    scale: Tensor,  # [K, dim]
    index: Tensor,  # [B, N] int32, each token's row
    eps: float,
) -> Tensor:  # [B, N, dim]
    """LayerNorm without weights, then (1 + scale) and shift of the token's timestep."""
    exact = _exact(x)
    normed = F.layer_norm(x.to(exact), x.shape[-1:], eps=eps)
    return (normed * (1 + scale.to(exact)[index]) + shift.to(exact)[index]).to(x.dtype)


def modulate_backward(
    grad: Tensor, x: Tensor, shift: Tensor, scale: Tensor, index: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, shift and scale."""
    exact = _exact(x)
    centred = x.to(exact) - x.to(exact).mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    unit, grad = centred * deviation, grad.to(exact)
    through = grad * (1 + scale.to(exact)[index])
    grad_x = rms_norm_backward(through - through.mean(-1, keepdim=True), unit, deviation)
    return grad_x.to(x.dtype), _by_row(grad, index, len(shift)), _by_row(grad * unit, index, len(scale))


def add_gated(x: Tensor, y: Tensor, gate: Tensor, index: Tensor) -> Tensor:  # [B, N, dim] x2, [K, dim], [B, N]
    """x + y times the gate of the token's timestep, in x's dtype."""
    exact = _exact(x)
    return (x.to(exact) + y.to(exact) * gate.to(exact)[index]).to(x.dtype)


def add_gated_backward(grad: Tensor, y: Tensor, gate: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of y and gate; that of x is grad itself."""
    exact = _exact(grad)
    grad_y = grad.to(exact) * gate.to(exact)[index]
    return grad_y.to(y.dtype), _by_row(grad.to(exact) * y.to(exact), index, len(gate))


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # [B, N, in], [out, in], [out] -> [B, N, out]
    """A linear layer and tanh-GELU. No gradient: that would need the sum before the GELU, which is never stored."""
    return F.gelu(F.linear(x, weight, bias), approximate="tanh")


def _by_row(values: Tensor, index: Tensor, rows: int) -> Tensor:  # [B, N, dim], [B, N] -> [rows, dim]
    return values.new_zeros(rows, values.shape[-1]).index_add_(0, index.flatten().long(), values.flatten(0, 1))


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


# -- FP8 ------------------------------------------------------------------------------------------------------------------

FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0  # its largest number
FP8_SMALLEST = 1e-12  # a row with no larger magnitude is nothing but zeros


def quantize_rows(
    x: Tensor,  # [..., K]
    gelu: bool,  # apply the tanh form of GELU first
) -> tuple[Tensor, Tensor]:  # [rows, K] in FP8, [rows, 1] in float32
    """Each row divided by its scale, which makes its largest magnitude FP8's largest number. No gradient."""
    rows = x.flatten(0, -2).float()
    if gelu:
        rows = F.gelu(rows, approximate="tanh")
    scales = rows.abs().amax(-1, keepdim=True).clamp_min(FP8_SMALLEST) / FP8_MAX
    return (rows / scales).clamp(-FP8_MAX, FP8_MAX).to(FP8), scales


def fp8_product(
    rows: Tensor,  # [M, K] in FP8
    row_scales: Tensor,  # [M, 1]
    weight: Tensor,  # [N, K] in FP8
    weight_scales: Tensor,  # [1, N]
    bias: Tensor | None,  # [N] bfloat16
) -> Tensor:  # [M, N] bfloat16
    """The product of two scaled matrices, summed in float32 and rounded once."""
    product = (rows.float() @ weight.float().t()) * row_scales * weight_scales
    return (product if bias is None else product + bias.float()).bfloat16()
