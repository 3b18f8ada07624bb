"""PRoPE and GTA: a second attention in camera frames, parallel to the first, whose output projection starts at zero.

PRoPE (Li et al. 2025) uses pose and intrinsics as the frame, P = lift(K) T. GTA (Miyato et al. 2024) uses the pose T only, with
a learned factor on the translation. Neither can replace a pretrained RoPE within a fine-tuning budget, so both are branches
beside the pretrained attention. With branch "shared", the branch uses the pretrained query, key and value before RoPE and has
an output projection of its own. With "own", it also learns its own query, key and value projections, without QKNorm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.tokens import has_camera
from sightline.checks import number
from sightline.encodings.frames import (
    attend_in_frames,
    projection,
    require_frame_layout,
    world_to_camera,
)
from sightline.encodings.protocol import AttentionState, Encoding, EncodingLayer, init_linear, linear
from sightline.errors import SightlineError

Branch = Literal["shared", "own"]


@dataclass(frozen=True)
class Prope(Encoding):
    """Settings of PRoPE.

    branch: "shared" uses the pretrained query, key and value; "own" adds three projections of full width.
    """

    name: ClassVar[str] = "prope"

    branch: Branch = "shared"

    def __post_init__(self) -> None:
        if self.branch not in ("shared", "own"):
            raise SightlineError(f"branch is {self.branch!r}: expected 'shared' or 'own'.")

    def layer(self, dim: int, heads: int) -> PropeLayer:
        return PropeLayer(self, dim, heads)


@dataclass(frozen=True)
class Gta(Prope):
    """Settings of GTA.

    branch: as for PRoPE.
    translation: initial value of the factor on the pose's translation, which every layer learns.
    """

    name: ClassVar[str] = "gta"
    initial_settings: ClassVar[tuple[str, ...]] = ("translation",)

    translation: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "translation", number("translation", self.translation))


class PropeLayer(EncodingLayer):
    """The branch of one self-attention layer. Frames are computed in float32, attention in the model's dtype."""

    q_weight: Tensor  # [dim, dim], as the weights of k, v and out
    q_bias: Tensor
    k_weight: Tensor
    k_bias: Tensor
    v_weight: Tensor
    v_bias: Tensor
    out_weight: Tensor
    out_bias: Tensor
    translation: Tensor  # [1]

    def __init__(self, settings: Prope, dim: int, heads: int) -> None:
        super().__init__()
        require_frame_layout(dim // heads)
        self.settings, self.heads, self.own = settings, heads, settings.branch == "own"
        for name in ("q", "k", "v", "out") if self.own else ("out",):
            self.add_linear(name, dim, dim)
        if isinstance(settings, Gta):
            self.add_parameter("translation", 1)
        self.reset_parameters()

    def init_weights(self) -> None:
        if self.own:
            for name in ("q", "k", "v"):
                init_linear(getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))
        self.out_weight.zero_()
        self.out_bias.zero_()
        if isinstance(self.settings, Gta):
            self.translation.fill_(self.settings.translation)

    def output(self, output: Tensor, state: AttentionState, camera_rows: Tensor) -> Tensor:
        query, key, value = self.project(state.hidden) if self.own else (state.query, state.key, state.value)
        branch = attend_in_frames(query, key, value, *self.frame(camera_rows), camera_rows, state.attend)
        return output + linear(branch.flatten(2), self.out_weight, self.out_bias) * has_camera(camera_rows)

    def project(self, hidden: Tensor) -> list[Tensor]:  # [B, N, dim] -> 3 x [B, N, H, D]
        weights = ((self.q_weight, self.q_bias), (self.k_weight, self.k_bias), (self.v_weight, self.v_bias))
        return [linear(hidden, weight, bias).unflatten(-1, (self.heads, -1)) for weight, bias in weights]

    def frame(self, camera_rows: Tensor) -> tuple[Tensor, Tensor]:  # [B, N, 90] -> M, M^-1, each [B, N, 4, 4]
        if not isinstance(self.settings, Gta):
            return projection(camera_rows)
        pose = world_to_camera(camera_rows)
        # (R, c t) is (R, t) in a world c times as large. It is a rigid motion, so a motion of the world still cancels.
        pose = se3.from_parts(pose[..., :3, :3], pose[..., :3, 3] * self.translation.to(pose.dtype))
        return pose, se3.inverse(pose)
