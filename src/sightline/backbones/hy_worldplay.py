"""HY-WorldPlay-5B: Wan2.2-TI2V-5B with a PRoPE branch on the pretrained query, key and value, and an embedded action.

Its tensors have diffusers' names. The release has them in a pickle, which has to be converted (docs/released.md).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffusers import WanTransformer3DModel

from sightline.backbones.camera_transformer import ENCODING_KEY
from sightline.backbones.hy_worldplay_model import HyWorldPlayTransformer3DModel
from sightline.backbones.hy_worldplay_pipeline import HyWorldPlayPipeline
from sightline.backbones.released_files import ReleasedWeights
from sightline.backbones.released_model import ReleasedModel
from sightline.backbones.wan_configs import HY_WORLDPLAY
from sightline.backbones.wan_names import Shapes
from sightline.documents import read_json
from sightline.encodings.prope import Prope
from sightline.errors import SightlineError

_PICKLE = Path("wan_distilled_model") / "model.pt"
_KNOWN = frozenset(inspect.signature(WanTransformer3DModel.__init__).parameters) - {"self"}


@dataclass(frozen=True)
class HyWorldPlay(ReleasedModel):
    """The distilled autoregressive model on Wan2.2-TI2V-5B."""

    family = "HY-WorldPlay-5B"
    marker = "condition_embedder.action_embedder.linear_1.weight"
    pipeline_class = HyWorldPlayPipeline
    transformer_class = HyWorldPlayTransformer3DModel

    @property
    def base(self) -> str:
        return "Wan-AI/Wan2.2-TI2V-5B-Diffusers"

    @classmethod
    def encoding(cls, source: Path, shapes: Shapes, config: Mapping[str, Any]) -> Prope:
        return Prope(branch="shared", whole_heads=True)

    @staticmethod
    def target(name: str) -> str | None:
        match = re.fullmatch(r"(blocks\.\d+)\.attn1\.to_out_prope\.0\.(weight|bias)", name)
        return name if match is None else f"{match[1]}{ENCODING_KEY}out_{match[2]}"

    @classmethod
    def _config(cls, weights: ReleasedWeights, component: str) -> dict[str, Any]:
        if weights.source.is_file():
            raise SightlineError(
                f"camera {weights.source} is one file of {cls.family}: expected its folder, with wan_transformer's config.json "
                "beside the weights."
            )
        released = read_json(weights.source / "config.json", f"that of {cls.family}")
        config = {name: value for name, value in released.items() if name in _KNOWN}
        encoding = cls.encoding(weights.source, weights.shapes, config).to_config()
        config |= {"_class_name": HY_WORLDPLAY, "encoding": encoding, "component": component, "image_dim": None}
        cls._require_fitting(weights.source, weights.shapes, config)
        return config


def require_converted(folder: Path) -> None:
    """Refuse the release's folders before their conversion: the camera is in a pickle alone."""
    for place in (folder, folder.parent):
        if (place / _PICKLE).is_file():
            raise SightlineError(
                f"camera {folder} is HY-WorldPlay, whose camera weights are in {place / _PICKLE}, a pickle, which can run code "
                "when it is loaded: expected a folder with the converted weights (docs/released.md says how)."
            )
