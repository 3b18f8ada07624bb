"""Loss curves of runs, read from the logs in their folders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightline.checks import shown
from sightline.documents import read_json, read_json_lines
from sightline.errors import SightlineError
from sightline.figures import LossCurve, draw_loss_curves
from sightline.settings import convert

_HELD_OUT = {  # what validation writes: name in the log, and label in the legend
    "loss": "held out",
    "loss_without_camera": "held out, no camera",
    "loss_with_another_camera": "held out, another's camera",
}


def read_log(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's log; or, in the folder of a stage of the lab, the curve that it measured."""
    file, measured = run / "log.jsonl", run / "measured.json"
    if file.is_file():
        lines = [_check_line(line, f"{file}, line {at}: ") for at, line in read_json_lines(file, "the log of a run")]
    elif measured.is_file():
        file, expected = measured, "measurements of sightline lab"
        curve = convert(list[dict[str, Any]], read_json(measured, expected).get("curve", []), f"{measured}: curve")
        lines = [_check_line(line, f"{measured}: ") for line in curve]
    else:
        raise SightlineError(
            f"{run} has no log.jsonl or measured.json: expected the folder of a run that sightline train or lab wrote."
        )
    if not any("step" in line and "loss" in line for line in lines):
        raise SightlineError(f"{file} holds no step: expected a run that has taken some.")
    return lines


def _check_line(line: Any, place: str) -> dict[str, Any]:
    """A line whose steps and losses are numbers, finite or not. Half a line of a killed run may read as a number: it is empty."""
    if not isinstance(line, dict):
        return {}
    for name in ("step", "validation", *_HELD_OUT):
        if name in line and (isinstance(line[name], bool) or not isinstance(line[name], int | float)):
            raise SightlineError(f"{place}{name} is {shown(line[name])}: expected a number.")
    return line


def running_mean(values: Sequence[float], window: int) -> np.ndarray:
    """The mean of each value and up to `window` - 1 values before it."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    smooth: np.ndarray = (total[last] - total[first]) / (last - first)
    return smooth


def draw_curves(runs: Sequence[Path], output: Path, window: int = 100) -> None:
    """Draw the training loss of each run, as a running mean over `window` steps, and its held-out losses."""
    ylabel = "loss" if window == 1 else f"loss, mean of {window} steps"
    draw_loss_curves([_loss_curve(run, window) for run in runs], output, ylabel)


def _loss_curve(run: Path, window: int) -> LossCurve:
    lines = read_log(run)
    steps = [line for line in lines if "step" in line and math.isfinite(line.get("loss", math.nan))]
    losses = running_mean([line["loss"] for line in steps], window)
    held_out = {
        label: [(line["validation"], line[name]) for line in lines if "validation" in line and name in line]
        for name, label in _HELD_OUT.items()
    }
    return LossCurve(run.name, [(line["step"], loss) for line, loss in zip(steps, losses, strict=True)], held_out)
