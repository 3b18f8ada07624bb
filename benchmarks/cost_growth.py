"""How a step's time grows with frames and resolution: the stock model compiled beside SCoPE compiled and fused, on one GPU.

    python benchmarks/cost_growth.py -o outputs/growth           5B, 10 of 30 layers

Attention grows with the square of the tokens, all else with the tokens.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from sightline.bench.drawing import COLOURS
from sightline.bench.models import FLOOR, Setting
from sightline.bench.run import bench
from sightline.checks import whole_number
from sightline.figures import save_figure
from sightline.files import write_atomic

FILMS = ((41, 832, 480), (81, 416, 256), (81, 832, 480), (81, 1280, 704), (121, 832, 480), (161, 832, 480))
TINY_FILMS = ((9, 64, 64), (17, 64, 64))
ROWS = (("stock", "compiled"), ("scope", "fused compiled"))


def main(
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("outputs/growth"),
    model: Literal["5b", "14b"] = "5b",
    layers: int = 10,
    steps: int = 5,
    tiny: bool = False,
) -> None:
    """tiny: rehearse without a GPU."""
    films = TINY_FILMS if tiny else FILMS
    steps = whole_number("steps", steps)
    settings = [Setting.checked(model, layers, frames, f"{width}x{height}", tiny) for frames, width, height in films]
    found = []
    for setting in settings:
        found.append(bench(setting, ["inference"], ROWS, steps))  # type: ignore[arg-type]
        write_atomic(
            output / "growth.json",
            json.dumps({"command": shlex.join(sys.argv), "films": found}, indent=1) + "\n",
        )
        draw(found, output / "growth.png")


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Milliseconds a layer over tokens, and beneath them the ratio."""
    from matplotlib.figure import Figure

    # A film whose step did not fit into memory has no place in the picture; growth.json says so.
    found = [one for one in found if all("seconds" in row for row in one["inference"].values())]
    found.sort(key=lambda one: one["tokens"])
    tokens = [one["tokens"] for one in found]
    figure = Figure(figsize=(7, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for name, colour in (
        (FLOOR, COLOURS[FLOOR]),
        ("stock compiled", COLOURS["stock"]),
        ("scope fused compiled", COLOURS["scope"]),
    ):
        times = [1000 * one["inference"][name]["seconds"] / one["layers"] for one in found]
        above.loglog(tokens, times, "o:" if name == FLOOR else "o-", color=colour, label=name, markersize=4)
    for one in found:
        last = 1000 * one["inference"]["stock compiled"]["seconds"] / one["layers"]
        above.annotate(one["size"], (one["tokens"], last), (-6, 3), textcoords="offset points", ha="right", fontsize=7)
    above.set_ylabel("ms a layer")
    above.margins(x=0.2)
    above.legend(frameon=False, loc="lower right")
    below.semilogx(
        tokens,
        [one["inference"]["scope fused compiled"]["over_stock_compiled"] for one in found],
        "o-",
        color=COLOURS["scope"],
    )
    below.axhline(1.0, color=COLOURS["stock"], linewidth=0.8)
    below.set(xlabel="tokens", ylabel="over stock")
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, dpi=120)


if __name__ == "__main__":
    tyro.cli(main)
