"""SCoPE, the paper's encoding: each token's ray, normalised and gated, is added to its query and key after RoPE.

    m^ = m / max(|m|, eps)    s = log max(|m|, eps)      direction d and moment m of the token's ray     Eq. (decompose)
    f_q = (d, m^, s)          f_k = (m^, d, s)           the key has the halves of the ray swapped
    g   = sigmoid(G(s + delta))                          one gate for query and key                      Eq. (scale-gate)
    q  += alpha_q * g * RMSNorm_q(E_q f_q)               k += alpha_k * g * RMSNorm_k(E_k f_k)           Eqs. (ngi-q), (ngi-k)

This is Algorithm 1 of the paper, with delta the log-scale augmentation. The computation itself is
`kernels.scope_reference.scope_encoding`, which the fused kernel is tested against; this file holds the settings, the
parameters and their starting values, and the stages of attention that SCoPE changes.

For raw rays (d, m) and E_q^T E_k = I the ray-ray part of the score is the reciprocal product of the two lines, which is zero
when the lines of sight meet. With the features above it is d . m^' + m^ . d' + s s', normalised and gated: the same incidence
test on unit moments, plus a product of log scales.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.cameras.plucker import MIN_MOMENT
from sightline.checks import number, whole_number
from sightline.encodings.protocol import Attend, Encoding
from sightline.encodings.scale_gate import GatedLayer
from sightline.errors import SightlineError
from sightline.kernels import ops
from sightline.kernels.scope_reference import ScopeWeights, Side, SideWeights, scope_encoding

FEATURES = 7  # direction 3, unit moment 3, log magnitude 1
RAW_FEATURES = 6  # direction 3, moment 3

Projection = Literal["linear", "mlp"]
ProjectionInit = Literal["identity", "random", "zero"]
Terms = Literal["abcd", "ad", "abc"]


@dataclass(frozen=True)
class Scope(Encoding):
    """Settings of SCoPE. The defaults are the paper's: a model starts bit-identical to its base, and it can learn.

    gate_hidden: width of the scale gate's hidden layer. 16 keeps the new parameters under 0.1 % at 5B and 14B.
    projection: E as one matrix (dim x 7, no bias), or as a two-layer MLP of width projection_hidden.
    projection_init: "identity": in every head E_q and E_k are the same orthonormal columns, so that E_q^T E_k = I;
        "random": the two are drawn independently; "zero": E f = 0 at the start (for an MLP, only its output layer is
        zero). None chooses "identity" for linear and "zero" for an MLP.
    alpha: starting value of alpha_q and alpha_k. None chooses 0 for linear and 1 for an MLP.
    flip: swap the halves of the ray on the key side.
    min_moment: the smallest |m|; the anchor frame, where m = 0, has s = log(min_moment).

    The other settings are the paper's ablations. (Its "w/o flip" is flip = False; its "w/o zero init" is alpha = 1 with
    projection_init = "random".)
    ngi: False removes the normalisation and the gate and adds the raw ray, q += alpha_q E_q (d, m).
    norm: False removes only the RMSNorm over E f.
    value: True also adds a ray to the value, with its own projection, norm and alpha.
    terms: which parts of the score <q, k> are kept: content-content a, content-ray b, ray-content c, ray-ray d.
        With "ad" (no b and c) and alpha = 0, alpha_k starts at 1: d is a product of both alphas, and if both were zero,
        so would be all gradients.
    """

    name: ClassVar[str] = "scope"
    initial_settings: ClassVar[tuple[str, ...]] = ("alpha", "projection_init")

    gate_hidden: int = 16
    projection: Projection = "linear"
    projection_hidden: int = 16
    projection_init: ProjectionInit | None = None
    alpha: float | None = None
    flip: bool = True
    min_moment: float = MIN_MOMENT
    ngi: bool = True
    norm: bool = True
    value: bool = False
    terms: Terms = "abcd"

    def __post_init__(self) -> None:
        linear = self.projection == "linear"
        if self.projection_init is None:
            object.__setattr__(self, "projection_init", "identity" if linear else "zero")
        default = 0.0 if linear else 1.0
        object.__setattr__(self, "alpha", number("alpha", default if self.alpha is None else self.alpha))
        for name, choices in (("projection", Projection), ("projection_init", ProjectionInit), ("terms", Terms)):
            if getattr(self, name) not in get_args(choices):
                expected = ", ".join(map(repr, get_args(choices)))
                raise SightlineError(f"{name} is {getattr(self, name)!r}: expected one of {expected}.")
        for name in ("flip", "ngi", "norm", "value"):
            if not isinstance(getattr(self, name), bool):
                raise SightlineError(f"{name} is {getattr(self, name)!r}: expected True or False.")
        whole_number("gate_hidden", self.gate_hidden)
        whole_number("projection_hidden", self.projection_hidden)
        number("min_moment", self.min_moment, above=0.0)
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.projection == "mlp" and self.projection_init == "identity":
            raise SightlineError(
                "projection_init is 'identity' with an mlp, which has none: expected 'zero' or 'random'."
            )
        if self.projection == "mlp" and not self.ngi:
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


class ScopeLayer(GatedLayer):
    """One self-attention layer's SCoPE. Computes in float32 whatever the model's dtype."""

    project_q: Tensor  # [dim, 7], and so project_k and, with a value, project_v
    project_k: Tensor

    def __init__(self, settings: Scope, dim: int, heads: int) -> None:
        super().__init__()
        self.settings, self.dim, self.heads = settings, dim, heads
        self.sides: tuple[Side, ...] = ("q", "k", "v") if settings.value else ("q", "k")
        self.stages = frozenset({"inject" if settings.terms == "abcd" else "attend"})
        paper = Scope(settings.gate_hidden, flip=settings.flip, min_moment=settings.min_moment)
        self.has_fused = settings.computes_as(paper)  # the kernel computes the paper's form only
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
            self.add_gate(dim, settings.gate_hidden)
        self.reset_parameters()

    def init_weights(self) -> None:
        settings, weights = self.settings, dict(self.named_parameters())
        for side in self.sides:
            alone = settings.terms == "ad" and side == "k" and settings.alpha == 0
            weights[f"alpha_{side}"].fill_(1.0 if alone else settings.alpha)  # type: ignore[arg-type]  # a number by now
            if f"norm_{side}" in weights:
                weights[f"norm_{side}"].fill_(1.0)
            if settings.projection == "mlp":
                nn.init.kaiming_normal_(weights[f"project_{side}_in"])
                weights[f"project_{side}_bias"].zero_()
            self._init_projection(weights[f"project_{side}"])
        if settings.projection_init == "identity":
            self.project_k.copy_(self.project_q)
        if settings.ngi:
            self.init_gate()

    def _init_projection(self, weight: Tensor) -> None:  # [dim, features]
        if self.settings.projection_init == "zero":
            weight.zero_()
        elif self.settings.projection_init == "random":
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
        else:
            for head in weight.unflatten(0, (self.heads, -1)):  # [D, features], a view
                nn.init.orthogonal_(head)

    def inject(self, query: Tensor, key: Tensor, value: Tensor, camera_rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # A float32 encoding plus a bfloat16 query is a float32 sum: it is rounded once.
        ray_q, ray_k = self.encode(camera_rows)
        return (query + ray_q).to(query.dtype), (key + ray_k).to(key.dtype), self.add_to_value(value, camera_rows)

    def fused(
        self,
        query: Tensor,  # [B, N, dim]
        key: Tensor,  # [B, N, dim]
        norms: tuple[Tensor, Tensor],  # [dim] x2
        eps: float,
        rotary: tuple[Tensor, Tensor],  # [1, N, 1, D] x2
        camera_rows: Tensor,  # [B or 1, N, 90]
    ) -> tuple[Tensor, Tensor]:
        weights = ScopeWeights(**{name: getattr(self, name) for name in ScopeWeights._fields})
        settings = self.settings
        return ops.qk(query, key, *norms, *rotary, camera_rows, list(weights), eps, settings.min_moment, settings.flip)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, attend: Attend, camera_rows: Tensor) -> Tensor:
        """The score without some of its terms: content and ray side by side, in heads twice as wide."""
        width, (ray_q, ray_k) = query.shape[-1], self.encode(camera_rows)
        if self.settings.terms == "ad":
            halves = (query, ray_q), (key, ray_k)
        else:
            halves = (query + ray_q, ray_q), (key + ray_k, -ray_k)
        query, key = (torch.cat([x, ray.expand_as(x)], dim=-1).to(value.dtype) for x, ray in halves)
        value = self.add_to_value(value, camera_rows)
        # Attention kernels need one width for all three. The score keeps the scale of the pretrained width.
        return attend(query, key, F.pad(value, (0, width)), scale=width**-0.5)[..., :width]

    def add_to_value(self, value: Tensor, camera_rows: Tensor) -> Tensor:  # [B, N, H, D] -> [B, N, H, D]
        if not self.settings.value:
            return value
        return (value + self.encode(camera_rows, ("v",))[0]).to(value.dtype)

    def encode(self, camera_rows: Tensor, sides: tuple[Side, ...] = ("q", "k")) -> tuple[Tensor, ...]:
        """What is added on each side: [B, N, 90] -> [B, N, H, D], in the dtype of the camera rows (float32)."""
        weights, settings = {side: self.side_weights(side) for side in sides}, self.settings
        gate = self.gate_weights if settings.ngi else None
        with torch.autocast(camera_rows.device.type, enabled=False):
            rays = scope_encoding(camera_rows, weights, gate, settings.min_moment, settings.flip)
        return tuple(ray.unflatten(-1, (self.heads, -1)) for ray in rays)

    def side_weights(self, side: Side) -> SideWeights:
        """The weights of one side; those that an ablation leaves out are None."""
        return SideWeights(
            project=getattr(self, f"project_{side}"),
            norm=getattr(self, f"norm_{side}", None),
            alpha=getattr(self, f"alpha_{side}"),
            mlp_in=getattr(self, f"project_{side}_in", None),
            mlp_in_bias=getattr(self, f"project_{side}_bias", None),
        )

    @torch.no_grad()
    def metrics(self) -> dict[str, float]:
        """The alphas, and the mean gate at |m| = 0.1, 1 and 10."""
        metrics = {f"alpha_{side}": getattr(self, f"alpha_{side}").item() for side in self.sides}
        return metrics | (self.gate_metrics() if self.settings.ngi else {})
