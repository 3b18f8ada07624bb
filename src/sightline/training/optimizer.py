"""The optimizer, its learning rate at every step, the clipping of gradients, and the time that a run has taken."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.training.muon import MuonAdamW
from sightline.training.recipe import OptimizerConfig


def make_optimizer(trainable: dict[str, nn.Parameter], config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW, or Muon with AdamW, over up to three groups: the blocks' matrices for Muon, the other pretrained parameters, and
    the encoding's own, whose learning rate has a scale."""
    groups: dict[str, dict[str, Any]] = {
        "matrices": {"params": [], "lr_scale": 1.0, "muon": True},
        "others": {"params": [], "lr_scale": 1.0, "muon": False},
        "encoding": {"params": [], "lr_scale": config.encoding_lr_scale, "muon": False},
    }
    for name, parameter in trainable.items():
        is_matrix = name.startswith("blocks.") and parameter.ndim == 2
        kind = "encoding" if ENCODING_KEY in name else "matrices" if is_matrix and config.name == "muon" else "others"
        groups[kind]["params"].append(parameter)
    optimizer_class = MuonAdamW if config.name == "muon" else torch.optim.AdamW
    on_cuda = all(parameter.is_cuda for parameter in trainable.values())
    return optimizer_class(
        [group for group in groups.values() if group["params"]],
        fused=on_cuda or None,  # one kernel instead of a dozen over all parameters; elsewhere torch's own choice
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=config.weight_decay,
    )


def set_learning_rate(
    optimizer: torch.optim.Optimizer, config: OptimizerConfig, step: int, time_fraction: float = 0.0
) -> float:
    """Set the learning rate of this step and return it; the encoding's group gets `encoding_lr_scale` times that.

    Linear warm-up over `warmup_steps`; then `learning_rate`, until it decays over the last `decay_fraction` of the run to
    `min_lr_ratio` of it. It depends on the step alone, except in a run limited by `max_seconds`, where the run's progress is
    the fraction of its time or of its steps that is over, whichever is larger.
    time_fraction: the fraction of `max_seconds` that is over.
    """
    if step < config.warmup_steps:
        factor = (step + 1) / config.warmup_steps
    else:
        step_fraction = (step - config.warmup_steps) / max(config.max_steps - config.warmup_steps, 1)
        left = 1 - max(step_fraction, min(time_fraction, 1.0))
        height = min(left / config.decay_fraction, 1.0) if config.decay_fraction else 1.0
        if config.decay == "cosine":
            height = 0.5 * (1 - math.cos(math.pi * height))
        factor = config.min_lr_ratio + (1 - config.min_lr_ratio) * height
    learning_rate = config.learning_rate * factor
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["lr_scale"]
    return learning_rate


def clip_gradients(trainable: dict[str, nn.Parameter], max_grad_norm: float) -> Tensor:
    """Scale the gradients down to at most this norm; returns the norm that they had."""
    norm = nn.utils.clip_grad_norm_(trainable.values(), max_grad_norm)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


class Clock:
    """The seconds that a run has trained, with those before it was resumed.

    It starts with the second step of a process, because the first one may compile. Validation and checkpoints count.
    """

    def __init__(self, accelerator: Accelerator, seconds: float = 0.0) -> None:
        self.accelerator, self.seconds = accelerator, seconds
        self._steps, self._last = 0, 0.0

    def start_step(self) -> float:
        """Call this at the start of every step; returns the seconds, the same in every process."""
        now = time.perf_counter()
        if self._steps > 1:
            self.seconds += mean_over_processes(now - self._last, self.accelerator)
        self._steps, self._last = self._steps + 1, now
        return self.seconds


def mean_over_processes(value: float, accelerator: Accelerator) -> float:
    """The mean of a number over all processes, so that they decide alike."""
    if accelerator.num_processes == 1:
        return value
    return float(accelerator.reduce(torch.tensor(value, device=accelerator.device), "mean"))
