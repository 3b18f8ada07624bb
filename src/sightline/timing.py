"""Timing on CPU and GPU: a clock that waits for the device, repeated calls, denoising steps, and peak memory."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

GIB, GB = 2**30, 10**9


def synchronized_time(device: torch.device) -> float:
    """Seconds of a monotonic clock, read when the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def reset_peak_memory(device: torch.device) -> None:
    """Start a new peak. The process's own can be reset on Linux only; elsewhere it stays that since the start."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_gpu_gib(device: torch.device) -> float | None:
    """The most GPU memory that torch has allocated since `reset_peak_memory`; None without a GPU."""
    return torch.cuda.max_memory_allocated(device) / GIB if device.type == "cuda" else None


def peak_process_gib() -> float:
    """The most main memory that this process has used since `reset_peak_memory`, or since it started."""
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts in KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIB


@dataclass(frozen=True)
class Timing:
    """Seconds of each call, and the peak GPU memory of all of them (None without a GPU)."""

    seconds: list[float]
    peak_gib: float | None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def warm_up(call: Callable[[], Any], calls: int, device: torch.device) -> None:
    """Call without timing, to compile and to fill caches."""
    for _ in range(calls):
        call()
    synchronized_time(device)


def time_calls(call: Callable[[], Any], calls: int, device: torch.device) -> Timing:
    """Time each of some calls."""
    reset_peak_memory(device)
    seconds = []
    for _ in range(calls):
        started = synchronized_time(device)
        call()
        seconds.append(synchronized_time(device) - started)
    return Timing(seconds, peak_gpu_gib(device))


class StepTimer:
    """Seconds of each denoising step of a pipeline: from the first call of a transformer, or the end of the last step, to the
    end of the step. `begin` is a forward pre-hook of the transformers, `end_step` a pipeline's callback_on_step_end."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: list[float] = []
        self.last: float | None = None  # time of the last step's end

    def begin(self, *_: Any) -> None:
        if self.last is None:
            self.last = synchronized_time(self.device)

    def end_step(self, _pipe: Any, _step: int, _timestep: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        now = synchronized_time(self.device)
        self.seconds.append(now - (now if self.last is None else self.last))
        self.last = now
        return kwargs
