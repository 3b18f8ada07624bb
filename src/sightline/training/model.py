"""The pipeline that a run starts from, and the model that it trains."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sightline.backbones.accelerate import accelerate
from sightline.backbones.camera_weights import load_camera
from sightline.backbones.pipelines import load_pipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.encodings import encoding_from_config
from sightline.errors import SightlineError
from sightline.training.recipe import ModelConfig


def load_base(config: ModelConfig) -> Any:
    """The pipeline that a run starts from, in float32: its transformer is trained, its other parts encode and decode."""
    pipe = load_pipeline(config.base, dtype=torch.float32, device="cpu")
    if getattr(pipe, config.component, None) is None:
        raise SightlineError(f"model.component is {config.component!r}: {config.base} has no such part.")
    return pipe


def build_model(pipe: Any, config: ModelConfig) -> nn.Module:
    """The transformer to train, taken out of the pipeline, with its camera encoding if the recipe has one."""
    model = getattr(pipe, config.component)
    encoding = None if config.encoding is None else encoding_from_config(config.encoding)
    if config.camera is not None:
        # Runs that leave the backbone alone are exported as camera weights again, so LoRA must stay apart from the weights.
        keep_lora = config.trainable in ("lora", "encoding")
        model = load_camera(model, config.camera, config.component, copy=False, keep_lora=keep_lora)
    elif encoding is not None and not isinstance(model, CameraWanTransformer3DModel):
        model = CameraWanTransformer3DModel.from_transformer(model, encoding, copy=False)
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
