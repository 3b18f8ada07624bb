"""An estimate of the memory that a run needs on each device, made before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sightline.errors import SightlineError
from sightline.memory import GIB, available_memory
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
    """Bytes on each device. The parts are not all needed at the same time: `total` is the peak of a step or a validation."""

    weights: int
    gradients: int
    optimizer: int  # AdamW's two moments
    ema: int
    copies: int  # bfloat16 copies of weights, which autocast keeps until the forward pass is over
    inputs: int  # what all blocks keep from the forward to the backward pass
    block: int  # what the block that is being computed needs
    accumulates: bool  # whether gradients of earlier micro-batches are held during the passes
    other_experts: int = 0  # those that are on the device only while validation videos are generated

    @property
    def forward(self) -> int:
        return self.copies + self.inputs + (self.gradients if self.accumulates else 0)

    @property
    def backward(self) -> int:
        # Without accumulation, gradients are made at the pace at which the blocks' inputs are freed.
        held = self.inputs + self.gradients if self.accumulates else max(self.inputs, self.gradients)
        return held + self.block

    @property
    def update(self) -> int:
        return 2 * self.gradients  # AdamW computes the square roots of all second moments at once

    @property
    def step(self) -> int:
        return max(self.forward, self.backward, self.update)

    @property
    def validation(self) -> int:
        return self.other_experts + self.block

    @property
    def total(self) -> int:
        return self.weights + self.optimizer + self.ema + max(self.step, self.validation)


def estimate(model: Any, recipe: Recipe, tokens: int, processes: int, other_experts: int = 0) -> Estimate:
    """Float32 master weights, gradients and AdamW's two moments, and the activations that blocks keep for the backward pass.

    other_experts: those of the size of the model that validation needs beside it, in the recipe's dtype. Sharded ones stay on
    the devices; a copy only visits its device while no activations and gradients are there.

    With gradient checkpointing, a block keeps its input only, and one block at a time needs everything.
    """
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    everything = sum(p.numel() for p in model.parameters())
    sharded = processes if recipe.parallel == "fsdp2" else 1
    config = model.config
    width, layers = config.num_attention_heads * config.attention_head_dim, config.num_layers
    ffn_dim = config.get("ffn_dim", 4 * width)  # LTX-2 does not name it
    number_bytes = 2 if recipe.dtype == "bfloat16" else 4
    numbers = tokens * recipe.optimizer.micro_batch_size * number_bytes
    per_channel = _BLOCK + (_CAMERA if hasattr(model, "encoding_layers") else 0)
    if recipe.objective.image_to_video_prob > 0 and config.in_channels == config.out_channels:
        per_channel += _TIME_PER_TOKEN
    block_activations = numbers * (per_channel * width + _FFN * ffn_dim)
    block_gradients = numbers * _FFN_BACKWARD * ffn_dim
    checkpointing = recipe.model.gradient_checkpointing
    # Autocast keeps its copies of trained weights; those of frozen weights are kept only if a backward pass needs them.
    copied = trained if checkpointing else everything
    # FSDP2 gathers a block in full, and the next one during its computation. DDP exchanges gradients in buckets.
    gathered = 2 * 4 * everything // layers if sharded > 1 else 0
    buckets = trained * 4 if processes > 1 and sharded == 1 else 0
    others = other_experts * everything * number_bytes // sharded
    return Estimate(
        weights=everything * 4 // sharded + gathered + buckets + (others if sharded > 1 else 0),
        gradients=trained * 4 // sharded,
        optimizer=trained * 8 // sharded,
        ema=trained * 4 // sharded if recipe.optimizer.ema_decay is not None else 0,
        copies=copied * 2 if recipe.dtype == "bfloat16" else 0,
        inputs=numbers * width * layers if checkpointing else block_activations * layers,
        block=block_activations + block_gradients if checkpointing else block_gradients,
        accumulates=recipe.optimizer.batch_size > recipe.optimizer.micro_batch_size * processes,
        other_experts=others if sharded == 1 else 0,
    )


def require_fit(estimate: Estimate, recipe: Recipe, device: torch.device) -> str:
    """One line about the estimate; an error that says what to change if the device has less memory."""
    parts = {"weights": estimate.weights, "gradients": estimate.gradients, "optimizer": estimate.optimizer}
    parts |= {"EMA": estimate.ema, "activations": estimate.inputs + estimate.block}
    parts["other expert while validating"] = estimate.other_experts
    line = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items() if size)
    line = f"memory per device, estimated: at most {estimate.total / GIB:.1f} GiB at a time ({line})"
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # Before the model is on the device: what is allocated there are encoders and latents, which stay.
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        if estimate.total > free:
            advice = []
            if not recipe.model.gradient_checkpointing:
                advice.append("model.gradient_checkpointing: true")
            if recipe.optimizer.micro_batch_size > 1:
                advice.append("optimizer.micro_batch_size: 1")
            if recipe.parallel != "fsdp2":
                advice.append("parallel: fsdp2 over more GPUs")
            if recipe.model.trainable != "lora":
                advice.append("model.trainable: lora")
            if estimate.validation > estimate.step:
                advice.append("validation.num_videos: 0")
            raise SightlineError(
                f"the run needs about {estimate.total / GIB:.0f} GiB per device and {free / GIB:.0f} are free: "
                f"try {', or '.join(advice)}."
            )
    needed, available = (
        estimate.total - estimate.weights,
        available_memory(),
    )  # on a CPU, the weights are in memory already
    if device.type == "cpu" and needed > available:
        raise SightlineError(
            f"the run needs about {needed / GIB:.0f} GiB of memory beside its weights and {available / GIB:.0f} are free: "
            "expected smaller or shorter clips, optimizer.micro_batch_size: 1, or model.gradient_checkpointing: true."
        )
    return line
