"""Values over the course of training: one line per row, with the range of its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightline.figures.style import COLOURS, FAINT, INK, QUIET, new_figure, save_figure

_STEP = "step"
_COLUMNS, _STYLES = 3, ("-", "--", ":", "-.")  # panels side by side; a line style for each round through the colours


@dataclass(frozen=True, eq=False)
class HistoryLine:
    """x: [N]. values: [seeds, N]; the line is their mean, the band their range."""

    name: str
    x: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class HistoryPanel:
    """xlabel: `step` has whole numbers only. late: scale the panel to the last three quarters of the lines, since a loss falls
    far at first; the title then says that the early part is cut."""

    title: str
    xlabel: str
    lines: Sequence[HistoryLine]
    late: bool = False


def draw_histories(panels: Sequence[HistoryPanel], path: str | Path) -> Figure:
    """The panels side by side, with one legend for the rows, which have the same colour in each."""
    columns = 2 if len(panels) == 4 else min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure = new_figure(4.4 * columns, 3.3 * lines + 0.5, layout="constrained")
    all_axes = np.ravel(figure.subplots(lines, columns))
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    labelled = {}
    for axes, panel in zip(all_axes, panels, strict=False):
        for line in panel.lines:
            index = names.index(line.name)
            colour, style = COLOURS[index % len(COLOURS)], _STYLES[index // len(COLOURS) % len(_STYLES)]
            if len(line.values) > 1:
                axes.fill_between(
                    line.x, line.values.min(axis=0), line.values.max(axis=0), color=colour, alpha=0.15, lw=0
                )
            [labelled[line.name]] = axes.plot(line.x, line.values.mean(axis=0), style, color=colour, lw=1.5)
        cut = False
        if panel.late:
            late = np.concatenate([line.values[:, len(line.x) // 4 :].ravel() for line in panel.lines])
            margin = 0.05 * (late.max() - late.min()) + 1e-9
            low, high = late.min() - margin, late.max() + margin
            axes.set_ylim(low, high)
            cut = any(line.values.min() < low or line.values.max() > high for line in panel.lines)
        axes.set_title(
            f"{panel.title} (the early part is cut)" if cut else panel.title, fontsize=9, color=INK, loc="left"
        )
        axes.set_xlabel(panel.xlabel, fontsize=8, color=QUIET)
        axes.tick_params(which="both", labelsize=7, colors=QUIET, length=0)
        axes.grid(color=FAINT, lw=0.8)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=panel.xlabel == _STEP))
        axes.ticklabel_format(useOffset=False)
        axes.set_axisbelow(True)
        for spine in axes.spines.values():
            spine.set_visible(False)
    for axes in all_axes[len(panels) :]:
        axes.remove()
    figure.legend(
        [labelled[name] for name in names], names, loc="outside lower center", ncols=min(len(names), 6), frameon=False, fontsize=8
    )  # fmt: skip
    save_figure(figure, path, dpi=120)
    return figure
