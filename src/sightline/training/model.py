"""The transformer that a run starts from, and the model that it trains."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn

from sightline.backbones import shipped
from sightline.backbones.accelerate import accelerate
from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.camera_weights import load_camera
from sightline.backbones.families import SKYREELS_V2_DF, VACE
from sightline.backbones.models import add_camera
from sightline.backbones.pipelines import (
    empty_transformer,
    family_of_model,
    is_packed,
    load_transformer,
    pipeline_config,
    transformer_config,
)
from sightline.backbones.stock import EXPERTS
from sightline.backbones.weights_digest import files_digest, weights_digest
from sightline.encodings import encoding_from_config
from sightline.errors import SightlineError
from sightline.training.recipe import ModelConfig, ObjectiveConfig

_log = logging.getLogger("sightline")


@dataclass(frozen=True, eq=False)
class Base:
    """The transformer that a run starts from, without the rest of its pipeline."""

    transformer: Any  # in float32 on the CPU; or, with `weights`, on the meta device
    digest: str
    weights: Path | None = None  # the folder from which a process reads its shards


def load_base(config: ModelConfig, sharded: bool = False) -> Base:
    """Load the transformer that a run starts from.

    sharded: leave its weights on disk, so that each process reads only its own shards of them (see parallelize). Camera
    weights and LoRA are added to a model that is in memory, the miniatures are in no file, and packed weights are read whole.
    """
    _require_trainable(config)
    in_memory = config.camera is not None or config.trainable == "lora" or config.base.startswith("tiny:")
    if sharded and not in_memory and not is_packed(config.base, config.component):
        transformer, folder = empty_transformer(config.base, config.component)
        return Base(transformer, _on_main_process(folder), folder)
    transformer = load_transformer(config.base, config.component)
    return Base(transformer, weights_digest(transformer))


def _require_trainable(config: ModelConfig) -> None:
    """Refuse, before weights are read, a model whose transformer takes more than latents, text and a camera."""
    family = family_of_model(config.base)
    reason = None
    if family is VACE:
        reason = "its control video"
    elif family is SKYREELS_V2_DF:
        reason = "a timestep of its own for each latent frame"
    elif transformer_config(config.base, config.component).get("image_dim") is not None:
        reason = "the embedding of its image encoder"
    if reason is not None:
        raise SightlineError(
            f"model.base is {config.base!r}, whose transformer also takes {reason}: expected a model that trains with latents "
            "and text alone (docs/backbones.md)."
        )


def warn_of_other_experts_noise(config: ModelConfig, objective: ObjectiveConfig) -> None:
    """Log noise levels at which a pipeline of two experts never calls the one that is trained."""
    boundary = pipeline_config(config.base).get("boundary_ratio")
    if boundary is None:
        return
    low, high = (boundary, 1.0) if config.component == EXPERTS[0] else (0.0, boundary)
    if objective.sigma_min < low or objective.sigma_max > high:
        _log.warning(
            "objective.sigma_min and sigma_max are %g and %g, but %s of %s is only used from %g to %g",
            *(objective.sigma_min, objective.sigma_max, config.component, config.base, low, high),
        )


def _on_main_process(folder: Path) -> str:
    """The digest of a folder's weights. One process reads them all and tells the others."""
    digest = [files_digest(folder) if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(digest, src=0)
    return digest[0]


def build_model(base: Any, config: ModelConfig) -> nn.Module:
    """The model to train: the base with its camera encoding, if the recipe has one."""
    model = base
    encoding = None if config.encoding is None else encoding_from_config(config.encoding)
    if config.camera is not None:
        # Runs that leave the backbone alone are exported as camera weights again, so LoRA must stay apart from the weights.
        keep_lora = config.trainable in ("lora", "encoding")
        camera = shipped.camera() if config.camera == "lab" else config.camera
        model = load_camera(model, camera, config.component, copy=False, keep_lora=keep_lora)
    elif encoding is not None and not isinstance(model, CameraTransformer):
        model = add_camera(model, encoding, copy=False)
    if encoding is not None and not model.encoding.computes_as(encoding):
        where = "model.camera" if config.camera is not None else "model.base"
        raise SightlineError(f"model.encoding is {encoding}: {where} carries {model.encoding}; leave one of them out.")
    if config.gradient_checkpointing:
        model.enable_gradient_checkpointing()
    if config.fused:
        accelerate(model)
    if config.compile:
        # One compilation per shape of the clips: a recipe has few, and code for any shape would be slower.
        model.compile_repeated_blocks(fullgraph=True, dynamic=False)
    return model.train()
