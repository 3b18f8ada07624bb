"""Clock and power of a GPU while it is timed: a GPU at its power limit gains little from doing less work."""

from __future__ import annotations

import statistics
import subprocess
from types import TracebackType

import torch

_QUERY = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-lms", "50"]


class Clocks:
    """A context manager; after it, sm_mhz and watts are medians over its duration, or None without nvidia-smi."""

    def __init__(self, device: torch.device) -> None:
        self.sm_mhz: float | None = None
        self.watts: float | None = None
        self._device = device
        self._watch: subprocess.Popen[str] | None = None

    def __enter__(self) -> Clocks:
        if self._device.type == "cuda":
            which = ["-i", f"GPU-{torch.cuda.get_device_properties(self._device).uuid}"]
            try:
                self._watch = subprocess.Popen(
                    [*_QUERY, *which], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                )
            except OSError:
                self._watch = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is None:
            return
        self._watch.terminate()
        self.sm_mhz, self.watts = medians(self._watch.communicate()[0])


def medians(lines: str) -> tuple[float, float] | tuple[None, None]:
    """The medians of lines "MHz, W". Incomplete lines and numbers that the driver does not report are skipped."""
    rows = []
    for line in lines.splitlines():
        try:
            clock, power = (float(part) for part in line.split(","))
        except ValueError:
            continue
        rows.append((clock, power))
    if not rows:
        return None, None
    clocks, powers = zip(*rows, strict=True)
    return statistics.median(clocks), statistics.median(powers)
