"""The chart of a bench: one panel for each model and kind of step, a bar for each row, the floor as a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightline.bench.models import FLOOR
from sightline.figures import BarPanel, draw_bars

COLOURS = {FLOOR: "#3b3f46", "stock": "#8a8f98", "scope": "#c8553d"}


def draw(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Milliseconds of a step. A bench without steps (kernels alone) has the kernels' times instead."""
    panels = [
        BarPanel(f"{one['model']}, {what}, {one['layers']} layers, {one['tokens']} tokens", _bars(one[what]))
        for one in found
        for what in ("inference", "training", "kernels")
        if what in one
    ]
    draw_bars(panels, path, "milliseconds", COLOURS, reference=FLOOR)


def _bars(table: dict[str, Any]) -> list[tuple[str, float]]:
    if all("forward_ms" in row for row in table.values()):
        return [(name, row["forward_ms"]) for name, row in table.items()]
    return [(name, 1000 * row["seconds"]) for name, row in table.items() if "seconds" in row]
