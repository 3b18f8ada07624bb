"""AdamW, its learning rate at every step, and the clipping of gradients."""

from __future__ import annotations

import math
import time

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sightline.backbones.wan import ENCODING_KEY
from sightline.training.recipe import OptimizerConfig


def make_optimizer(trainable: dict[str, nn.Parameter], config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW over two groups: the pretrained parameters, and the encoding's own, whose learning rate has a scale."""
    groups = [
        {"params": [p for name, p in trainable.items() if ENCODING_KEY not in name], "lr_scale": 1.0},
        {
            "params": [p for name, p in trainable.items() if ENCODING_KEY in name],
            "lr_scale": config.encoding_lr_scale,
        },
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=config.weight_decay,
    )


def set_learning_rate(
    optimizer: torch.optim.Optimizer, config: OptimizerConfig, step: int, time_fraction: float = 0.0
) -> float:
    """Set the learning rate of this step and return it; the encoding's group gets `encoding_lr_scale` times that.

    Linear warm-up over `warmup_steps`, then a cosine from `learning_rate` down to `min_lr_ratio` of it at `max_steps`. It
    depends on the step alone, except in a run limited by `max_seconds`, where the cosine also follows the clock.
    time_fraction: the fraction of `max_seconds` that is over.
    """
    if step < config.warmup_steps:
        factor = (step + 1) / config.warmup_steps
    else:
        step_fraction = (step - config.warmup_steps) / max(config.max_steps - config.warmup_steps, 1)
        progress = max(step_fraction, min(time_fraction, 1.0))
        factor = config.min_lr_ratio + (1 - config.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * progress))
    learning_rate = config.learning_rate * factor
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["lr_scale"]
    return learning_rate


def clip_gradients(trainable: dict[str, nn.Parameter], max_grad_norm: float) -> Tensor:
    """Scale the gradients down to at most this norm; returns the norm that they had."""
    norm = nn.utils.clip_grad_norm_(trainable.values(), max_grad_norm)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


class Clock:
    """The fraction of `max_seconds` that is over. It starts with the second step, because the first one may compile."""

    def __init__(self, max_seconds: float | None, accelerator: Accelerator) -> None:
        self.max_seconds, self.accelerator = max_seconds, accelerator
        self.num_steps, self.started = 0, 0.0

    def start_step(self) -> float:
        """Call this at the start of every step; returns the fraction, the same in every process, or 0 without a limit."""
        if self.max_seconds is None:
            return 0.0
        self.num_steps += 1
        if self.num_steps == 2:
            self.started = time.perf_counter()
        fraction = (time.perf_counter() - self.started) / self.max_seconds if self.num_steps > 1 else 0.0
        return float(self.accelerator.reduce(torch.tensor(fraction, device=self.accelerator.device), "mean"))
