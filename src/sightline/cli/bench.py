"""sightline bench: what a camera costs. Step time and peak memory of every method, beside the stock model and the floor."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, arg


def main(arguments: Sequence[str]) -> None:
    command = f"sightline bench {shlex.join(arguments)}"
    tyro.cli(
        Bench, args=list(arguments), prog="sightline bench", description=__doc__, config=(FlagCreatePairsOff,)
    ).run(command)


@dataclass
class Bench:
    model: tuple[Literal["5b", "14b"], ...] = ("5b",)
    """Which configurations; weights are random, on which time and memory do not depend."""
    what: tuple[Literal["inference", "training", "kernels"], ...] = ("inference", "training", "kernels")
    """Steps without and with gradients (checkpointed, without the optimiser), and the fused operations alone."""
    methods: tuple[Literal["stock", "scope", "ucpe", "prope", "recammaster", "cameractrl"], ...] = (
        "stock", "scope", "ucpe", "prope", "recammaster", "cameractrl",
    )  # fmt: skip
    """Which methods."""
    modes: tuple[Literal["eager", "compiled", "fused", "fused compiled"], ...] = (
        "eager", "compiled", "fused", "fused compiled",
    )  # fmt: skip
    """The stock model and SCoPE in each of these: as it comes, blocks compiled, fused kernels (`sl.accelerate`), and both."""
    rival_modes: tuple[Literal["eager", "compiled", "fused", "fused compiled"], ...] = ("compiled",)
    """The other methods in each of these."""
    layers: int | None = None
    """Fewer layers than the model has, to save time and memory."""
    steps: int = 10
    """Timed steps of each row, after two to warm up; the median counts."""
    frames: int | None = None
    """Of the film: 81, or 9 with --tiny."""
    size: str | None = None
    """WIDTHxHEIGHT of the film: 832x480, or 64x64 with --tiny."""
    tiny: bool = False
    """Rehearse everything at a tiny width, on a CPU if need be. The numbers mean nothing."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/bench")
    """Folder for bench.json and bench.png."""

    def run(self, command: str) -> None:
        from sightline.bench.drawing import draw
        from sightline.bench.models import Setting
        from sightline.bench.run import all_rows, bench, write
        from sightline.checks import whole_number
        from sightline.cli._console import print_line
        from sightline.errors import SightlineError
        from sightline.files import require_writable

        for name in ("model", "what", "methods", "modes", "rival_modes"):
            given = getattr(self, name)
            if not given or len(set(given)) < len(given):
                option = name.replace("_", "-")
                raise SightlineError(f"--{option} is {' '.join(given) or 'empty'}: expected at least one, each once.")
        steps = whole_number("steps", self.steps)
        settings = [Setting.checked(model, self.layers, self.frames, self.size, self.tiny) for model in self.model]
        require_writable(self.output, "a folder for bench.json and bench.png")
        rows = all_rows(self.methods, self.modes, self.rival_modes)
        found: list[dict[str, Any]] = []
        for setting in settings:
            # Saved after every row: what stops a run early loses nothing.
            found.append(
                bench(
                    setting, self.what, rows, steps, print_line, lambda new: write([*found, new], self.output, command)
                )
            )
            for what in self.what:
                _print(found[-1], what)
        draw(found, self.output / "bench.png")
        print_line(f"wrote {self.output / 'bench.json'} and {self.output / 'bench.png'}")


def _print(found: dict[str, Any], what: str) -> None:
    from sightline.cli._console import print_line, print_table

    def cell(row: dict[str, Any], name: str, unit: float, digits: int) -> str:
        return "" if row.get(name) is None else f"{unit * row[name]:.{digits}f}"

    title = f"{found['model']}, {found['layers']} layers, {found['size']}, {what}, on {found['device']}"
    if what == "kernels":
        columns = [("forward ms", "forward_ms", 1.0, 3), ("with backward ms", "with_backward_ms", 1.0, 3)]
    else:
        columns = [
            ("ms", "seconds", 1000.0, 2), ("peak GiB", "peak_gib", 1.0, 2), ("x floor", "over_floor", 1.0, 3),
            ("x stock compiled", "over_stock_compiled", 1.0, 3), ("x stock eager", "over_stock_eager", 1.0, 3),
            ("off stock", "off_stock", 1.0, 6), ("MHz", "sm_mhz", 1.0, 0), ("W", "watts", 1.0, 0),
        ]  # fmt: skip
    columns = [column for column in columns if any(row.get(column[1]) is not None for row in found[what].values())]
    rows = [(name, *(cell(row, *column[1:]) for column in columns)) for name, row in found[what].items()]
    print_table(title, ("", *(column[0] for column in columns)), rows)
    for name, ratio in found.get(f"scope over, {what}", {}).items():
        print_line(f"SCoPE's step over that of {name}: {ratio:.4f}")
