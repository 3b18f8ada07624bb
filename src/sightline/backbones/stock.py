"""The stock Wan pipelines of diffusers, imported without transformers' warning about torchvision, which Wan2.2 does not use."""

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

EXPERTS = ("transformer", "transformer_2")  # of high noise, and of low noise where a model has two

__all__ = ["EXPERTS", "AnyWanPipeline", "WanImageToVideoPipeline", "WanPipeline"]
