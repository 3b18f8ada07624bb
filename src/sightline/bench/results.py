"""The results of a bench as dataclasses: what bench.json holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from sightline.files import write_atomic

What = Literal["inference", "training", "kernels"]
ROOFLINE = "roofline"  # the method of the row that holds a lower bound: matrix products and attention alone


@dataclass(frozen=True)
class StepTime:
    """seconds: the median over the timed steps. sm_mhz, watts: medians of the GPU's clock and power during them."""

    seconds: float
    fastest: float
    slowest: float
    peak_gib: float | None
    sm_mhz: float | None = None
    watts: float | None = None


@dataclass(frozen=True)
class Deviation:
    """How far an output is from the eager stock model's, in units of its RMS: RMS of the difference, and the largest one."""

    rms: float
    largest: float


@dataclass
class StepRow:
    """One method in one mode. time: None where it failed, with the reason in `failed`. mode: None for the roofline.

    over_roofline, over_stock_compiled, over_stock_eager: the step time over that of those rows, where they were measured.
    deviation: from the stock model's output, for methods that compute the same function untrained.
    """

    method: str
    mode: str | None
    time: StepTime | None = None
    failed: str | None = None
    over_roofline: float | None = None
    over_stock_compiled: float | None = None
    over_stock_eager: float | None = None
    deviation: Deviation | None = None

    @property
    def name(self) -> str:
        return self.method if self.mode is None else f"{self.method} {self.mode}"


@dataclass(frozen=True)
class ScopeRatio:
    """SCoPE's step time over another method's in the same mode."""

    method: str
    mode: str
    ratio: float


@dataclass
class StepTable:
    rows: list[StepRow] = field(default_factory=list)
    scope_over: list[ScopeRatio] = field(default_factory=list)

    def find(self, name: str) -> StepRow | None:
        return next((row for row in self.rows if row.name == name), None)

    def seconds(self, name: str) -> float | None:
        row = self.find(name)
        return None if row is None or row.time is None else row.time.seconds


@dataclass(frozen=True)
class KernelRow:
    """Milliseconds of one operation on one layer's tensors. with_backward_ms: None where memory did not suffice."""

    name: str
    forward_ms: float
    with_backward_ms: float | None


@dataclass
class BenchResults:
    """Everything that was measured on one model."""

    model: str
    layers: int
    tiny: bool
    tokens: int
    size: str
    steps: int
    device: str
    torch: str
    triton: str | None
    sightline: str
    inference: StepTable | None = None
    training: StepTable | None = None
    kernels: list[KernelRow] | None = None


@dataclass
class BenchReport:
    """The command, and the results of each model."""

    command: str
    results: list[BenchResults]


def write_report(results: Sequence[BenchResults], folder: Path, command: str) -> None:
    """Write bench.json with everything measured so far."""
    document = asdict(BenchReport(command, list(results)))
    write_atomic(folder / "bench.json", json.dumps(document, indent=1) + "\n")
