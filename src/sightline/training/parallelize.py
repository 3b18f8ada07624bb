"""A model on several processes: a copy in each (DDP), or sharded weights (FSDP2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from sightline.backbones.models import blocks_of
from sightline.errors import SightlineError
from sightline.training.recipe import OptimizerConfig, Parallel
from sightline.training.shards import load_shards

# No input is rounded on the way into a sharded module: timesteps, rays and RoPE tables must stay float32.
_FLOAT32 = MixedPrecisionPolicy(cast_forward_inputs=False)


def parallelize(
    model: nn.Module, parallel: Parallel, num_processes: int, device: torch.device, weights: Path | None = None
) -> nn.Module:
    """Move the model to the device and return what this process calls: the model itself, sharded in place where there are
    several processes and `parallel` is fsdp2; or a DDP wrapper.

    weights: the folder with the weights of a model that is on the meta device. Each process reads only its own shards.
    """
    if not is_sharded(parallel, num_processes):
        model.to(device)
        if num_processes == 1:
            return model
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    if weights is None:
        model.to(device)
    missing = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    for block in blocks_of(model):
        if hasattr(block.attn1, "camera_encoding"):
            fully_shard(block.attn1.camera_encoding, mp_policy=_FLOAT32)
        fully_shard(block, mp_policy=_FLOAT32)
    fully_shard(model, mp_policy=_FLOAT32)
    if weights is not None:
        model._apply(lambda tensor: torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.to(device))
        parameters = dict(model.named_parameters())
        load_shards(weights, {name: parameters[name].detach() for name in missing})
    return model


def is_sharded(parallel: Parallel, num_processes: int) -> bool:
    """Whether each process holds only a part of the weights, so that every process must take part in every pass."""
    return parallel == "fsdp2" and num_processes > 1


def set_gradient_sync(model: Any, enabled: bool) -> None:
    """Whether the next backward pass exchanges gradients between processes: only that of a step's last micro-batch does."""
    if isinstance(model, DistributedDataParallel):
        model.require_backward_grad_sync = enabled
    elif hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(enabled)


def micro_batch_slices(config: OptimizerConfig, rank: int, num_processes: int) -> list[slice]:
    """The slices of a step's clips that are this process's micro-batches, in order."""
    per_round = config.micro_batch_size * num_processes
    if config.batch_size % per_round:
        raise SightlineError(
            f"optimizer.batch_size is {config.batch_size}: expected a multiple of micro_batch_size x processes = "
            f"{config.micro_batch_size} x {num_processes}."
        )
    starts = range(rank * config.micro_batch_size, config.batch_size, per_round)
    return [slice(start, start + config.micro_batch_size) for start in starts]
