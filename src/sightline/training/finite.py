"""Losses, gradients and weights that are not finite end a run before they are saved."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.distributed.tensor import DTensor

from sightline.errors import SightlineError
from sightline.training import checkpoint


def require_finite(run: Path, step: int, **values: float) -> None:
    """Stop if the loss or the gradient of a step is not finite. run: the folder with the checkpoints."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise _not_finite(run, f"the {name} is {value} at step {step}")


def require_finite_weights(run: Path, step: int, weights: Iterable[nn.Parameter], accelerator: Accelerator) -> None:
    """Refuse weights that the update of a step made NaN, in any process: only the loss of the next step would show it."""
    shards = [p.to_local() if isinstance(p, DTensor) else p.detach() for p in weights]
    finite = torch.stack([shard.isfinite().all() for shard in shards]).all().to(torch.float32)
    if float(accelerator.reduce(1 - finite, "sum")):
        raise _not_finite(run, f"some weights are not finite after step {step}")


def _not_finite(run: Path, problem: str) -> SightlineError:
    written = checkpoint.list_checkpoints(run / "checkpoints")
    last = f"the last checkpoint is {written[-1].name}" if written else "no checkpoint was written yet"
    return SightlineError(
        f"{problem}, which is not saved; {last}. Try a lower optimizer.learning_rate, a warm-up, or dtype: float32."
    )
