"""What a run is made of: the pipeline it starts from, the model it trains, and how processes share it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from sightline.backbones.accelerate import accelerate
from sightline.backbones.camera_weights import load_camera
from sightline.backbones.pipelines import load_pipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.encodings import encoding_from_config
from sightline.errors import SightlineError
from sightline.training.recipe import ModelConfig, Parallel

# No input is rounded on the way into a sharded module: timesteps, rays and RoPE tables must stay float32.
_FLOAT32 = MixedPrecisionPolicy(cast_forward_inputs=False)


def load_base(settings: ModelConfig) -> Any:
    """The pipeline a run starts from, in float32: its transformer is trained, its other parts encode and decode."""
    pipe = load_pipeline(settings.base, dtype=torch.float32, device="cpu")
    if getattr(pipe, settings.component, None) is None:
        raise SightlineError(f"model.component is {settings.component!r}: {settings.base} has no such part.")
    return pipe


def build_model(pipe: Any, settings: ModelConfig) -> nn.Module:
    """The transformer to train, taken out of the pipeline, with its camera where the recipe asks for one."""
    model = getattr(pipe, settings.component)
    wanted = None if settings.encoding is None else encoding_from_config(settings.encoding)
    if settings.camera is not None:
        # Sets that leave the backbone alone are saved as a camera file again, so its LoRA must stay apart from the weights.
        keep = settings.trainable in ("lora", "encoding")
        model = load_camera(model, settings.camera, settings.component, copy=False, keep_lora=keep)
    elif wanted is not None and not isinstance(model, CameraWanTransformer3DModel):
        model = CameraWanTransformer3DModel.from_transformer(model, wanted, copy=False)
    if wanted is not None and not model.encoding.computes_as(wanted):
        where = "model.camera" if settings.camera is not None else "model.base"
        raise SightlineError(f"model.encoding is {wanted}: {where} carries {model.encoding}; leave one of them out.")
    if settings.gradient_checkpointing:
        model.enable_gradient_checkpointing()
    if settings.fused:
        accelerate(model)
    if settings.compile:
        model.compile_repeated_blocks(fullgraph=True)
    return model.train()


def share(model: nn.Module, parallel: Parallel, processes: int, device: torch.device) -> nn.Module:
    """The model as this process runs it: alone, as one of several copies, or sharded in place."""
    model.to(device)
    if processes == 1:
        return model
    if parallel == "ddp":
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    blocks: Any = model.blocks
    for block in blocks:
        if hasattr(block.attn1, "camera_encoding"):
            fully_shard(block.attn1.camera_encoding, mp_policy=_FLOAT32)
        fully_shard(block, mp_policy=_FLOAT32)
    fully_shard(model, mp_policy=_FLOAT32)
    return model


def set_sync(model: Any, last: bool) -> None:
    """Gradients of accumulated micro-batches are exchanged once, with the last."""
    if isinstance(model, DistributedDataParallel):
        model.require_backward_grad_sync = last
    elif hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(last)
