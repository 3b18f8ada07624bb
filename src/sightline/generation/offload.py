"""Offloading of groups of layers: weights wait in main memory, and while one group computes, the next one is copied."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.hooks import HookRegistry, apply_group_offloading
from diffusers.hooks.group_offloading import _GROUP_OFFLOADING
from torch import nn

from sightline.backbones.stock import AnyPipeline, experts


def offload_groups(pipe: AnyPipeline, device: torch.device) -> None:
    """Keep a pipeline's weights in pinned main memory and copy them to the device on a stream of their own.

    Transformers move block by block: there are few copies, and a compiler sees whole blocks. What they have beside the blocks
    stays on the device once it is there. All else moves layer by layer, since the blocks of text encoders and VAEs lie too deep
    for diffusers to find.
    """
    # Without record_stream, the next copy waits for the block that computes, so that at most two blocks are on the device. With
    # it, copies run ahead wherever they are faster than the computation.
    overlapped: dict[str, Any] = {"onload_device": device, "use_stream": True, "record_stream": False}
    transformers = experts(pipe)
    for name, part in pipe.components.items():
        if name in transformers and _starts_with_its_blocks(part):
            part.enable_group_offload(offload_type="block_level", num_blocks_per_group=1, **overlapped)
            _keep_beside(part)
        elif isinstance(part, nn.Module):
            apply_group_offloading(part, offload_type="leaf_level", **overlapped)


def _keep_beside(model: Any) -> None:
    """Let the embeddings and the output layer of a transformer stay. diffusers would copy them to the device and back in every
    pass, through memory that is not pinned and while nothing is computed; they are a fiftieth of the model."""
    HookRegistry.check_if_exists_or_initialize(model).get_hook(_GROUP_OFFLOADING).group.offload_leader = None


def _starts_with_its_blocks(model: Any) -> bool:
    """Whether no layer of a block is called before the block itself, whose weights are not there yet."""
    return not any("embed" in layer.stages for layer in getattr(model, "encoding_layers", ())[:1])
