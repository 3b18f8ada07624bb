"""Bar charts: one panel below the other, each with a bar per row and a line at the reference row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from sightline.figures.style import save_figure, tick_name

_OTHER = "#5b7c99"


@dataclass(frozen=True)
class BarPanel:
    """bars: (name, value) from top to bottom."""

    title: str
    bars: Sequence[tuple[str, float]]


def draw_bars(
    panels: Sequence[BarPanel],
    path: str | Path,
    xlabel: str,
    colours: Mapping[str, str] | None = None,
    reference: str | None = None,
) -> Figure:
    """colours: by the first word of a bar's name. reference: the bar whose value is marked by a dotted line."""
    figure = Figure(figsize=(8, 0.6 + sum(0.9 + 0.28 * len(panel.bars) for panel in panels)), layout="constrained")
    heights = [len(panel.bars) + 2 for panel in panels]
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, panel in zip(axes, panels, strict=True):
        names, values = [name for name, _ in panel.bars], [value for _, value in panel.bars]
        drawn = axis.barh(
            [tick_name(name) for name in names],
            values,
            color=[(colours or {}).get(name.split()[0], _OTHER) for name in names],
        )
        axis.bar_label(drawn, fmt="%.3g", padding=3, fontsize=8)
        axis.invert_yaxis()
        axis.set_title(panel.title, loc="left", fontsize=10)
        axis.set_xlabel(xlabel)
        axis.margins(x=0.12)
        axis.spines[["top", "right"]].set_visible(False)
        if reference in names:
            axis.axvline(values[names.index(reference)], color="black", linewidth=0.8, linestyle=":")
    save_figure(figure, path, dpi=120)
    return figure
