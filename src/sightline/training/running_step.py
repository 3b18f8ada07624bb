"""A step of the optimizer that a GPU may still be computing while the CPU launches the next one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


class Measured:
    """Numbers that are copied from a GPU in the background: waiting for them does not wait for later work on the GPU."""

    def __init__(self, values: Tensor) -> None:  # [n]
        self._values = values.to("cpu", non_blocking=True)
        self._arrived = torch.cuda.current_stream(values.device).record_event() if values.is_cuda else None

    def wait(self) -> list[float]:
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values.tolist()


@dataclass(frozen=True, eq=False)
class RunningStep:
    """A step that a device may still be computing."""

    index: int
    measured: Measured  # loss and norm of the gradients
    learning_rate: float
    tokens: tuple[int, int]  # of the video and of the text, in each clip
    started: float  # time.perf_counter()
