"""The chart of a bench: one panel for each model and kind of step, a bar for each row, the roofline as a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sightline.bench.results import ROOFLINE, BenchResults
from sightline.figures import BarPanel, draw_bars

COLOURS = {ROOFLINE: "#3b3f46", "stock": "#8a8f98", "scope": "#c8553d"}


def draw_bench(results: Sequence[BenchResults], path: Path) -> None:
    """Milliseconds of each step, and of each kernel's forward pass."""
    panels = []
    for model in results:
        for what, table in (("inference", model.inference), ("training", model.training)):
            if table is not None:
                bars = [(row.name, 1000 * row.time.seconds) for row in table.rows if row.time is not None]
                panels.append(BarPanel(_title(model, what), bars))
        if model.kernels is not None:
            panels.append(BarPanel(_title(model, "kernels"), [(row.name, row.forward_ms) for row in model.kernels]))
    draw_bars(panels, path, "milliseconds", COLOURS, reference=ROOFLINE)


def _title(model: BenchResults, what: str) -> str:
    return f"{model.model}, {what}, {model.layers} layers, {model.tokens} tokens"
