"""How much memory a run needs, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sightline.errors import SightlineError
from sightline.generation.memory import GIB
from sightline.training.recipe import Recipe

# Numbers that a Wan block keeps for its backward pass, per token and per channel of its width, in autocast's dtype.
# tests/training/test_memory.py counts them on a small block.
_BLOCK = 32
_CAMERA = 20  # an encoding works in float32, which counts twice
_TIME_PER_TOKEN = 16  # TI2V with its first frame given: modulation for every token instead of every clip
_FFN = 2  # per channel of the feed-forward's hidden width
_FFN_BACKWARD = 4  # of gradients, while the backward pass goes through it


@dataclass(frozen=True)
class Estimate:
    """Bytes on each device. The parts are not all there at once: `total` is the most of any moment of a step."""

    weights: int
    gradients: int
    optimizer: int  # AdamW's two moments
    average: int
    copies: int  # of weights in bf16, which autocast keeps until the forward pass is over
    inputs: int  # what blocks keep between the passes
    block: int  # what the block in work needs
    accumulates: bool  # gradients of earlier micro-batches wait during the passes

    @property
    def forward(self) -> int:
        return self.copies + self.inputs + (self.gradients if self.accumulates else 0)

    @property
    def backward(self) -> int:
        # Otherwise gradients come as fast as the blocks' inputs go.
        held = self.inputs + self.gradients if self.accumulates else max(self.inputs, self.gradients)
        return held + self.block

    @property
    def update(self) -> int:
        return 2 * self.gradients  # AdamW takes the roots of all second moments in one go

    @property
    def total(self) -> int:
        return self.weights + self.optimizer + self.average + max(self.forward, self.backward, self.update)


def estimate(model: Any, recipe: Recipe, tokens: int, processes: int) -> Estimate:
    """Float32 master weights, gradients and AdamW's two moments; activations by what each block keeps for its backward.

    With gradient checkpointing a block keeps its input alone, and everything is there for the one block in work.
    """
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    everything = sum(p.numel() for p in model.parameters())
    sharded = processes if recipe.parallel == "fsdp2" else 1
    config = model.config
    width, layers = config.num_attention_heads * config.attention_head_dim, config.num_layers
    number_bytes = 2 if recipe.dtype == "bfloat16" else 4
    numbers = tokens * recipe.optimizer.micro_batch_size * number_bytes
    per_channel = _BLOCK + (_CAMERA if hasattr(model, "encoding_layers") else 0)
    if recipe.objective.image_to_video_prob > 0 and config.in_channels == config.out_channels:
        per_channel += _TIME_PER_TOKEN
    kept = numbers * (per_channel * width + _FFN * config.ffn_dim)
    in_work = numbers * _FFN_BACKWARD * config.ffn_dim
    checkpointing = recipe.model.gradient_checkpointing
    # Autocast remembers its copies of trained weights; those of frozen ones stay only where a backward pass needs them.
    copied = trained if checkpointing else everything
    # A sharded block is gathered whole, and the next one while it is in work. Copies (ddp) exchange gradients in buckets.
    gathered = 2 * 4 * everything // layers if sharded > 1 else 0
    buckets = trained * 4 if processes > 1 and sharded == 1 else 0
    return Estimate(
        weights=everything * 4 // sharded + gathered + buckets,
        gradients=trained * 4 // sharded,
        optimizer=trained * 8 // sharded,
        average=trained * 4 // sharded if recipe.optimizer.ema_decay is not None else 0,
        copies=copied * 2 if recipe.dtype == "bfloat16" else 0,
        inputs=numbers * width * layers if checkpointing else kept * layers,
        block=kept + in_work if checkpointing else in_work,
        accumulates=recipe.optimizer.batch_size > recipe.optimizer.micro_batch_size * processes,
    )


def require_fit(found: Estimate, recipe: Recipe, device: torch.device) -> str:
    """One line of numbers; where the device cannot hold them, one sentence that says what to change."""
    parts = {"weights": found.weights, "gradients": found.gradients, "optimizer": found.optimizer}
    parts |= {"average": found.average, "activations": found.inputs + found.block}
    line = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items() if size)
    line = f"memory per device, estimated: at most {found.total / GIB:.1f} GiB at a time ({line})"
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if found.total > free + torch.cuda.memory_allocated(device):
            advice = []
            if not recipe.model.gradient_checkpointing:
                advice.append("model.gradient_checkpointing: true")
            if recipe.optimizer.micro_batch_size > 1:
                advice.append("optimizer.micro_batch_size: 1")
            if recipe.parallel != "fsdp2":
                advice.append("parallel: fsdp2 over more GPUs")
            if recipe.model.trainable != "lora":
                advice.append("model.trainable: lora")
            raise SightlineError(
                f"the run needs about {found.total / GIB:.0f} GiB per device and {free / GIB:.0f} are free: "
                f"try {', or '.join(advice)}."
            )
    return line
