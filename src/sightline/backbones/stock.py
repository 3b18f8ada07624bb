"""The stock Wan pipelines of diffusers, imported without transformers' warning about torchvision, which Wan2.2 does not use."""

from __future__ import annotations

from typing import TypeAlias

import transformers

from sightline.backbones.wan_configs import EXPERTS

_verbosity = transformers.logging.get_verbosity()
transformers.logging.set_verbosity_error()
try:
    from diffusers import WanImageToVideoPipeline, WanPipeline
finally:
    transformers.logging.set_verbosity(_verbosity)

AnyWanPipeline: TypeAlias = WanPipeline | WanImageToVideoPipeline

__all__ = ["EXPERTS", "AnyWanPipeline", "WanImageToVideoPipeline", "WanPipeline"]
