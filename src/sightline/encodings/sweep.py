"""Sweep, this project's own encoding: where the first camera would see the points along each token's ray.

    p_z = o + z d             the point at depth z on the ray of a token, with camera centre o and unit direction d
    u_z = p_z / |p_z|         the direction in which the anchor camera sees it, for a few depths z; for z = infinity it is d
    f   = (m / (|m| + 0.3), s / 4, sin(pi w u_z), cos(pi w u_z) for every z and w)       m = o x d, s = log max(|m|, 0.1)
    q  += alpha_q * g * RMSNorm_q(E f)        k += alpha_k * g * RMSNorm_k(E f)          g = sigmoid(G(s + delta))

This is a plane sweep of multi-view stereo used as a positional encoding. Two tokens see the same point of a static scene only
if their swept directions agree at the depths of that point, so the ray-ray part of the score can tell at which depth two lines
of sight meet, where SCoPE's can only tell whether they meet. Every u is a unit vector whatever the unit of length: another unit
moves the features from one depth to the next, and if the camera only rotates, all of them are d, so directions are compared.

Everything else is SCoPE's: the addition after RoPE, the norm over the full width, the gate, alpha from zero. The features are the
same for query and key, and so is the projection E unless `tied` is False. The last line above is computed by
`kernels.sweep_reference.sweep_encoding`; this file holds the features, the settings, the parameters and their starting values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.cameras.tokens import RAY
from sightline.checks import number, whole_number
from sightline.encodings.frames import world_to_camera
from sightline.encodings.protocol import Encoding
from sightline.encodings.scale_gate import GatedLayer
from sightline.errors import SightlineError
from sightline.kernels import MAX_FEATURES, ops
from sightline.kernels.scope_reference import Side, SideWeights
from sightline.kernels.sweep_reference import SweepWeights, log_moment, sweep_encoding

SOFTNESS = 0.3  # |m| at which the soft moment m / (|m| + SOFTNESS) has half its length
MIN_MOMENT = 0.1
LOG_SCALE = 0.25  # of s among the features, so that RMSNorm does not let it crowd out the directions


@dataclass(frozen=True)
class Sweep(Encoding):
    """Settings of Sweep. The model starts bit-identical to its base.

    depths: at which the ray is sampled, in units of the trajectory.
    frequencies: of the sines and cosines, in half periods per unit of direction; 1 is unambiguous for all directions.
    gate_hidden: width of the scale gate's hidden layer.
    tied: one projection for query and key, which keeps the new parameters under 0.2 % at 5B.
    """

    name: ClassVar[str] = "sweep"

    depths: tuple[float, ...] = (0.8, 1.6, 3.2, 6.4)
    frequencies: tuple[float, ...] = (1.0, 4.0)
    gate_hidden: int = 16
    tied: bool = True

    def __post_init__(self) -> None:
        for name in ("depths", "frequencies"):
            object.__setattr__(self, name, _increasing(name, getattr(self, name)))
        whole_number("gate_hidden", self.gate_hidden)
        if not isinstance(self.tied, bool):
            raise SightlineError(f"tied is {self.tied!r}: expected True or False.")

    @property
    def num_features(self) -> int:
        return 4 + 6 * len(self.frequencies) * (len(self.depths) + 1)

    def layer(self, dim: int, heads: int) -> SweepLayer:
        return SweepLayer(self, dim, heads)


class SweepLayer(GatedLayer):
    """One self-attention layer's Sweep. Computes in float32 whatever the model's dtype."""

    project: Tensor  # [dim, features], and so project_k unless tied
    project_k: Tensor
    norm_q: Tensor  # [dim]
    norm_k: Tensor
    alpha_q: Tensor  # [1]
    alpha_k: Tensor

    def __init__(self, settings: Sweep, dim: int, heads: int) -> None:
        super().__init__()
        self.settings, self.heads = settings, heads
        self.has_fused = settings.tied and settings.num_features <= MAX_FEATURES
        for name in ("project",) if settings.tied else ("project", "project_k"):
            self.add_parameter(name, dim, settings.num_features)
        for side in ("q", "k"):
            self.add_parameter(f"norm_{side}", dim)
            self.add_parameter(f"alpha_{side}", 1)
        self.add_gate(dim, settings.gate_hidden)
        self.reset_parameters()

    def init_weights(self) -> None:
        for head in self.project.unflatten(0, (self.heads, -1)):  # [D, features], a view
            nn.init.orthogonal_(head)
        if not self.settings.tied:
            self.project_k.copy_(self.project)  # so that equal rays start with equal encodings
        for norm in (self.norm_q, self.norm_k):
            norm.fill_(1.0)
        for alpha in (self.alpha_q, self.alpha_k):
            alpha.zero_()
        self.init_gate()

    def embed(self, camera_rows: Tensor, grid: tuple[int, int, int]) -> tuple[Tensor | None, Tensor]:
        """The features depend on the camera alone: they are computed once per call and travel behind the camera rows."""
        with torch.autocast(camera_rows.device.type, enabled=False):
            features = sweep_features(camera_rows, self.settings.depths, self.settings.frequencies)
        return None, torch.cat([camera_rows, features], dim=-1)

    def inject(self, query: Tensor, key: Tensor, value: Tensor, camera_rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # A float32 encoding plus a bf16 query is a float32 sum: it is rounded once.
        ray_q, ray_k = self.encode(camera_rows)
        return (query + ray_q).to(query.dtype), (key + ray_k).to(key.dtype), value

    def fused(
        self,
        query: Tensor,  # [B, N, dim]
        key: Tensor,  # [B, N, dim]
        norms: tuple[Tensor, Tensor],  # [dim] x2
        eps: float,
        rotary: tuple[Tensor, Tensor],  # [1, N, 1, D] x2
        camera_rows: Tensor,  # [B or 1, N, 90 + features]
    ) -> tuple[Tensor, Tensor]:
        weights = SweepWeights(**{name: getattr(self, name) for name in SweepWeights._fields})
        return ops.qk(query, key, *norms, *rotary, camera_rows, list(weights), eps, MIN_MOMENT, False)

    def encode(self, camera_rows: Tensor) -> tuple[Tensor, Tensor]:  # [B, N, 90 + features] -> [B, N, H, D] x2
        """What is added to query and key, in the dtype of the camera rows (float32). A token without a camera gets zeros."""
        with torch.autocast(camera_rows.device.type, enabled=False):
            ray_q, ray_k = sweep_encoding(camera_rows, self.side_weights, self.gate_weights, MIN_MOMENT)
        return ray_q.unflatten(-1, (self.heads, -1)), ray_k.unflatten(-1, (self.heads, -1))

    @property
    def side_weights(self) -> dict[Side, SideWeights]:
        project_k = self.project if self.settings.tied else self.project_k
        return {
            "q": SideWeights(self.project, self.norm_q, self.alpha_q),
            "k": SideWeights(project_k, self.norm_k, self.alpha_k),
        }

    @torch.no_grad()
    def metrics(self) -> dict[str, float]:
        """The two alphas, and the mean gate at |m| = 0.1, 1 and 10."""
        return {"alpha_q": self.alpha_q.item(), "alpha_k": self.alpha_k.item(), **self.gate_metrics()}


def sweep_features(
    camera_rows: Tensor,  # [B, N, 90]
    depths: tuple[float, ...],
    frequencies: tuple[float, ...],
) -> Tensor:  # [B, N, 4 + 6 F (Z + 1)]
    """The soft moment (3), s / 4 (1), then for every frequency the sines and the cosines of all swept directions."""
    moment = camera_rows[..., RAY][..., 3:]
    magnitude = moment.norm(dim=-1, keepdim=True)
    directions = swept_directions(camera_rows, depths)
    angles = torch.cat([math.pi * frequency * directions for frequency in frequencies], dim=-1)
    return torch.cat(
        [
            moment / (magnitude + SOFTNESS),
            LOG_SCALE * log_moment(camera_rows, MIN_MOMENT),
            angles.sin(),
            angles.cos(),
        ],
        dim=-1,
    )


def swept_directions(camera_rows: Tensor, depths: tuple[float, ...]) -> Tensor:  # [B, N, 90] -> [B, N, 3 (Z + 1)]
    """The directions from the world's origin, the anchor camera, to the points at these depths of each ray; then d itself."""
    direction = camera_rows[..., RAY][..., :3]
    pose = world_to_camera(camera_rows)
    centre = -(pose[..., :3, :3].transpose(-1, -2) @ pose[..., :3, 3:])[..., 0]  # [B, N, 3]
    points = [centre + depth * direction for depth in depths]
    return torch.cat([F.normalize(point, dim=-1) for point in (*points, direction)], dim=-1)


def _increasing(name: str, values: Any) -> tuple[float, ...]:
    if not isinstance(values, tuple | list) or not values:
        raise SightlineError(f"{name} is {values!r}: expected a list of one or more numbers above 0.")
    numbers = tuple(number(name, value, above=0.0) for value in values)
    if list(numbers) != sorted(set(numbers)):
        raise SightlineError(f"{name} is {list(numbers)}: expected increasing numbers.")
    return numbers
