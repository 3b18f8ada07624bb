"""SCoPE's equation in plain torch, and its gradient. This is the only place where the equation is written in torch.

`scope_encoding` is the paper's equation: lines 8 to 11 of Algorithm 1, Eqs. (decompose), (scale-gate) and (pe-rmsnorm).
The encoding's module (`encodings/scope.py`) calls it in the eager path, and `reference.qk` calls it as the reference of the
fused kernel. The module's ablations are weights that are None, so they need no second version of the equation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.cameras.plucker import split_moment
from sightline.cameras.tokens import LOG_SCALE_OFFSET, RAY, has_camera

NORM_EPS = 1e-6  # of the RMSNorm over E f

Side = Literal["q", "k", "v"]


class GateWeights(NamedTuple):
    """The scale gate's two layers, 1 -> hidden -> dim."""

    gate_in: Tensor  # [hidden, 1]
    gate_in_bias: Tensor  # [hidden]
    gate_out: Tensor  # [dim, hidden]
    gate_out_bias: Tensor  # [dim]


class SideWeights(NamedTuple):
    """The weights of one side: the query, the key or, in an ablation, the value."""

    project: Tensor  # [dim, 7], E; [dim, 6] for raw rays; [dim, hidden] after an MLP's first layer
    norm: Tensor | None  # [dim], weights of the RMSNorm; None leaves the norm out
    alpha: Tensor  # [1]
    mlp_in: Tensor | None = None  # [hidden, 7], first layer of E where E is an MLP
    mlp_in_bias: Tensor | None = None  # [hidden]


class ScopeWeights(NamedTuple):
    """The weights of a SCoPE layer in the paper's form, which the fused operation takes.

    A torch custom op takes a flat list of tensors: `list(weights)` flattens, `ScopeWeights(*tensors)` restores the names.
    """

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

    @property
    def gate(self) -> GateWeights:
        return GateWeights(self.gate_in, self.gate_in_bias, self.gate_out, self.gate_out_bias)

    @property
    def sides(self) -> dict[Side, SideWeights]:
        return {
            "q": SideWeights(self.project_q, self.norm_q, self.alpha_q),
            "k": SideWeights(self.project_k, self.norm_k, self.alpha_k),
        }


def scope_encoding(
    camera_rows: Tensor,  # [B, N, 90]
    sides: Mapping[Side, SideWeights],
    gate: GateWeights | None,  # None, the ablation "w/o NGI": raw rays (d, m), no gate
    min_moment: float,
    flip: bool,
) -> tuple[Tensor, ...]:  # [B, N, dim] for each side
    """What SCoPE adds to each side: alpha g RMSNorm(E f). Computed in the dtype of the camera rows.

    A token without a camera (a row of zeros) gets zeros.
    """
    strength: Tensor = has_camera(camera_rows)  # [B, N, 1]
    if gate is not None:
        feature_q, feature_k, log_magnitude = ray_features(camera_rows, flip, min_moment)
        strength = scale_gate(log_magnitude + camera_rows[..., LOG_SCALE_OFFSET], gate) * strength  # [B, N, dim]
    else:
        feature_q, feature_k = raw_ray_features(camera_rows, flip)
    encodings = []
    for side, weights in sides.items():
        feature = feature_k if side == "k" else feature_q
        encodings.append(weights.alpha * (strength * normalized_projection(feature, weights)))
    return tuple(encodings)


def ray_features(
    camera_rows: Tensor, flip: bool, min_moment: float
) -> tuple[Tensor, Tensor, Tensor]:  # [..., 90] -> [..., 7], [..., 7], [..., 1]
    """f_q = (d, m^, s), f_k = (m^, d, s) and s, with m^ = m / max(|m|, min_moment) and s = log max(|m|, min_moment).

    Without `flip`, f_k is f_q.
    """
    direction, moment = camera_rows[..., RAY].split(3, dim=-1)
    unit_moment, log_magnitude = split_moment(moment, min_moment)
    feature_q = torch.cat([direction, unit_moment, log_magnitude], dim=-1)
    feature_k = torch.cat([unit_moment, direction, log_magnitude], dim=-1) if flip else feature_q
    return feature_q, feature_k, log_magnitude


def raw_ray_features(camera_rows: Tensor, flip: bool) -> tuple[Tensor, Tensor]:  # [..., 90] -> [..., 6] x2
    """The rays (d, m) as they are and, for the key, (m, d): Eqs. (flip-q) and (flip-k)."""
    ray = camera_rows[..., RAY]
    return ray, ray.roll(3, dims=-1) if flip else ray


def scale_gate(log_magnitude: Tensor, weights: GateWeights) -> Tensor:  # [..., 1] -> [..., dim]
    """g = sigmoid(G(s)), in (0, 1): how much of the encoding each channel lets through."""
    gate_in, gate_in_bias, gate_out, gate_out_bias = (weight.to(log_magnitude.dtype) for weight in weights)
    hidden = F.gelu(F.linear(log_magnitude, gate_in, gate_in_bias))
    return F.linear(hidden, gate_out, gate_out_bias).sigmoid()


