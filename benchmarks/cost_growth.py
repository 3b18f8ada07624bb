"""How a step's time grows with frames and resolution: the stock model compiled beside SCoPE compiled and fused, on one GPU.

    python benchmarks/cost_growth.py -o outputs/growth           5B, 10 of 30 layers

Attention grows with the square of the number of tokens, everything else linearly.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sightline.bench.drawing import COLOURS
from sightline.bench.models import Mode, Setting
from sightline.bench.results import ROOFLINE, BenchResults, StepTable
from sightline.bench.run import bench
from sightline.checks import whole_number
from sightline.figures import save_figure
from sightline.files import write_atomic

VIDEOS = ((41, 832, 480), (81, 416, 256), (81, 832, 480), (81, 1280, 704), (121, 832, 480), (161, 832, 480))
TINY_VIDEOS = ((9, 64, 64), (17, 64, 64))
ROWS: tuple[tuple[str, Mode], ...] = (("stock", "compiled"), ("scope", "fused compiled"))


@dataclass
class Growth:
    """What growth.json holds: the results of each size of video."""

    command: str
    videos: list[BenchResults]


def main(
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("outputs/growth"),
    model: Literal["5b", "14b"] = "5b",
    layers: int = 10,
    steps: int = 5,
    tiny: bool = False,
) -> None:
    """tiny: rehearse without a GPU."""
    steps = whole_number("steps", steps)
    settings = [
        Setting.from_options(model, layers, num_frames, f"{width}x{height}", tiny)
        for num_frames, width, height in (TINY_VIDEOS if tiny else VIDEOS)
    ]
    growth = Growth(shlex.join(sys.argv), [])
    for setting in settings:
        growth.videos.append(bench(setting, ["inference"], ROWS, steps))
        write_atomic(output / "growth.json", json.dumps(asdict(growth), indent=1) + "\n")
        draw(growth.videos, output / "growth.png")


def draw(videos: Sequence[BenchResults], path: Path) -> None:
    """Milliseconds per layer over tokens, and below them the ratio to the stock model."""
    from matplotlib.figure import Figure

    names = (ROOFLINE, "stock compiled", "scope fused compiled")
    # A video whose step did not fit into memory is left out of the figure; growth.json says so.
    tables = [(video, video.inference) for video in videos if video.inference is not None]
    tables = [(video, table) for video, table in tables if all(table.seconds(name) for name in names)]
    tables.sort(key=lambda pair: pair[0].tokens)
    tokens = [video.tokens for video, _ in tables]

    def milliseconds(video: BenchResults, table: StepTable, name: str) -> float:
        return 1000 * (table.seconds(name) or 0.0) / video.layers

    figure = Figure(figsize=(7, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for name in names:
        times = [milliseconds(video, table, name) for video, table in tables]
        colour = COLOURS[name.split()[0]]
        above.loglog(tokens, times, "o:" if name == ROOFLINE else "o-", color=colour, label=name, markersize=4)
    for video, table in tables:
        place = (video.tokens, milliseconds(video, table, "stock compiled"))
        above.annotate(video.size, place, (-6, 3), textcoords="offset points", ha="right", fontsize=7)
    above.set_ylabel("ms per layer")
    above.margins(x=0.2)
    above.legend(frameon=False, loc="lower right")
    ratios = [milliseconds(*pair, names[2]) / milliseconds(*pair, names[1]) for pair in tables]
    below.semilogx(tokens, ratios, "o-", color=COLOURS["scope"])
    below.axhline(1.0, color=COLOURS["stock"], linewidth=0.8)
    below.set(xlabel="tokens", ylabel="over stock")
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, dpi=120)


if __name__ == "__main__":
    tyro.cli(main)
