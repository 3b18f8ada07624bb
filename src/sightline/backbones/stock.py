"""The stock Wan pipelines of diffusers, imported without transformers' remark about torchvision, which Wan2.2 never uses."""

from __future__ import annotations

from typing import TypeAlias

import transformers

_verbosity = transformers.logging.get_verbosity()
transformers.logging.set_verbosity_error()
try:
    from diffusers import WanImageToVideoPipeline, WanPipeline
finally:
    transformers.logging.set_verbosity(_verbosity)

AnyWanPipeline: TypeAlias = WanPipeline | WanImageToVideoPipeline

EXPERTS = ("transformer", "transformer_2")  # high noise, and low noise where a model has two

__all__ = ["EXPERTS", "AnyWanPipeline", "WanImageToVideoPipeline", "WanPipeline"]
