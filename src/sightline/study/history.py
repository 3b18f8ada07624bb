"""The history of a training from its log: losses, and the scalars of the encoding, over the steps."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from sightline.training.curves import read_log
from sightline.training.recipe import Recipe

_POINTS = 50  # of the training loss
_SKIPPED = ("validation", "time")

History = dict[str, list[tuple[int, float]]]


def read_history(run: Path) -> tuple[History, float | None]:
    """Values over the steps, by name, and the peak memory of the GPU in GiB. A resumed run repeats steps: the last count."""
    lines = read_log(run)
    steps = _by_step(lines, "step")
    history: History = {
        "train_loss": _averaged([(step + 1, line["loss"]) for step, line in steps.items() if "loss" in line])
    }
    for step, line in _by_step(lines, "validation").items():
        for name, value in line.items():
            if name not in _SKIPPED and isinstance(value, int | float) and math.isfinite(value):
                history.setdefault(name, []).append((step, float(value)))
    memory = [line["memory_gib"] for line in steps.values() if "memory_gib" in line]
    return history, max(memory) if memory else None


def development(history: History) -> dict[str, float]:
    """Where the scalars of SCoPE have come to, in the mean over the layers; nothing for encodings without them.

    alpha: the absolute value, of queries and keys. gate_span: how far the gate differs between moments of 10 and of 0.1.
    """
    last = {name: points[-1][1] for name, points in history.items() if points}
    alphas = [abs(value) for name, value in last.items() if name.startswith(("alpha_q/", "alpha_k/"))]
    layers = [name.partition("/")[2] for name in last if name.startswith("gate_at_10/")]
    spans = [abs(last[f"gate_at_10/{i}"] - last[f"gate_at_0.1/{i}"]) for i in layers if f"gate_at_0.1/{i}" in last]
    found = {"alpha": alphas, "gate_span": spans}
    return {name: statistics.fmean(values) for name, values in found.items() if values}


def step_seconds(run: Path) -> float:
    """The median time of a training step, without the first ones, which may compile."""
    batch_size = Recipe.from_yaml(run / "recipe.yaml").optimizer.batch_size
    speeds = [line["clips_per_second"] for line in _by_step(read_log(run), "step").values()]
    return statistics.median(batch_size / speed for speed in speeds[len(speeds) // 2 :])


def _by_step(lines: list[dict[str, Any]], name: str) -> dict[int, dict[str, Any]]:
    return dict(sorted({line[name]: line for line in lines if name in line}.items()))


def _averaged(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Means over equal parts of the run, each at its last step."""
    count = min(_POINTS, len(points))
    parts = [points[len(points) * i // count : len(points) * (i + 1) // count] for i in range(count)]
    return [(part[-1][0], statistics.fmean(value for _, value in part)) for part in parts]
