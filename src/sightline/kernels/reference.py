"""The twins: every fused operation and its gradient in plain torch, float32 inside (float64 for float64 inputs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.cameras.plucker import split_moment
from sightline.cameras.tokens import LOG_SCALE_OFFSET, RAY

RAY_EPS = 1e-6  # of the norm over E f


class ScopeWeights(NamedTuple):
    """A SCoPE layer's parameters, in the order in which `qk` takes them."""

    project_q: Tensor  # [dim, 7]
    project_k: Tensor  # [dim, 7]
    norm_q: Tensor  # [dim]
    norm_k: Tensor  # [dim]
    gate_in: Tensor  # [hidden, 1]
    gate_in_bias: Tensor  # [hidden]
    gate_out: Tensor  # [dim, hidden]
    gate_out_bias: Tensor  # [dim]
    alpha_q: Tensor  # [1]
    alpha_k: Tensor  # [1]


# -- query and key ----------------------------------------------------------------------------------------------------


def qk(
    query: Tensor,  # [B, N, dim] as projected, any row stride
    key: Tensor,  # [B, N, dim]
    norm_query: Tensor,  # [dim] QKNorm's weights
    norm_key: Tensor,  # [dim]
    cos: Tensor,  # [1, N, 1, D] RoPE tables, D channels a head
    sin: Tensor,  # [1, N, 1, D]
    camera_rows: Tensor | None,  # [B or 1, N, 90] packed rows, no gradient; None without a camera
    scope: Sequence[Tensor],  # ScopeWeights, or empty without a camera
    eps: float,  # of QKNorm
    min_moment: float,  # the smallest |m|
    flip: bool,  # swap the halves of the ray on the key side
) -> tuple[Tensor, Tensor]:  # [B, N, dim] x2
    """QKNorm over the full width, RoPE, and SCoPE's addition. Rounded once, at the end."""
    exact = _exact(query)
    results = []
    rays = _rays(camera_rows, scope, min_moment, flip, exact) if camera_rows is not None else None
    for side, (x, weight) in enumerate(((query, norm_query), (key, norm_key))):
        normed = F.rms_norm(x.to(exact), x.shape[-1:], weight.to(exact), eps)
        result = _rotate(normed, cos, sin)
        if rays is not None:
            alpha, unit, norm = scope[8 + side].to(exact), rays.unit[side], scope[2 + side].to(exact)
            result = result + alpha * rays.gate * norm * unit
        results.append(result.to(x.dtype))
    return results[0], results[1]


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
    scope: Sequence[Tensor],
    eps: float,
    min_moment: float,
    flip: bool,
) -> list[Tensor]:
    """The gradients of query, key, norm_query, norm_key and, with a camera, of every weight of SCoPE in its order."""
    exact, dim = _exact(query), query.shape[-1]
    grads, inputs, norms = [], [], []
    for out, x, weight in ((grad_query, query, norm_query), (grad_key, key, norm_key)):
        grads.append(out.to(exact))
        back = _rotate(grads[-1], cos, -sin)  # a rotation's transpose turns the other way
        scale = (x.to(exact).square().mean(-1, keepdim=True) + eps).rsqrt()
        unit = x.to(exact) * scale
        norms.append((back * unit).flatten(0, 1).sum(0))
        inputs.append(_norm_backward(back * weight.to(exact), unit, scale).to(x.dtype))
    if camera_rows is None:
        return [*inputs, *norms]

    weights, rays = ScopeWeights(*(one.to(exact) for one in scope)), _rays(camera_rows, scope, min_moment, flip, exact)
    alphas, ray_norms, projections, grad_alphas = [weights.alpha_q, weights.alpha_k], [], [], []
    grad_gate = torch.zeros_like(grads[0])
    for side, norm in enumerate((weights.norm_q, weights.norm_k)):
        through = grads[side] * rays.unit[side]  # [B, N, dim]
        grad_alphas.append((through * rays.gate * norm).sum().reshape(1))
        ray_norms.append((through * rays.gate * alphas[side]).flatten(0, 1).sum(0))
        grad_gate = grad_gate + through * norm * alphas[side]
        unit, scale = rays.unit[side].expand_as(through), rays.scale[side]
        projected = _norm_backward(grads[side] * alphas[side] * rays.gate * norm, unit, scale)
        projections.append(torch.einsum("bnd,bnf->df", projected, rays.feature[side].expand(len(query), -1, -1)))
    logits = grad_gate * rays.gate * (1 - rays.gate)
    hidden = (logits @ weights.gate_out) * _gelu_slope(rays.before)  # [B, N, hidden]
    gate_in = [(hidden * rays.heard).flatten(0, 1).sum(0)[:, None], hidden.flatten(0, 1).sum(0)]
    gate_out = torch.einsum("bnd,bnh->dh", logits, F.gelu(rays.before).expand(len(query), -1, -1))
    assert projections[0].shape == (dim, 7)
    return [
        *inputs, *norms, *projections, *ray_norms, *gate_in, gate_out, logits.flatten(0, 1).sum(0), *grad_alphas
    ]  # fmt: skip


