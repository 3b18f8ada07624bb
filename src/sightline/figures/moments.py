"""Distributions of |m| per source: as stored, times eta, and times eta / near depth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from sightline.cameras.plucker import MIN_MOMENT
from sightline.figures.style import (
    COLOURS,
    FAINT,
    INK,
    LINE,
    QUIET,
    check_figure_path,
    new_figure,
    plain_texts,
    save_figure,
    tick_name,
)

if TYPE_CHECKING:
    from sightline.data.stats import SourceStatistics

_BINS = 160
_WIDTH, _ROW, _MARGIN = 12.0, 0.62, 1.2  # inches: of the figure, of one source, above and below all of them
_RIDGE = 0.74  # height of the fullest bin, as a fraction of a row; the median's number stands above it


def draw_moments(sources: Sequence[SourceStatistics], path: str | Path | None = None) -> Figure:
    """One row per source, one panel per stage, on a logarithmic axis, with the median marked. path: .png, .svg or .pdf."""
    target = None if path is None else check_figure_path(path)
    stages = [("as the source has it", [source.moments for source in sources])]
    stages.append(("times eta", [source.eta * source.moments for source in sources]))
    if any(source.with_near_depth for source in sources):
        stages.append(
            ("times eta / near depth, where known", [source.eta * source.normalised_moments for source in sources])
        )
    edges = _edges([values for _, panel in stages for values in panel])

    height = _MARGIN + _ROW * len(sources)
    figure = new_figure(_WIDTH, height)
    left, gap = 0.11, 0.02
    width = (0.975 - left - gap * (len(stages) - 1)) / len(stages)
    for index, (title, values) in enumerate(stages):
        place = (left + index * (width + gap), 0.35 / height, width, _ROW * len(sources) / height)
        _draw_stage(
            figure.add_axes(place), title, values, edges, [source.name for source in sources] if index == 0 else []
        )
    figure.text(
        0.025, 1 - 0.32 / height, "how far rays pass from the first camera, |m|", fontsize=14, color=INK, weight="bold"
    )
    plain_texts(figure)
    if target is not None:
        save_figure(figure, target)
    return figure


def _edges(values: list[Tensor]) -> np.ndarray:
    """Bins that hold all but the outermost percent of every panel."""
    seen = [one[one > MIN_MOMENT] for one in values]
    seen = [one for one in seen if len(one)]
    if not seen:
        return np.logspace(-2, 1, _BINS + 1)
    low = min(float(one.kthvalue(max(len(one) // 100, 1)).values) for one in seen)
    high = max(float(one.kthvalue(len(one) - len(one) // 100).values) for one in seen)
    return np.logspace(np.log10(low / 1.5), np.log10(high * 1.5), _BINS + 1)


def _draw_stage(axes: Axes, title: str, values: list[Tensor], edges: np.ndarray, names: list[str]) -> None:
    middles = np.sqrt(edges[:-1] * edges[1:])
    for row, one in enumerate(values):
        base, colour = len(values) - 1 - row, COLOURS[row % len(COLOURS)]
        density = np.histogram(one.numpy(), edges)[0].astype(float)
        density = np.convolve(density, np.hanning(9) / np.hanning(9).sum(), mode="same")
        ridge = base + _RIDGE * density / max(density.max(), 1.0)
        axes.fill_between(middles, base, ridge, color=colour, alpha=0.35, linewidth=0)
        axes.plot(middles, ridge, color=colour, linewidth=1.2)
        median = float(one.median())
        if median > 0:
            axes.plot([median, median], [base, base + _RIDGE], color=colour, linewidth=2.0, solid_capstyle="butt")
            axes.annotate(
                f"{median:.3g}", (median, base + _RIDGE), xytext=(0, 1), textcoords="offset points", fontsize=8,
                color=colour, weight="bold", va="bottom", ha="center",
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set(xlim=(edges[0], edges[-1]), ylim=(-0.08, len(values)))
    axes.set_title(title, loc="left", fontsize=9, color=QUIET, pad=5)
    rows = [len(values) - 1 - row + 0.3 for row in range(len(names))]
    axes.set_yticks(rows, [tick_name(name) for name in names], fontsize=9, color=INK)
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=8, length=0, which="both")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
