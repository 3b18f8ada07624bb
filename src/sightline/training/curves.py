"""Loss curves of runs, from what each keeps in its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightline.errors import SightlineError
from sightline.figures import COLOURS, save_figure
from sightline.files import read_json

_HELD_OUT = {  # what validation writes: name in the log, marker, words
    "loss": ("o", "held out"),
    "loss_without_camera": ("s", "held out, no camera"),
    "loss_with_another_camera": ("^", "held out, another's camera"),
}


def read_log(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's log, the last of which may be cut short by a kill; or the curve that a stage of the lab measured."""
    file, measured = run / "log.jsonl", run / "measured.json"
    if file.is_file():
        lines = list(_whole_lines(file))
    elif measured.is_file():
        file, lines = measured, read_json(measured, "measurements of sightline lab").get("curve", [])
    else:
        raise SightlineError(
            f"{run} has no log.jsonl or measured.json: expected the folder of a run that sightline train or lab wrote."
        )
    if not any("step" in line and "loss" in line for line in lines):
        raise SightlineError(f"{file} holds no step: expected a run that has taken some.")
    return lines


def _whole_lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def smoothed(values: Sequence[float], window: int) -> np.ndarray:
    """A running mean over at most `window` values up to and with each."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    smooth: np.ndarray = (total[last] - total[first]) / (last - first)
    return smooth


def draw_curves(runs: Sequence[Path], output: Path, window: int = 100) -> None:
    """The training loss of each run, smoothed, and its held-out losses, on one pair of axes."""
    from matplotlib.figure import Figure

    labelled: set[str] = set()  # the markers mean the same for all runs
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, run in enumerate(runs):
        colour, lines = COLOURS[number % len(COLOURS)], read_log(run)
        steps = [line for line in lines if "step" in line and math.isfinite(line["loss"])]
        loss = smoothed([line["loss"] for line in steps], window)
        axes.plot([line["step"] for line in steps], loss, color=colour, linewidth=1.4, label=run.name)
        for name, (marker, words) in _HELD_OUT.items():
            found = [(line["validation"], line[name]) for line in lines if "validation" in line and name in line]
            if found:
                label = None if name in labelled else words
                axes.plot(*zip(*found, strict=True), marker, color=colour, markersize=5, label=label)
                labelled.add(name)
    axes.set_xlabel("step")
    axes.set_ylabel("loss" if window == 1 else f"loss, mean of {window} steps")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    low, high = axes.get_ylim()
    axes.yaxis.set_minor_formatter("{x:.2g}" if high < 20 * low else "")  # over several decades they would overlap
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, output, dpi=120)
