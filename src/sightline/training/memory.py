"""How much memory a run needs, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sightline.errors import SightlineError
from sightline.training.recipe import Recipe

GIB = 2**30


@dataclass(frozen=True)
class Estimate:
    """Bytes on each device."""

    weights: int
    gradients: int
    optimiser: int
    average: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.average + self.activations


def estimate(model: Any, recipe: Recipe, tokens: int, processes: int) -> Estimate:
    """Float32 master weights, gradients and AdamW's two moments; activations by what each block keeps for its backward.

    A block keeps its input alone with gradient checkpointing (and everything of the one block in work), else
    everything: measured at about 34 numbers per token and channel for a Wan block under autocast.
    """
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    everything = sum(p.numel() for p in model.parameters())
    sharded = processes if recipe.parallel == "fsdp2" else 1
    config = model.config
    width, layers = config.num_attention_heads * config.attention_head_dim, config.num_layers
    number_bytes = 2 if recipe.precision == "bf16" else 4
    per_block = tokens * recipe.optimiser.micro_batch * (34 * width + 2 * config.ffn_dim) * number_bytes
    inputs = tokens * recipe.optimiser.micro_batch * width * number_bytes * layers
    activations = inputs + per_block if recipe.model.gradient_checkpointing else per_block * layers
    # Autocast keeps a bf16 copy of the weights it has met in a forward pass.
    copies = everything * 2 if recipe.precision == "bf16" else 0
    return Estimate(
        weights=(everything * 4) // sharded + copies,
        gradients=trained * 4 // sharded,
        optimiser=trained * 8 // sharded,
        average=trained * 4 // sharded if recipe.optimiser.ema is not None else 0,
        activations=activations,
    )


def require_fit(found: Estimate, recipe: Recipe, device: torch.device) -> str:
    """One line of numbers; where the device cannot hold them, one sentence that says what to change."""
    parts = {"weights": found.weights, "gradients": found.gradients, "optimiser": found.optimiser}
    parts |= {"average": found.average, "activations": found.activations}
    line = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items() if size)
    line = f"memory per device, estimated: {found.total / GIB:.1f} GiB ({line})"
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if found.total > free + torch.cuda.memory_allocated(device):
            advice = []
            if not recipe.model.gradient_checkpointing:
                advice.append("model.gradient_checkpointing: true")
            if recipe.optimiser.micro_batch > 1:
                advice.append("optimiser.micro_batch: 1")
            if recipe.parallel != "fsdp2":
                advice.append("parallel: fsdp2 over more GPUs")
            if recipe.model.train != "lora":
                advice.append("model.train: lora")
            raise SightlineError(
                f"the run needs about {found.total / GIB:.0f} GiB per device and {free / GIB:.0f} are free: "
                f"try {', or '.join(advice)}."
            )
    return line