def normalized_projection(feature: Tensor, weights: SideWeights) -> Tensor:  # [..., 7] -> [..., dim]
    """RMSNorm(E f). The norm runs over the full width, all heads together, like Wan's QKNorm."""
    dtype = feature.dtype
    if weights.mlp_in is not None and weights.mlp_in_bias is not None:
        feature = F.gelu(F.linear(feature, weights.mlp_in.to(dtype), weights.mlp_in_bias.to(dtype)))
    projected = F.linear(feature, weights.project.to(dtype))
    if weights.norm is None:
        return projected
    return F.rms_norm(projected, projected.shape[-1:], weights.norm.to(dtype), eps=NORM_EPS)


# -- gradient ---------------------------------------------------------------------------------------------------------


def scope_encoding_backward(
    grads: Mapping[Side, Tensor],  # [B, N, dim], the gradient of what was added to query and key
    camera_rows: Tensor,  # [B or 1, N, 90]
    weights: ScopeWeights,
    min_moment: float,
    flip: bool,
) -> ScopeWeights:
    """The gradient of every weight of `scope_encoding` in the paper's form. The camera has none: it is data."""
    feature_q, feature_k, log_magnitude = ray_features(camera_rows, flip, min_moment)
    features: dict[Side, Tensor] = {"q": feature_q, "k": feature_k}
    sides, gate = gated_projection_backward(grads, features, log_magnitude, camera_rows, weights.sides, weights.gate)
    query, key = sides["q"], sides["k"]
    assert query.norm is not None and key.norm is not None
    return ScopeWeights(query.project, key.project, query.norm, key.norm, *gate, query.alpha, key.alpha)


def gated_projection_backward(
    grads: Mapping[Side, Tensor],  # [B, N, dim]
    features: Mapping[Side, Tensor],  # [B or 1, N, features]
    log_magnitude: Tensor,  # [B or 1, N, 1]
    camera_rows: Tensor,  # [B or 1, N, 90 or more]
    sides: Mapping[Side, SideWeights],
    gate_weights: GateWeights,
) -> tuple[dict[Side, SideWeights], GateWeights]:
    """The gradients of the weights in alpha g RMSNorm(E f), with one gate g for all sides."""
    gate_input = log_magnitude + camera_rows[..., LOG_SCALE_OFFSET]  # [B, N, 1]
    before_gelu = F.linear(gate_input, gate_weights.gate_in, gate_weights.gate_in_bias)  # [B, N, hidden]
    gate = scale_gate(gate_input, gate_weights)  # [B, N, dim]
    grad_gate = torch.zeros_like(grads["q"])
    grad_sides: dict[Side, SideWeights] = {}
    for side, feature in features.items():
        own, grad = sides[side], grads[side]
        assert own.norm is not None
        projected = F.linear(feature, own.project)
        scale = (projected.square().mean(-1, keepdim=True) + NORM_EPS).rsqrt() * has_camera(camera_rows)
        unit = projected * scale  # [B, N, dim]
        through = grad * unit
        grad_gate = grad_gate + through * own.norm * own.alpha
        grad_projected = rms_norm_backward(grad * own.alpha * gate * own.norm, unit.expand_as(grad), scale)
        grad_sides[side] = SideWeights(
            project=torch.einsum("bnd,bnf->df", grad_projected, _for_each_clip(feature, grad)),
            norm=_sum_over_tokens(through * gate * own.alpha),
            alpha=(through * gate * own.norm).sum().reshape(1),
        )
    grad_logits = grad_gate * gate * (1 - gate)
    grad_hidden = (grad_logits @ gate_weights.gate_out) * _gelu_slope(before_gelu)  # [B, N, hidden]
    return grad_sides, GateWeights(
        gate_in=_sum_over_tokens(grad_hidden * gate_input)[:, None],
        gate_in_bias=_sum_over_tokens(grad_hidden),
        gate_out=torch.einsum("bnd,bnh->dh", grad_logits, _for_each_clip(F.gelu(before_gelu), grad_logits)),
        gate_out_bias=_sum_over_tokens(grad_logits),
    )


def rms_norm_backward(grad: Tensor, unit: Tensor, scale: Tensor) -> Tensor:
    """The gradient of x, from that of unit = x scale with scale = 1 / RMS(x)."""
    return scale * (grad - unit * (grad * unit).mean(-1, keepdim=True))


def _sum_over_tokens(x: Tensor) -> Tensor:  # [B, N, channels] -> [channels]
    return x.flatten(0, 1).sum(0)


def _for_each_clip(x: Tensor, batch: Tensor) -> Tensor:  # [B or 1, N, channels] -> [B, N, channels]
    return x.expand(len(batch), -1, -1)


def _gelu_slope(x: Tensor) -> Tensor:
    normal = torch.exp(-0.5 * x * x) * 0.3989422804014327  # 1 / sqrt(2 pi)
    return 0.5 * (1 + torch.erf(x * 0.7071067811865476)) + x * normal
