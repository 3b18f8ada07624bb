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
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.cameras.plucker import MOMENT_FLOOR, split_moment
from sightline.cameras.tokens import LOG_SCALE_OFFSET, RAY
from sightline.checks import number, whole_number
from sightline.encodings.frames import has_camera
from sightline.encodings.protocol import Attend, Encoding, EncodingLayer, linear
from sightline.errors import SightlineError
from sightline.kernels import ops
from sightline.kernels.reference import ScopeWeights

FEATURES = 7  # direction 3, unit moment 3, log magnitude 1
RAW_FEATURES = 6  # direction 3, moment 3

Projection = Literal["linear", "mlp"]
ProjectionInit = Literal["identity", "random", "zero"]
Side = Literal["q", "k", "v"]
Terms = Literal["abcd", "ad", "abc"]


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
    min_moment: the smallest |m|; the anchor frame, where m = 0, has s = log(min_moment).

    The paper's ablations, beside flip, and alpha = 1 with projection_init = "random" for "w/o zero init":
    ngi: False leaves normalisation and gate out altogether: the raw ray, q += alpha_q E_q (d, m).
    norm: False leaves out the RMSNorm over E f alone.
    value: True adds a ray to the value too, with a projection, a norm and an alpha of its own.
    terms: which parts of the score <q, k> there are: content-content a, content-ray b, ray-content c, ray-ray d.
        "ad" (without b and c) starts with alpha_k = 1 where alpha is 0: d alone is a product of both alphas, and from
        two zeros neither would ever move.
    """

    name: ClassVar[str] = "scope"
    starting_values: ClassVar[tuple[str, ...]] = ("alpha", "projection_init")

    gate_hidden: int = 16
    projection: Projection = "linear"
    projection_hidden: int = 16
    projection_init: ProjectionInit | None = None
    alpha: float | None = None
    flip: bool = True
    min_moment: float = MOMENT_FLOOR
    ngi: bool = True
    norm: bool = True
    value: bool = False
    terms: Terms = "abcd"

    def __post_init__(self) -> None:
        if self.projection not in ("linear", "mlp"):
            raise SightlineError(f"projection is {self.projection!r}: expected 'linear' or 'mlp'.")
        linear = self.projection == "linear"
        if self.projection_init is None:
            object.__setattr__(self, "projection_init", "identity" if linear else "zero")
        default = 0.0 if linear else 1.0
        object.__setattr__(self, "alpha", number("alpha", default if self.alpha is None else self.alpha))
        for name in ("flip", "ngi", "norm", "value"):
            if not isinstance(getattr(self, name), bool):
                raise SightlineError(f"{name} is {getattr(self, name)!r}: expected True or False.")
        if self.terms not in ("abcd", "ad", "abc"):
            raise SightlineError(f"terms is {self.terms!r}: expected 'abcd', 'ad' (no cross terms) or 'abc' (no d).")
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
        number("min_moment", self.min_moment, above=0.0)
        self._refuse_what_cannot_work(linear)

    def _refuse_what_cannot_work(self, linear: bool) -> None:
        if not self.ngi and not linear:
            raise SightlineError(
                "projection is 'mlp' with ngi = False, the raw ray through one matrix: expected 'linear'."
            )
        if not self.ngi and not self.norm:
            raise SightlineError("norm = False with ngi = False removes the norm twice: expected one of the two.")
        if self.alpha == 0 and self.projection_init == "zero":
            raise SightlineError(
                "alpha = 0 together with projection_init = 'zero' can never learn (the gradient of each is a multiple "
                "of the other): expected one of the two to start away from zero."
            )
        if self.terms == "ad" and self.projection_init == "zero":
            raise SightlineError(
                "terms = 'ad' together with projection_init = 'zero' can never learn (d is a product of both "
                "projections): expected 'identity' or 'random'."
            )

    def layer(self, dim: int, heads: int) -> ScopeLayer:
        return ScopeLayer(self, dim, heads)


class ScopeLayer(EncodingLayer):
    """One self-attention layer's SCoPE. Computes in float32 whatever the model's dtype."""

    project_q: Tensor  # [dim, 7], and so project_k and, with a value, project_v
    project_k: Tensor
    gate_in: Tensor  # [hidden, 1]
    gate_in_bias: Tensor  # [hidden]
    gate_out: Tensor  # [dim, hidden]
    gate_out_bias: Tensor  # [dim]

    def __init__(self, settings: Scope, dim: int, heads: int) -> None:
        super().__init__()
        self.settings, self.dim, self.heads = settings, dim, heads
        self.sides: tuple[Side, ...] = ("q", "k", "v") if settings.value else ("q", "k")
        self.touches = frozenset({"inject" if settings.terms == "abcd" else "attend"})
        self.fuses = settings == replace(  # everything the kernel knows is the paper's own form
            Scope(), gate_hidden=settings.gate_hidden, flip=settings.flip, min_moment=settings.min_moment,
            alpha=settings.alpha, projection_init=settings.projection_init,
        )  # fmt: skip
        features = FEATURES if settings.ngi else RAW_FEATURES
        if settings.projection_init == "identity" and dim // heads < features:
            raise SightlineError(
                f"head_dim is {dim // heads}: expected at least {features} for the identity start (or projection_init='random')."
            )
        for side in self.sides:
            if settings.projection == "linear":
                self.add_parameter(f"project_{side}", dim, features)
            else:
                self.add_parameter(f"project_{side}", dim, settings.projection_hidden)
                self.add_parameter(f"project_{side}_in", settings.projection_hidden, features)
                self.add_parameter(f"project_{side}_bias", settings.projection_hidden)
            if settings.ngi and settings.norm:
                self.add_parameter(f"norm_{side}", dim)
            self.add_parameter(f"alpha_{side}", 1)
        if settings.ngi:
            self.add_parameter("gate_in", settings.gate_hidden, 1)
            self.add_parameter("gate_in_bias", settings.gate_hidden)
            self.add_parameter("gate_out", dim, settings.gate_hidden)
            self.add_parameter("gate_out_bias", dim)
        self.reset_parameters()

    def start(self) -> None:
        settings, weights = self.settings, dict(self.named_parameters())
        for side in self.sides:
            alone = settings.terms == "ad" and side == "k" and settings.alpha == 0
            weights[f"alpha_{side}"].fill_(1.0 if alone else settings.alpha)  # type: ignore[arg-type]  # a number by now
            if f"norm_{side}" in weights:
                weights[f"norm_{side}"].fill_(1.0)
            if settings.projection == "mlp":
                nn.init.kaiming_normal_(weights[f"project_{side}_in"])
                weights[f"project_{side}_bias"].zero_()
            self._start_projection(weights[f"project_{side}"])
        if settings.projection_init == "identity":
            self.project_k.copy_(self.project_q)
        if settings.ngi:
            for name in ("gate_in", "gate_out"):
                nn.init.kaiming_uniform_(weights[name], a=math.sqrt(5))  # what nn.Linear does
                weights[f"{name}_bias"].zero_()  # so that the gate is exactly 1/2 at s = 0

    def _start_projection(self, weight: Tensor) -> None:  # [dim, features]
        if self.settings.projection_init == "zero":
            weight.zero_()
        elif self.settings.projection_init == "random":
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
        else:
            for head in weight.unflatten(0, (self.heads, -1)):  # [D, features], a view
                nn.init.orthogonal_(head)

    def inject(self, query: Tensor, key: Tensor, value: Tensor, camera_rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # float32 + bf16 is float32: the encoding is rounded once, with the sum.
        ray_q, ray_k = self.encode(camera_rows)
        return (query + ray_q).to(query.dtype), (key + ray_k).to(key.dtype), self.with_ray(value, camera_rows)

    def fused(
        self,
        query: Tensor,
        key: Tensor,
        norms: tuple[Tensor, Tensor],
        eps: float,
        rotary: tuple[Tensor, Tensor],
        camera_rows: Tensor,
    ) -> tuple[Tensor, Tensor]:
        weights = [getattr(self, name) for name in ScopeWeights._fields]
        settings = self.settings
        return ops.qk(query, key, *norms, *rotary, camera_rows, weights, eps, settings.min_moment, settings.flip)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, attend: Attend, camera_rows: Tensor) -> Tensor:
        """The score without some of its terms: content and ray side by side, in heads twice as wide."""
        width, (ray_q, ray_k) = query.shape[-1], self.encode(camera_rows)
        if self.settings.terms == "ad":
            halves = (query, ray_q), (key, ray_k)
        else:
            halves = (query + ray_q, ray_q), (key + ray_k, -ray_k)
        query, key = (torch.cat([x, ray.expand_as(x)], dim=-1).to(value.dtype) for x, ray in halves)
        value = self.with_ray(value, camera_rows)
        # Kernels want one width for all three, and the score keeps the scale of the pretrained width.
        return attend(query, key, F.pad(value, (0, width)), scale=width**-0.5)[..., :width]

    def with_ray(self, value: Tensor, camera_rows: Tensor) -> Tensor:  # [B, N, H, D] -> [B, N, H, D]
        if not self.settings.value:
            return value
        return (value + self.encode(camera_rows, ("v",))[0]).to(value.dtype)

    def encode(self, camera_rows: Tensor, sides: tuple[Side, ...] = ("q", "k")) -> tuple[Tensor, ...]:
        """What is added on each side, alpha pe: [B, N, 90] -> [B, N, H, D], in the camera's precision (float32)."""
        with torch.autocast(camera_rows.device.type, enabled=False):
            strength: Tensor = has_camera(camera_rows)  # a token without a camera (a row of zeros) gets nothing added
            if self.settings.ngi:
                feature_q, feature_k, log_magnitude = ray_features(
                    camera_rows, self.settings.flip, self.settings.min_moment
                )
                strength = self.gate(log_magnitude + camera_rows[..., LOG_SCALE_OFFSET]) * strength
            else:
                feature_q = camera_rows[..., RAY]
                feature_k = feature_q.roll(3, dims=-1) if self.settings.flip else feature_q
            rays = []
            for side in sides:
                ray = strength * self.project(feature_k if side == "k" else feature_q, side)
                rays.append((getattr(self, f"alpha_{side}") * ray).unflatten(-1, (self.heads, -1)))
            return tuple(rays)

    def gate(self, log_magnitude: Tensor) -> Tensor:  # [..., 1] -> [..., dim]
        """How much of the encoding each channel lets through, in (0, 1)."""
        hidden = F.gelu(linear(log_magnitude, self.gate_in, self.gate_in_bias))
        return linear(hidden, self.gate_out, self.gate_out_bias).sigmoid()

    def project(self, feature: Tensor, side: Side) -> Tensor:  # [..., 7] -> [..., dim]
        """RMSNorm(E f), the norm over the full width, all heads together, like Wan's QKNorm."""
        if self.settings.projection == "mlp":
            bias = getattr(self, f"project_{side}_bias")
            feature = F.gelu(linear(feature, getattr(self, f"project_{side}_in"), bias))
        projected = linear(feature, getattr(self, f"project_{side}"))
        if not (self.settings.ngi and self.settings.norm):
            return projected
        return F.rms_norm(projected, (self.dim,), getattr(self, f"norm_{side}").to(feature.dtype), eps=1e-6)

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        """The alphas, and the mean gate at |m| = 0.1, 1 and 10."""
        figures = {f"alpha_{side}": getattr(self, f"alpha_{side}").item() for side in self.sides}
        if self.settings.ngi:
            for magnitude in (0.1, 1.0, 10.0):
                gate = self.gate(torch.full((1, 1), math.log(magnitude), device=self.gate_in.device))
                figures[f"gate_at_{magnitude:g}"] = gate.mean().item()
        return figures


def ray_features(camera_rows: Tensor, flip: bool, floor: float) -> tuple[Tensor, Tensor, Tensor]:
    """f_q [..., 7], f_k [..., 7] and s [..., 1] of packed camera rows [..., 90]."""
    ray = camera_rows[..., RAY]
    direction = ray[..., :3]
    unit_moment, log_magnitude = split_moment(ray[..., 3:], floor)
    feature_q = torch.cat([direction, unit_moment, log_magnitude], dim=-1)
    feature_k = torch.cat([unit_moment, direction, log_magnitude], dim=-1) if flip else feature_q
    return feature_q, feature_k, log_magnitude