class _Rays(NamedTuple):
    feature: tuple[Tensor, Tensor]  # [B or 1, N, 7] f_q and f_k
    scale: tuple[Tensor, Tensor]  # [B or 1, N, 1] 1 / RMS(E f), 0 for a token without a camera
    unit: tuple[Tensor, Tensor]  # [B or 1, N, dim] E f, normalised
    heard: Tensor  # [B or 1, N, 1] s + delta, what the gate hears
    before: Tensor  # [B or 1, N, hidden] before the gate's GELU
    gate: Tensor  # [B or 1, N, dim]


def _rays(camera_rows: Tensor, scope: Sequence[Tensor], min_moment: float, flip: bool, exact: torch.dtype) -> _Rays:
    camera_rows, weights = camera_rows.to(exact), ScopeWeights(*(one.to(exact) for one in scope))
    direction, moment = camera_rows[..., RAY].split(3, dim=-1)
    present = (direction != 0).any(-1, keepdim=True)
    moment, magnitude = split_moment(moment, min_moment)
    feature_q = torch.cat([direction, moment, magnitude], dim=-1)
    feature_k = torch.cat([moment, direction, magnitude], dim=-1) if flip else feature_q
    scales, units = [], []
    for feature, project in ((feature_q, weights.project_q), (feature_k, weights.project_k)):
        # mean((E f)^2) = f^T (E^T E) f / dim: no pass over the width.
        square = ((feature @ (project.T @ project)) * feature).sum(-1, keepdim=True) / len(project)
        scales.append((square + RAY_EPS).rsqrt() * present)
        units.append((feature @ project.T) * scales[-1])
    heard = magnitude + camera_rows[..., LOG_SCALE_OFFSET]
    before = F.linear(heard, weights.gate_in, weights.gate_in_bias)
    gate = F.linear(F.gelu(before), weights.gate_out, weights.gate_out_bias).sigmoid()
    return _Rays((feature_q, feature_k), (scales[0], scales[1]), (units[0], units[1]), heard, before, gate)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # [B, N, dim], [1, N, 1, D] x2 -> [B, N, dim]
    even, odd = x.unflatten(-1, (-1, cos.shape[-1] // 2, 2)).unbind(-1)  # [B, N, H, D / 2] x2
    cos, sin = cos[..., 0::2].to(x.dtype), sin[..., 1::2].to(x.dtype)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(2)


def _norm_backward(grad: Tensor, unit: Tensor, scale: Tensor) -> Tensor:
    """Of x -> unit = x scale, scale = 1 / RMS(x): what reaches x. For E f the same formula holds."""
    return scale * (grad - unit * (grad * unit).mean(-1, keepdim=True))


def _gelu_slope(x: Tensor) -> Tensor:
    normal = torch.exp(-0.5 * x * x) * 0.3989422804014327  # 1 / sqrt(2 pi)
    return 0.5 * (1 + torch.erf(x * 0.7071067811865476)) + x * normal


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
    grad_x = _norm_backward(through - through.mean(-1, keepdim=True), unit, deviation)
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
