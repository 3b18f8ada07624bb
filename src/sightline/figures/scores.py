"""Scores of runs: errors over the frames as bands, and the distribution over clips as boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightline.figures.style import COLOURS, FAINT, INK, QUIET, new_figure, save_figure, tick_name

_COLUMNS = 4  # panels in a row of boxes


@dataclass(frozen=True)
class CurvePanel:
    """runs: (label, one curve per clip [N, T]). reference: curves [N, T] whose median is drawn dashed."""

    title: str
    runs: Sequence[tuple[str, np.ndarray]]
    reference: np.ndarray | None = None


@dataclass(frozen=True)
class BoxPanel:
    """runs: (label, one value per clip). reference: a further box in grey, after the runs."""

    title: str
    runs: Sequence[tuple[str, Sequence[float]]]
    reference: tuple[str, Sequence[float]] | None = None


def draw_error_curves(panels: Sequence[CurvePanel], path: str | Path, reference_label: str = "reference") -> Figure:
    """Frame by frame, the median over clips and the band between the quartiles, one panel beside the other."""
    figure = new_figure(4.2 * len(panels), 3.4, layout="constrained")
    for axes, panel in zip(np.ravel(figure.subplots(1, len(panels))), panels, strict=True):
        for index, (label, curves) in enumerate(panel.runs):
            _draw_band(axes, curves, COLOURS[index % len(COLOURS)], label)
        if panel.reference is not None and len(panel.reference):
            axes.plot(np.median(panel.reference, axis=0), "--", color=QUIET, lw=1.2, label=reference_label)
        _style(axes, panel.title, "frame")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(frameon=False, fontsize=7)
    save_figure(figure, path, dpi=130)
    return figure


def draw_boxes(panels: Sequence[BoxPanel], path: str | Path) -> Figure:
    """A box of each run in each panel: median, quartiles, and every clip as a point."""
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(3.0 * columns, 2.9 * rows, layout="constrained")
    all_axes = np.ravel(figure.subplots(rows, columns))
    for axes, panel in zip(all_axes, panels, strict=False):
        _draw_boxes(axes, panel)
        _style(axes, panel.title, "")
    for axes in all_axes[len(panels) :]:
        axes.remove()
    save_figure(figure, path, dpi=130)
    return figure


def _draw_band(axes: Axes, curves: np.ndarray, colour: str, label: str) -> None:  # [N, T]
    if not len(curves):
        return
    low, middle, high = np.quantile(curves, (0.25, 0.5, 0.75), axis=0)
    axes.fill_between(np.arange(len(middle)), low, high, color=colour, alpha=0.18, lw=0)
    axes.plot(middle, color=colour, lw=1.6, label=f"{label} (n = {len(curves)})")


def _draw_boxes(axes: Axes, panel: BoxPanel) -> None:
    boxes = [*panel.runs, *([] if panel.reference is None else [panel.reference])]
    positions = np.arange(len(boxes))
    drawn = axes.boxplot(
        [values for _, values in boxes], positions=positions, widths=0.5, showfliers=False, patch_artist=True
    )
    for index, (box, (_, values)) in enumerate(zip(drawn["boxes"], boxes, strict=True)):
        colour = COLOURS[index % len(COLOURS)] if index < len(panel.runs) else QUIET
        box.set(facecolor=colour, alpha=0.25, edgecolor=colour)
        jitter = np.random.default_rng(0).uniform(-0.12, 0.12, len(values))
        axes.scatter(index + jitter, values, s=8, color=colour, alpha=0.8, lw=0, zorder=3)
    for line in drawn["medians"]:
        line.set(color=INK, lw=1.2)
    labels = [label if len(label) < 24 else f"{label[:22]}..." for label, _ in boxes]
    axes.set_xticks(positions, [tick_name(label) for label in labels], rotation=15, ha="right")


def _style(axes: Axes, title: str, xlabel: str) -> None:
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.set_xlabel(xlabel, fontsize=8, color=QUIET)
    axes.tick_params(labelsize=7, colors=QUIET, length=0)
    axes.grid(axis="y", color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
