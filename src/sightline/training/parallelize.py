"""A model on several processes: a copy in each (DDP), or sharded weights (FSDP2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from sightline.errors import SightlineError
from sightline.training.recipe import OptimizerConfig, Parallel

# No input is rounded on the way into a sharded module: timesteps, rays and RoPE tables must stay float32.
_FLOAT32 = MixedPrecisionPolicy(cast_forward_inputs=False)


def parallelize(model: nn.Module, parallel: Parallel, num_processes: int, device: torch.device) -> nn.Module:
    """Move the model to the device and return what this process calls: the model itself, sharded in place where there are
    several processes and `parallel` is fsdp2; or a DDP wrapper."""
    model.to(device)
    if num_processes == 1:
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
