"""PRoPE and GTA: a second attention in camera frames, parallel to the first, whose output projection starts at zero.

PRoPE (Li et al. 2025) uses pose and intrinsics as the frame, P = lift(K) T. GTA (Miyato et al. 2024) uses the pose T only, with
a learned factor on the translation. Neither can replace a pretrained RoPE within a fine-tuning budget, so both are branches
beside the pretrained attention. With branch "shared", the branch uses the pretrained query, key and value before RoPE and has
an output projection of its own. With "own", it also learns its own query, key and value projections. The other settings are
those of released models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.tokens import has_camera
from sightline.checks import number, whole_number
from sightline.encodings.frames import (
    attend_in_frames,
    projection,
    require_frame_layout,
    world_to_camera,
)
from sightline.encodings.protocol import AttentionState, Encoding, EncodingLayer, init_linear, linear
from sightline.errors import SightlineError

Branch = Literal["shared", "own"]

_NORM_EPS = 1e-6  # of Wan's QKNorm


@dataclass(frozen=True)
class Prope(Encoding):
    """Settings of PRoPE.

    branch: "shared" uses the pretrained query, key and value; "own" adds three projections.
    ratio: the model's width over the branch's, which has as many heads fewer; 1 is full width. For branch "own".
    qk_norm: whether query and key are normalised over all heads, with learned weights. For branch "own".
    whole_heads: whether all channels of a head are in the camera's frame, instead of half of them, and none rotate by position.
    lens: the fx / width and fy / height of every video, where the weights know one lens alone; None takes the trajectory's.
    """

    name: ClassVar[str] = "prope"

    branch: Branch = "shared"
    ratio: int = 1
    qk_norm: bool = False
    whole_heads: bool = False
    lens: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.branch not in ("shared", "own"):
            raise SightlineError(f"branch is {self.branch!r}: expected 'shared' or 'own'.")
        if whole_number("ratio", self.ratio) > 1 and self.branch != "own":
            raise SightlineError(f"ratio is {self.ratio}: expected 1 for branch {self.branch!r}, which has all heads.")
        if self.qk_norm and self.branch != "own":
            raise SightlineError(
                f"qk_norm is given: expected branch 'own', since {self.branch!r} takes normalised ones."
            )
        if self.lens is not None:
            lens = tuple(number("lens", value) for value in self.lens)
            if len(lens) != 2 or min(lens) <= 0:
                raise SightlineError(f"lens is {self.lens}: expected fx / width and fy / height, above 0.")
            object.__setattr__(self, "lens", lens)

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
    norm_q: Tensor  # [dim / ratio]
    norm_k: Tensor
    translation: Tensor  # [1]

    def __init__(self, settings: Prope, dim: int, heads: int) -> None:
        super().__init__()
        require_frame_layout(dim // heads, settings.whole_heads)
        if heads % settings.ratio:
            raise SightlineError(f"ratio is {settings.ratio}: expected a divisor of the model's {heads} heads.")
        width = dim // settings.ratio
        self.settings, self.heads, self.own = settings, heads // settings.ratio, settings.branch == "own"
        for name in ("q", "k", "v") if self.own else ():
            self.add_linear(name, width, dim)
        self.add_linear("out", dim, width)
        for name in ("norm_q", "norm_k") if settings.qk_norm else ():
            self.add_parameter(name, width)
        if isinstance(settings, Gta):
            self.add_parameter("translation", 1)
        self.reset_parameters()

    def init_weights(self) -> None:
        if self.own:
            for name in ("q", "k", "v"):
                init_linear(getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))
        for name in ("norm_q", "norm_k") if self.settings.qk_norm else ():
            getattr(self, name).fill_(1.0)
        self.out_weight.zero_()
        self.out_bias.zero_()
        if isinstance(self.settings, Gta):
            self.translation.fill_(self.settings.translation)

    def output(self, output: Tensor, state: AttentionState, camera_rows: Tensor) -> Tensor:
        query, key, value = self.project(state.hidden) if self.own else (state.query, state.key, state.value)
        frame, whole = self.frame(camera_rows), self.settings.whole_heads
        branch = attend_in_frames(query, key, value, *frame, camera_rows, state.attend, whole)
        return output + linear(branch.flatten(2), self.out_weight, self.out_bias) * has_camera(camera_rows)

    def project(self, hidden: Tensor) -> list[Tensor]:  # [B, N, dim] -> 3 x [B, N, H, D]
        weights = ((self.q_weight, self.q_bias), (self.k_weight, self.k_bias), (self.v_weight, self.v_bias))
        projected = [linear(hidden, weight, bias) for weight, bias in weights]
        if self.settings.qk_norm:
            projected[:2] = (_rms_norm(projected[0], self.norm_q), _rms_norm(projected[1], self.norm_k))
        return [x.unflatten(-1, (self.heads, -1)) for x in projected]

    def frame(self, camera_rows: Tensor) -> tuple[Tensor, Tensor]:  # [B, N, 90] -> M, M^-1, each [B, N, 4, 4]
        if not isinstance(self.settings, Gta):
            return projection(camera_rows, self.settings.lens)
        pose = world_to_camera(camera_rows)
        # (R, c t) is (R, t) in a world c times as large. It is a rigid motion, so a motion of the world still cancels.
        pose = se3.from_parts(pose[..., :3, :3], pose[..., :3, 3] * self.translation.to(pose.dtype))
        return pose, se3.inverse(pose)


def _rms_norm(x: Tensor, weight: Tensor) -> Tensor:  # [B, N, C], [C] -> [B, N, C]
    """Over all heads, as Wan's QKNorm."""
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    return F.rms_norm(precise, x.shape[-1:], eps=_NORM_EPS).type_as(x) * weight.to(x.dtype)
