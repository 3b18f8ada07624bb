"""SCoPE: each token's line of sight, normalised and gated, is added to its query and key after RoPE.

    f_q = (d, m^, s)   f_k = (m^, d, s)              m^ = m / |m|,  s = log |m|
    g   = sigmoid(G(s + delta))                      one gate for query and key
    q  += alpha_q * g * RMSNorm_q(E_q f_q)           k += alpha_k * g * RMSNorm_k(E_k f_k)

The key sees the halves of the ray swapped. For raw rays (d, m) and E_q^T E_k = I the ray-ray part of the score would be
the reciprocal product of the two lines, zero when the lines of sight meet. With the features above it is
d . m^' + m^ . d' + s s', normalised and gated: the same incidence test on unit moments, plus a product of log scales.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.cameras.plucker import MOMENT_FLOOR, split_moment
from sightline.cameras.tokens import LOG_SCALE_OFFSET, RAY
from sightline.checks import number, whole_number
from sightline.encodings.protocol import CameraLayer, Encoding
from sightline.errors import SightlineError

FEATURES = 7  # direction 3, unit moment 3, log magnitude 1

Projection = Literal["linear", "mlp"]
ProjectionInit = Literal["identity", "random", "zero"]


@dataclass(frozen=True)
class Scope(Encoding):
    """Settings of SCoPE. The defaults are the paper's, start bit-identical to the base model, and can learn.

    gate_hidden: width of the scale gate's hidden layer. 16 keeps the new parameters under 0.1 % at 5B and 14B.
    projection: E as one matrix (dim x 7, no bias), or as a two-layer MLP of width projection_hidden.
    projection_init: "identity": in every head E_q and E_k are the same orthonormal columns, so that E_q^T E_k = I;
        "random": the two drawn apart; "zero": E f = 0 at the start (the output layer alone, for an MLP). None chooses
        "identity" for linear and "zero" for an MLP.
    alpha: starting value of alpha_q and alpha_k. None chooses 0 for linear and 1 for an MLP.
    flip: swap the halves of the ray on the key side.
    moment_floor: the smallest |m|; the anchor frame, where m = 0, has s = log(moment_floor).
    """

    name: ClassVar[str] = "scope"
    starting_values: ClassVar[tuple[str, ...]] = ("alpha", "projection_init")

    gate_hidden: int = 16
    projection: Projection = "linear"
    projection_hidden: int = 16
    projection_init: ProjectionInit | None = None
    alpha: float | None = None
    flip: bool = True
    moment_floor: float = MOMENT_FLOOR

    def __post_init__(self) -> None:
        if self.projection not in ("linear", "mlp"):
            raise SightlineError(f"projection is {self.projection!r}: expected 'linear' or 'mlp'.")
        linear = self.projection == "linear"
        if self.projection_init is None:
            object.__setattr__(self, "projection_init", "identity" if linear else "zero")
        default = 0.0 if linear else 1.0
        object.__setattr__(self, "alpha", number("alpha", default if self.alpha is None else self.alpha))
        if not isinstance(self.flip, bool):
            raise SightlineError(f"flip is {self.flip!r}: expected True or False.")
        if self.projection_init not in ("identity", "random", "zero"):
            raise SightlineError(
                f"projection_init is {self.projection_init!r}: expected 'identity', 'random' or 'zero'."
            )
        if self.projection_init == "identity" and not linear:
            raise SightlineError(
                "projection_init is 'identity' with an mlp, which has none: expected 'zero' or 'random'."
            )
        whole_number("gate_hidden", self.gate_hidden)
        whole_number("projection_hidden", self.projection_hidden)
        number("moment_floor", self.moment_floor, above=0.0)
        if self.alpha == 0 and self.projection_init == "zero":
            raise SightlineError(
                "alpha = 0 together with projection_init = 'zero' can never learn (the gradient of each is a multiple "
                "of the other): expected one of the two to start away from zero."
            )

    def layer(self, dim: int, heads: int) -> ScopeLayer:
        return ScopeLayer(self, dim, heads)


class ScopeLayer(CameraLayer):
    """One self-attention layer's SCoPE. Computes in float32 whatever the model's dtype.

    Every weight is a parameter of this very module: sharding and offloading move them together when it is called.
    """

    def __init__(self, settings: Scope, dim: int, heads: int) -> None:
        super().__init__()
        if settings.projection_init == "identity" and dim // heads < FEATURES:
            raise SightlineError(
                f"head_dim is {dim // heads}: expected at least {FEATURES} for the identity start (or projection_init='random')."
            )
        self.settings, self.dim, self.heads = settings, dim, heads
        linear = settings.projection == "linear"
        width = FEATURES if linear else settings.projection_hidden
        self.project_q = nn.Parameter(torch.empty(dim, width))
        self.project_k = nn.Parameter(torch.empty(dim, width))
        if not linear:
            self.project_q_in = nn.Parameter(torch.empty(width, FEATURES))
            self.project_k_in = nn.Parameter(torch.empty(width, FEATURES))
            self.project_q_bias = nn.Parameter(torch.empty(width))
            self.project_k_bias = nn.Parameter(torch.empty(width))
        self.norm_q = nn.Parameter(torch.empty(dim))
        self.norm_k = nn.Parameter(torch.empty(dim))
        self.gate_in = nn.Parameter(torch.empty(settings.gate_hidden, 1))
        self.gate_in_bias = nn.Parameter(torch.empty(settings.gate_hidden))
        self.gate_out = nn.Parameter(torch.empty(dim, settings.gate_hidden))
        self.gate_out_bias = nn.Parameter(torch.empty(dim))
        # Shape (1,), not (): sharded training refuses parameters without a dimension.
        self.alpha_q = nn.Parameter(torch.empty(1))
        self.alpha_k = nn.Parameter(torch.empty(1))
        self.float()  # whatever the default dtype is
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.alpha_q.is_meta:
            return  # nothing to fill; a loader or a retrofit does it later
        settings = self.settings
        for alpha in (self.alpha_q, self.alpha_k):
            alpha.fill_(settings.alpha)  # type: ignore[arg-type]  # __post_init__ has made it a number
        for norm in (self.norm_q, self.norm_k):
            norm.fill_(1.0)
        for weight in (self.gate_in, self.gate_out):
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))  # what nn.Linear does
        for bias in (self.gate_in_bias, self.gate_out_bias):
            bias.zero_()  # so that the gate is exactly 1/2 at s = 0
        if settings.projection == "mlp":
            for weight, bias in (
                (self.project_q_in, self.project_q_bias),
                (self.project_k_in, self.project_k_bias),
            ):
                nn.init.kaiming_normal_(weight)
                bias.zero_()
        if settings.projection_init == "zero":
            self.project_q.zero_()
            self.project_k.zero_()
        elif settings.projection_init == "random":
            nn.init.kaiming_uniform_(self.project_q, a=math.sqrt(5))
            nn.init.kaiming_uniform_(self.project_k, a=math.sqrt(5))
        else:
            for head in self.project_q.unflatten(0, (self.heads, -1)):  # [D, 7], a view
                nn.init.orthogonal_(head)
            self.project_k.copy_(self.project_q)

    def inject(self, query: Tensor, key: Tensor, value: Tensor, camera: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pe_q, pe_k = self.encode(camera)
        # float32 + bf16 is float32: the encoding is rounded once, with the sum.
        return (query + pe_q).to(query.dtype), (key + pe_k).to(key.dtype), value

    def encode(self, camera: Tensor) -> tuple[Tensor, Tensor]:  # [B, N, 23] -> 2 x [B, N, H, D]
        """What is added to query and key, alpha_q pe_q and alpha_k pe_k, in the camera's precision (float32)."""
        with torch.autocast(camera.device.type, enabled=False):
            feature_q, feature_k, log_magnitude = ray_features(camera, self.settings.flip, self.settings.moment_floor)
            # A token without a camera (a row of zeros) gets nothing added.
            present = (camera[..., :3] != 0).any(dim=-1, keepdim=True)
            gate = self.gate(log_magnitude + camera[..., LOG_SCALE_OFFSET]) * present
            pe_q = self.alpha_q * (gate * self.project(feature_q, "q"))
            pe_k = self.alpha_k * (gate * self.project(feature_k, "k"))
            return pe_q.unflatten(-1, (self.heads, -1)), pe_k.unflatten(-1, (self.heads, -1))

    def gate(self, log_magnitude: Tensor) -> Tensor:  # [..., 1] -> [..., dim]
        """How much of the encoding each channel lets through, in (0, 1)."""
        hidden = F.gelu(_linear(log_magnitude, self.gate_in, self.gate_in_bias))
        return _linear(hidden, self.gate_out, self.gate_out_bias).sigmoid()

    def project(self, feature: Tensor, side: Literal["q", "k"]) -> Tensor:  # [..., 7] -> [..., dim]
        """RMSNorm(E f), the norm over the full width, all heads together, like Wan's QKNorm."""
        if self.settings.projection == "mlp":
            bias = getattr(self, f"project_{side}_bias")
            feature = F.gelu(_linear(feature, getattr(self, f"project_{side}_in"), bias))
        projected = _linear(feature, getattr(self, f"project_{side}"))
        return F.rms_norm(projected, (self.dim,), getattr(self, f"norm_{side}").to(feature.dtype), eps=1e-6)


def ray_features(camera: Tensor, flip: bool, floor: float) -> tuple[Tensor, Tensor, Tensor]:
    """f_q [..., 7], f_k [..., 7] and s [..., 1] of packed camera rows [..., 23]."""
    ray = camera[..., RAY]
    direction = ray[..., :3]
    unit_moment, log_magnitude = split_moment(ray[..., 3:], floor)
    feature_q = torch.cat([direction, unit_moment, log_magnitude], dim=-1)
    feature_k = torch.cat([unit_moment, direction, log_magnitude], dim=-1) if flip else feature_q
    return feature_q, feature_k, log_magnitude


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    # Weights follow the activations: a model cast to bf16 as a whole still computes its rays in float32.
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))
