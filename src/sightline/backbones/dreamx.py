"""DreamX-World-5B-Cam: Wan2.2-TI2V-5B with a PRoPE branch beside every self-attention.

The branch has projections and QKNorm of its own, and all channels of its heads are in the camera's frame. The release tells the
model one lens in every video, so a trajectory's focal length has no effect on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.backbones.released_model import ReleasedModel
from sightline.backbones.wan_names import Shapes, diffusers_name
from sightline.encodings.prope import Prope
from sightline.errors import SightlineError

_LENS = (969.6969696969696 / 1920, 969.6969696969696 / 1080)  # fx / width and fy / height, as the release states them
_NAMES = {
    **{f"{part}_proj.{kind}": f"{part}_{kind}" for part in ("q", "k", "v", "out") for kind in ("weight", "bias")},
    "norm_q.weight": "norm_q",
    "norm_k.weight": "norm_k",
}


@dataclass(frozen=True)
class DreamX(ReleasedModel):
    """DreamX-World-5B-Cam, the bidirectional model. The autoregressive DreamX-World-5B is another one."""

    family = "DreamX-World-5B-Cam"
    marker = "blocks.0.cam_self_attn.q_proj.weight"

    @property
    def base(self) -> str:
        return "Wan-AI/Wan2.2-TI2V-5B-Diffusers"

    @classmethod
    def encoding(cls, source: Path, shapes: Shapes, config: Mapping[str, Any]) -> Prope:
        dim, heads, branch = shapes["patch_embedding.weight"][0], config["num_attention_heads"], shapes[cls.marker]
        ratio = dim // max(branch[0], 1)
        if len(branch) != 2 or ratio < 1 or branch != (dim // ratio, dim) or heads % ratio:
            raise SightlineError(
                f"{source}: {cls.marker} has shape {branch}, expected a branch of whole heads of a model {dim} wide."
            )
        return Prope(branch="own", ratio=ratio, qk_norm=True, whole_heads=True, lens=_LENS)

    @staticmethod
    def target(name: str) -> str | None:
        match = re.fullmatch(r"(blocks\.\d+)\.cam_self_attn\.(.+)", name)
        if match is None:
            return diffusers_name(name)
        return None if match[2] not in _NAMES else f"{match[1]}{ENCODING_KEY}{_NAMES[match[2]]}"
