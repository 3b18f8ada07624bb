"""The picture of a bench: one panel for each model and kind of step, a bar for each row, the floor as a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightline.bench.models import FLOOR
from sightline.figures import save_figure

COLOURS = {FLOOR: "#3b3f46", "stock": "#8a8f98", "scope": "#c8553d"}
_RIVAL = "#5b7c99"


def draw(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Milliseconds of a step. A bench without steps (kernels alone) has the kernels' times instead."""
    from matplotlib.figure import Figure

    panels = [
        (f"{one['model']}, {what}, {one['layers']} layers, {one['tokens']} tokens", _bars(one[what]))
        for one in found
        for what in ("inference", "training", "kernels")
        if what in one
    ]
    figure = Figure(figsize=(8, 0.6 + sum(0.9 + 0.28 * len(bars) for _, bars in panels)), layout="constrained")
    heights = [len(bars) + 2 for _, bars in panels]
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (title, bars) in zip(axes, panels, strict=True):
        names, values = [name for name, _ in bars], [value for _, value in bars]
        colours = [COLOURS.get(name.split()[0], _RIVAL) for name in names]
        drawn = axis.barh(names, values, color=colours)
        axis.bar_label(drawn, fmt="%.3g", padding=3, fontsize=8)
        axis.invert_yaxis()
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel("milliseconds")
        axis.margins(x=0.12)
        axis.spines[["top", "right"]].set_visible(False)
        if FLOOR in names:
            axis.axvline(values[names.index(FLOOR)], color="black", linewidth=0.8, linestyle=":")
    save_figure(figure, path, dpi=120)


def _bars(table: dict[str, Any]) -> list[tuple[str, float]]:
    if all("forward_ms" in row for row in table.values()):
        return [(name, row["forward_ms"]) for name, row in table.items()]
    return [(name, 1000 * row["seconds"]) for name, row in table.items() if "seconds" in row]
