"""Sweep's equation in plain torch, and its gradient: SCoPE's with features and a projection that query and key share.

`sweep_encoding` takes the features from behind the camera rows, where `encodings/sweep.py` puts them once per call of the model.
That module calls it in the eager path, and `reference.qk` calls it as the reference of the fused kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from sightline.cameras.plucker import split_moment
from sightline.cameras.tokens import LOG_SCALE_OFFSET, RAY, ROW_WIDTH, has_camera
from sightline.kernels.scope_reference import (
    GateWeights,
    ScopeWeights,
    Side,
    SideWeights,
    gated_projection_backward,
    normalized_projection,
    scale_gate,
)


class SweepWeights(NamedTuple):
    """The weights of a Sweep layer with one projection, which the fused operation takes as a flat list."""

    project: Tensor  # [dim, features], E of query and key
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
            "q": SideWeights(self.project, self.norm_q, self.alpha_q),
            "k": SideWeights(self.project, self.norm_k, self.alpha_k),
        }


def named_weights(tensors: Sequence[Tensor]) -> ScopeWeights | SweepWeights:
    """The flat list of a custom op with its names again. Sweep has one tensor less, the second projection."""
    return SweepWeights(*tensors) if len(tensors) == len(SweepWeights._fields) else ScopeWeights(*tensors)


def sweep_encoding(
    camera_rows: Tensor,  # [B, N, 90 + features]
    sides: Mapping[Side, SideWeights],
    gate: GateWeights,
    min_moment: float,
) -> tuple[Tensor, ...]:  # [B, N, dim] for each side
    """What Sweep adds to each side: alpha g RMSNorm(E f). A token without a camera gets zeros."""
    features, log_magnitude = camera_rows[..., ROW_WIDTH:], log_moment(camera_rows, min_moment)
    strength = scale_gate(log_magnitude + camera_rows[..., LOG_SCALE_OFFSET], gate) * has_camera(camera_rows)
    return tuple(weights.alpha * (strength * normalized_projection(features, weights)) for weights in sides.values())


def sweep_encoding_backward(
    grads: Mapping[Side, Tensor],  # [B, N, dim], the gradient of what was added to query and key
    camera_rows: Tensor,  # [B or 1, N, 90 + features]
    weights: SweepWeights,
    min_moment: float,
) -> SweepWeights:
    """The gradient of every weight of `sweep_encoding` with one projection. The camera has none: it is data."""
    features = camera_rows[..., ROW_WIDTH:]
    both: dict[Side, Tensor] = {"q": features, "k": features}
    log_magnitude = log_moment(camera_rows, min_moment)
    sides, gate = gated_projection_backward(grads, both, log_magnitude, camera_rows, weights.sides, weights.gate)
    query, key = sides["q"], sides["k"]
    assert query.norm is not None and key.norm is not None
    return SweepWeights(query.project + key.project, query.norm, key.norm, *gate, query.alpha, key.alpha)


def log_moment(camera_rows: Tensor, min_moment: float) -> Tensor:  # [..., 90 or more] -> [..., 1]
    """s = log max(|m|, min_moment)."""
    return split_moment(camera_rows[..., RAY][..., 3:], min_moment)[1]
