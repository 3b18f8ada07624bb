"""At what clock and power a GPU ran while it was timed: one held back by its power limit gains little from doing less."""

from __future__ import annotations

import statistics
import subprocess
from types import TracebackType

import torch

_QUERY = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-lms", "50"]


class Clocks:
    """with Clocks(device) as clocks: ...; then clocks.found has sm_mhz and watts, medians; nothing without nvidia-smi."""

    def __init__(self, device: torch.device) -> None:
        self.found: dict[str, float] = {}
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
        self.found = medians(self._watch.communicate()[0])


def medians(lines: str) -> dict[str, float]:
    """Of "MHz, W" lines; a line cut short, or a number that the driver does not tell, is left out."""
    rows = []
    for line in lines.splitlines():
        try:
            clock, power = (float(part) for part in line.split(","))
        except ValueError:
            continue
        rows.append((clock, power))
    if not rows:
        return {}
    clocks, powers = zip(*rows, strict=True)
    return {"sm_mhz": statistics.median(clocks), "watts": statistics.median(powers)}
