"""The stock pipelines of diffusers, imported without transformers' warning about torchvision, which they do not need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
import transformers

from sightline.backbones.config_files import require_folder_or_id
from sightline.backbones.families import PIPELINES
from sightline.backbones.wan_configs import EXPERTS
from sightline.errors import LoadError, SightlineError
from sightline.files import reason

_verbosity = transformers.logging.get_verbosity()
transformers.logging.set_verbosity_error()
try:
    import diffusers
    from diffusers import DiffusionPipeline, WanImageToVideoPipeline, WanPipeline

    # Getting a class imports its module.
    STOCK_PIPELINES: dict[str, Any] = {name: getattr(diffusers, name) for name in PIPELINES}
finally:
    transformers.logging.set_verbosity(_verbosity)

AnyPipeline: TypeAlias = DiffusionPipeline  # one of STOCK_PIPELINES, or derived from one

# For every from_pretrained: other files of weights are pickles, and loading one can run code.
SAFETENSORS: dict[str, Any] = {"use_safetensors": True}

__all__ = [
    "EXPERTS",
    "SAFETENSORS",
    "STOCK_PIPELINES",
    "AnyPipeline",
    "WanImageToVideoPipeline",
    "WanPipeline",
    "expert_at",
    "experts",
    "lowest_sigma",
    "model_errors",
]


def experts(pipe: AnyPipeline) -> dict[str, Any]:
    """The transformers of a pipeline by the name of their component, without what torch.compile puts around them."""
    found = {name: getattr(pipe, name, None) for name in EXPERTS}
    return {name: getattr(model, "_orig_mod", model) for name, model in found.items() if model is not None}


def lowest_sigma(pipe: AnyPipeline, component: str) -> float:
    """The lowest noise level, from 0 to 1, at which an expert denoises: the boundary for the first of two, as in diffusers."""
    boundary = pipe.config.get("boundary_ratio")
    return 0.0 if boundary is None or len(experts(pipe)) == 1 or component == EXPERTS[1] else float(boundary)


def expert_at(pipe: AnyPipeline, sigma: float) -> str:
    """The component of the expert that denoises at a noise level from 0 to 1."""
    names = list(experts(pipe))
    return next((name for name in names if sigma >= lowest_sigma(pipe, name)), names[-1])


@contextmanager
def model_errors(model: str | Path) -> Iterator[None]:
    """What diffusers raises while it loads a model, in one sentence: no such folder or id, no network, a file of another kind,
    or any damage to configurations and weights."""
    require_folder_or_id(model)
    try:
        yield
    except (SightlineError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        kind = LoadError if isinstance(error, OSError) else SightlineError
        raise kind(f"model {str(model)!r} cannot be loaded ({reason(error)}): expected a hub id or a folder.") from None
