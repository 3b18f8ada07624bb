"""The exponential moving average (EMA) of the trained weights, which is validated and exported instead of the last weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def make_ema(trainable: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """The average before the first step: a copy of the weights, sharded as they are."""
    return {name: parameter.detach().clone() for name, parameter in trainable.items()}


@torch.no_grad()
def update_ema(ema: dict[str, Tensor], trainable: dict[str, nn.Parameter], decay: float, step: int) -> None:
    """Move the average towards the weights. Early on the decay is only (1 + step) / (10 + step), to forget the start."""
    weight = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(list(ema.values()), [trainable[name] for name in ema], weight)


@contextmanager
def ema_weights(trainable: dict[str, nn.Parameter], ema: dict[str, Tensor] | None) -> Iterator[None]:
    """Give the model its averaged weights inside a with block; without an average, leave it as it is."""
    _swap(trainable, ema or {})
    try:
        yield
    finally:
        _swap(trainable, ema or {})


@torch.no_grad()
def _swap(trainable: dict[str, nn.Parameter], ema: dict[str, Tensor]) -> None:
    for name, average in ema.items():
        trained = trainable[name].detach().clone()
        trainable[name].copy_(average)
        average.copy_(trained)
