"""sl.accelerate: the fused kernels on or off in a Wan model, stock or with a camera, or in all models of a pipeline."""

from __future__ import annotations

import logging
from typing import Any, TypeVar

from diffusers import WanTransformer3DModel
from diffusers.models.transformers import transformer_wan as wan
from torch import nn

from sightline.backbones import fused
from sightline.backbones.attention import CameraWanAttnProcessor
from sightline.backbones.stock import EXPERTS
from sightline.errors import SightlineError
from sightline.kernels import HAS_TRITON, why_not

_log = logging.getLogger("sightline")

# A module changes its class and nothing else: its parameters, names and hooks stay. (An attribute `forward` on the
# instance would make a compiler take every block for code of its own.)
_CLASSES: dict[type, type] = {
    wan.WanTransformerBlock: fused.WanTransformerBlock,
    wan.WanTimeTextImageEmbedding: fused.WanTimeTextImageEmbedding,
}
_PROCESSORS: tuple[type, ...] = (wan.WanAttnProcessor, CameraWanAttnProcessor)

Model = TypeVar("Model")


def accelerate(model: Model, enabled: bool = True) -> Model:
    """Turn the fused kernels on (or off) in place, and return the model.

    model: a WanTransformer3DModel, with a camera or without, or a pipeline that holds one or two.
    On, results differ from the eager path by rounding; off, they are its bits again. Call it before offloading, sharding or
    caching. Whatever the kernels cannot serve takes the eager path, and the log ("sightline") says why.
    """
    parts = [model] if isinstance(model, nn.Module) else [getattr(model, name, None) for name in EXPERTS]
    found = [part for part in parts if isinstance(part, WanTransformer3DModel)]
    if not found:
        raise SightlineError(
            f"model is a {type(model).__name__}: expected a WanTransformer3DModel or a pipeline that holds one."
        )
    for transformer in found:
        if enabled:
            _turn_on(transformer)
        else:
            _turn_off(transformer)
    return model


def is_accelerated(model: WanTransformer3DModel) -> bool:
    """Whether the kernels are on in this model (they may still find nothing that they can serve)."""
    return isinstance(model.blocks[0], fused.WanTransformerBlock)


def _turn_on(model: WanTransformer3DModel) -> None:
    if not HAS_TRITON:
        _log.info("The fused kernels stay off: triton is not installed.")
        return
    if (reason := why_not(model.device, model.dtype)) is not None:
        _log.info("The eager path runs for now: %s.", reason)  # a model may still be moved
    kept = set()
    for module in (model.condition_embedder, *model.blocks):
        if not _change_class(module, _CLASSES):
            kept.add(type(module).__name__)
    for block in model.blocks:
        if type(block.attn1.processor) in _PROCESSORS:
            _change_processor(block.attn1, fused.FusedWanAttnProcessor())
        elif not isinstance(block.attn1.processor, fused.FusedWanAttnProcessor):
            kept.add(type(block.attn1.processor).__name__)
    for name in sorted(kept):
        _log.info("%s keeps the eager path: expected diffusers' own, before offloading, sharding and caching.", name)
    camera = getattr(model.blocks[0].attn1, "camera", None)
    if camera is not None and not fused.can_fuse(camera):
        _log.info(
            "The camera of %s keeps the eager path in attention: only SCoPE in the paper's form is fused there.",
            type(camera).__name__,
        )


def _turn_off(model: WanTransformer3DModel) -> None:
    back = {new: old for old, new in _CLASSES.items()}
    for module in (model.condition_embedder, *model.blocks):
        _change_class(module, back)
    for block in model.blocks:
        attn = block.attn1
        if isinstance(attn.processor, fused.FusedWanAttnProcessor):
            _change_processor(attn, CameraWanAttnProcessor() if hasattr(attn, "camera") else wan.WanAttnProcessor())


def _change_class(module: nn.Module, classes: dict[type, type]) -> bool:
    """Whether the module is now of the class that is wanted."""
    # An instance's own `forward` is a hook's, and holds on to the old class's.
    if type(module) in classes and "forward" not in vars(module):
        module.__class__ = classes[type(module)]
    return type(module) in classes.values()


def _change_processor(attn: Any, processor: Any) -> None:
    vars(processor).update(vars(attn.processor))  # backend and context parallelism, where set
    attn.set_processor(processor)
