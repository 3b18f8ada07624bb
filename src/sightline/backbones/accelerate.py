"""`sl.accelerate`: turn the fused kernels on or off in a Wan model, with or without a camera, or in all of a pipeline."""

from __future__ import annotations

import copy
import logging
from typing import Any, TypeVar

import torch
from diffusers import WanTransformer3DModel
from diffusers.models.transformers import transformer_wan as wan
from torch import nn

from sightline.backbones import fused
from sightline.backbones.attention import CameraWanAttnProcessor
from sightline.backbones.stock import EXPERTS
from sightline.errors import SightlineError
from sightline.kernels import HAS_TRITON, MAX_FEATURES, why_not

_log = logging.getLogger("sightline")

# A module changes its class and nothing else: its parameters, names and hooks stay. (With a `forward` set on the instance,
# a compiler would compile every block separately.)
_CLASSES: dict[type, type] = {
    wan.WanTransformerBlock: fused.WanTransformerBlock,
    wan.WanTimeTextImageEmbedding: fused.WanTimeTextImageEmbedding,
}
_PROCESSORS: tuple[type, ...] = (wan.WanAttnProcessor, CameraWanAttnProcessor)

Model = TypeVar("Model")


def accelerate(model: Model, enabled: bool = True, *, device: torch.device | None = None) -> Model:
    """Turn the fused kernels on (or off) in place, and return the model.

    model: a WanTransformer3DModel, with a camera or without, or a pipeline that holds one or two.
    device: where it is going to compute, if that is not where its weights are now, as with offloading.
    With the kernels on, results differ from the eager path by rounding; off, they are bit-identical to it again. Call this
    before offloading, sharding or caching. Layers that the kernels cannot serve take the eager path, and the logger
    "sightline" says why.
    """
    parts = [model] if isinstance(model, nn.Module) else [getattr(model, name, None) for name in EXPERTS]
    transformers = [part for part in parts if isinstance(part, WanTransformer3DModel)]
    if not transformers:
        raise SightlineError(
            f"model is a {type(model).__name__}: expected a WanTransformer3DModel or a pipeline that holds one."
        )
    for transformer in transformers:
        if enabled:
            _turn_on(transformer, device or transformer.device)
        else:
            _turn_off(transformer)
    return model


def _turn_on(model: WanTransformer3DModel, device: torch.device) -> None:
    if not HAS_TRITON:
        _log.info("The fused kernels stay off: triton is not installed.")
        return
    if (reason := why_not(device, model.dtype)) is not None:
        _log.info("The eager path runs for now: %s.", reason)  # a model may still be moved
    unchanged = set()
    _register_for_caches()
    for module in (model.condition_embedder, *model.blocks):
        if not _change_class(module, _CLASSES):
            unchanged.add(type(module).__name__)
    for block in model.blocks:
        if type(block.attn1.processor) in _PROCESSORS:
            _change_processor(block.attn1, fused.FusedWanAttnProcessor())
        elif not isinstance(block.attn1.processor, fused.FusedWanAttnProcessor):
            unchanged.add(type(block.attn1.processor).__name__)
    for name in sorted(unchanged):
        _log.info("%s keeps the eager path: expected diffusers' own, before offloading, sharding and caching.", name)
    layer = getattr(model.blocks[0].attn1, "camera_encoding", None)
    if layer is not None and not fused.can_fuse(layer):
        _log.info(
            "The camera of %s keeps the eager path in attention: only SCoPE in the paper's form and Sweep with one projection "
            f"and at most {MAX_FEATURES} features are fused there.",
            type(layer).__name__,
        )


def _turn_off(model: WanTransformer3DModel) -> None:
    stock_classes = {fused_class: stock_class for stock_class, fused_class in _CLASSES.items()}
    modules = (model.condition_embedder, *model.blocks)
    if any(type(module) in stock_classes and _has_hook(module) for module in modules):
        raise SightlineError(
            "model has hooks of offloading, sharding or caching, which hold on to the fused path: expected "
            "accelerate(model, enabled=False) before them, or once they are removed."
        )
    for module in modules:
        _change_class(module, stock_classes)
    for block in model.blocks:
        attn = block.attn1
        if isinstance(attn.processor, fused.FusedWanAttnProcessor):
            _change_processor(
                attn, CameraWanAttnProcessor() if hasattr(attn, "camera_encoding") else wan.WanAttnProcessor()
            )


def _change_class(module: nn.Module, classes: dict[type, type]) -> bool:
    """Change the module's class by this table, if nothing hooks its forward. Returns whether it has one of the new classes."""
    if type(module) in classes and not _has_hook(module):
        module.__class__ = classes[type(module)]
    return type(module) in classes.values()


def _has_hook(module: nn.Module) -> bool:
    return "forward" in vars(module)  # set by a hook, which calls the forward of the module's old class


def _register_for_caches() -> None:
    """Register the fused block in diffusers, whose block-skipping caches look up what a class returns: as its parent does."""
    try:
        from diffusers.hooks._helpers import TransformerBlockRegistry
    except ImportError:  # another diffusers: such caches refuse the fused block themselves
        return
    metadata = copy.copy(TransformerBlockRegistry.get(wan.WanTransformerBlock))
    TransformerBlockRegistry.register(fused.WanTransformerBlock, metadata)


def _change_processor(attn: Any, processor: Any) -> None:
    vars(processor).update(vars(attn.processor))  # the attention backend and context parallelism, where they are set
    attn.set_processor(processor)
