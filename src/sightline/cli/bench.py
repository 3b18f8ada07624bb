"""sightline bench: what a camera costs. Step time and peak memory of every method, beside the stock model and the roofline."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, arg

if TYPE_CHECKING:
    from sightline.bench.results import BenchResults, KernelRow, StepRow, StepTable


def main(arguments: Sequence[str]) -> None:
    command = f"sightline bench {shlex.join(arguments)}"
    tyro.cli(
        Bench, args=list(arguments), prog="sightline bench", description=__doc__, config=(FlagCreatePairsOff,)
    ).run(command)


@dataclass
class Bench:
    model: tuple[Literal["5b", "14b", "fun-5b", "fun-2.1-14b", "sana-wm"], ...] = ("5b",)
    """Which released configurations; fun is Fun-Control-Camera, whose camera is cameractrl's; sana-wm is SANA-WM, for
    --what inference --methods stock --modes eager compiled. Weights are random; time and memory do not depend on them."""
    what: tuple[Literal["inference", "training", "kernels"], ...] = ("inference", "training", "kernels")
    """Steps without gradients, steps with them (checkpointed, without the optimizer), and the fused operations alone."""
    methods: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = (
        "stock", "scope", "ucpe", "prope", "recammaster", "cameractrl",
    )  # fmt: skip
    """The stock model, and encodings by name, with settings as in "prope?whole_heads=true"."""
    modes: tuple[Literal["eager", "compiled", "fused", "fused compiled", "fused fp8 compiled"], ...] = (
        "eager", "compiled", "fused", "fused compiled",
    )  # fmt: skip
    """Modes of the stock model and of SCoPE: eager, blocks compiled, fused kernels (`sl.accelerate`), both, and in addition the
    matrix products of `--speed faster` (without gradients)."""
    rival_modes: tuple[Literal["eager", "compiled", "fused", "fused compiled", "fused fp8 compiled"], ...] = (
        "compiled",
    )
    """Modes of the other methods."""
    layers: int | None = None
    """Use fewer layers than the model has, to save time and memory."""
    steps: int = 10
    """Timed steps of each row, after two to warm up; the median counts."""
    num_frames: int | None = None
    """Frames of the video; default: 81, or 9 with --tiny."""
    size: str | None = None
    """WIDTHxHEIGHT of the video; default: 832x480, or 64x64 with --tiny."""
    tiny: bool = False
    """Rehearse everything with a tiny model, also on a CPU. The numbers mean nothing."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/bench")
    """Folder for bench.json and bench.png."""

    def run(self, command: str) -> None:
        from sightline.bench.drawing import draw_bench
        from sightline.bench.models import Setting, encoding
        from sightline.bench.results import write_report
        from sightline.bench.run import all_rows, bench
        from sightline.checks import whole_number
        from sightline.cli._console import print_line
        from sightline.errors import SightlineError
        from sightline.files import require_writable

        for name in ("model", "what", "methods", "modes", "rival_modes"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                option = name.replace("_", "-")
                raise SightlineError(f"--{option} is {' '.join(values) or 'empty'}: expected at least one, each once.")
        steps = whole_number("steps", self.steps)
        settings = [
            Setting.from_options(model, self.layers, self.num_frames, self.size, self.tiny) for model in self.model
        ]
        for method in self.methods:
            encoding(method, settings[0])  # refuses an unknown name
        require_writable(self.output, "a folder for bench.json and bench.png")
        rows = all_rows(self.methods, self.modes, self.rival_modes)
        results: list[BenchResults] = []
        for setting in settings:
            # Written after every row, so that a run that is stopped keeps what it has measured.
            results.append(
                bench(
                    setting,
                    self.what,
                    rows,
                    steps,
                    print_line,
                    lambda newest: write_report([*results, newest], self.output, command),
                )
            )
            _print_results(results[-1])
        draw_bench(results, self.output / "bench.png")
        print_line(f"wrote {self.output / 'bench.json'} and {self.output / 'bench.png'}")


def _print_results(results: BenchResults) -> None:
    for what, table in (("inference", results.inference), ("training", results.training)):
        if table is not None:
            _print_steps(f"{_title(results)}, {what}, on {results.device}", table)
    if results.kernels is not None:
        _print_kernels(f"{_title(results)}, kernels, on {results.device}", results.kernels)


def _title(results: BenchResults) -> str:
    return f"{results.model}, {results.layers} layers, {results.size}"


def _print_steps(title: str, table: StepTable) -> None:
    from sightline.cli._console import print_line

    def cells(row: StepRow) -> list[str]:
        time = row.time
        times = ["", "", "", ""]
        if time is not None:
            times = [
                _cell(1000 * time.seconds, 2),
                _cell(time.peak_gib, 2),
                _cell(time.sm_mhz, 0),
                _cell(time.watts, 0),
            ]
        ratios = [_cell(ratio, 3) for ratio in (row.over_roofline, row.over_stock_compiled, row.over_stock_eager)]
        off_stock = "" if row.deviation is None else _cell(row.deviation.rms, 6)
        return [row.name, *times[:2], *ratios, off_stock, *times[2:]]

    head = ["", "ms", "peak GiB", "x roofline", "x stock compiled", "x stock eager", "off stock", "MHz", "W"]
    _print_columns(title, head, [cells(row) for row in table.rows])
    for ratio in table.scope_over:
        print_line(f"SCoPE's step over that of {ratio.method}, {ratio.mode}: {ratio.ratio:.4f}")


def _print_kernels(title: str, rows: Sequence[KernelRow]) -> None:
    cells = [[row.name, _cell(row.forward_ms, 3), _cell(row.with_backward_ms, 3)] for row in rows]
    _print_columns(title, ["", "forward ms", "with backward ms"], cells)


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _print_columns(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without its empty columns."""
    from sightline.cli._console import print_table

    used = [index for index in range(len(head)) if any(row[index] for row in rows)]
    print_table(title, [head[index] for index in used], [[row[index] for index in used] for row in rows])
