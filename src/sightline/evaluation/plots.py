"""Plots of a run: errors over the frames, and how the clips spread. The paths of a clip are drawn in its own folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightline.evaluation.results import TITLES
from sightline.figures import COLOURS, FAINT, INK, QUIET, save_figure

_OVER_FRAMES = {"rot_err": "rotation error (rad)", "trans_err": "translation error", "psnr": "PSNR (dB)"}
_BOXES = {
    "standard": ("rot_err raw", "trans_err raw", "trans_err rescaled", "cam_mc raw", "ate raw", "psnr", "ssim", "lpips"),
    "revisit": (
        "return_ratio", "return_rotation", "normalised_ate", "return_lpips", "lpips_recovery", "return_dino",
        "return_cosine_efflite0",
    ),
}  # fmt: skip


def draw_errors(results: Sequence[dict[str, Any]], path: Path) -> bool:
    """Median over clips and the middle half of them, frame by frame; dashed is the floor. False where there is nothing."""
    shown = [key for key in _OVER_FRAMES if any(key in clip["by_frame"] for one in results for clip in one["clips"])]
    if not shown:
        return False
    figure = _figure(4.2 * len(shown), 3.4)
    for axes, key in zip(np.ravel(figure.subplots(1, len(shown))), shown, strict=True):
        for number, one in enumerate(results):
            _band(axes, _curves(one, key), COLOURS[number % len(COLOURS)], one["label"])
        floor = _curves(results[0], f"floor {key}")
        if len(floor):
            axes.plot(np.median(floor, axis=0), "--", color=QUIET, lw=1.2, label="floor: the true videos")
        _style(axes, _OVER_FRAMES[key], "frame")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(frameon=False, fontsize=7)
    save_figure(figure, path, dpi=130)
    return True


def draw_boxes(results: Sequence[dict[str, Any]], path: Path) -> bool:
    """A box of each run for each score: median, middle half, and every clip as a point."""
    keys = _BOXES["revisit" if results[0]["protocol"] == "revisit" else "standard"]
    shown = [key for key in keys if any(key in one["scores"] for one in results)]
    if not shown:
        return False
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure = _figure(3.0 * columns, 2.9 * rows)
    panels = np.ravel(figure.subplots(rows, columns))
    for axes, key in zip(panels, shown, strict=False):
        values = [[clip["scores"][key] for clip in one["clips"] if key in clip["scores"]] for one in results]
        floor = [clip["floor"][key] for clip in results[0]["clips"] if key in clip["floor"]]
        labels = [one["label"] for one in results]
        if floor:
            values, labels = [*values, floor], [*labels, "floor"]
        _boxes(axes, values, labels)
        _style(axes, TITLES[key][0], "")
    for axes in panels[len(shown) :]:
        axes.remove()
    save_figure(figure, path, dpi=130)
    return True


def _curves(one: dict[str, Any], key: str) -> np.ndarray:  # [N, T]; clips of the commonest length
    found = [clip["by_frame"][key] for clip in one["clips"] if key in clip["by_frame"]]
    lengths = [len(curve) for curve in found]
    usual = max(set(lengths), key=lengths.count) if lengths else 0
    return np.array([curve for curve in found if len(curve) == usual])


def _band(axes: Axes, curves: np.ndarray, colour: str, label: str) -> None:
    if not len(curves):
        return
    low, middle, high = np.quantile(curves, (0.25, 0.5, 0.75), axis=0)
    axes.fill_between(np.arange(len(middle)), low, high, color=colour, alpha=0.18, lw=0)
    axes.plot(middle, color=colour, lw=1.6, label=f"{label} (n = {len(curves)})")


def _boxes(axes: Axes, values: Sequence[Sequence[float]], labels: Sequence[str]) -> None:
    places = np.arange(len(values))
    drawn = axes.boxplot(values, positions=places, widths=0.5, showfliers=False, patch_artist=True)
    for number, box in enumerate(drawn["boxes"]):
        colour = QUIET if labels[number] == "floor" else COLOURS[number % len(COLOURS)]
        box.set(facecolor=colour, alpha=0.25, edgecolor=colour)
        spread = np.random.default_rng(0).uniform(-0.12, 0.12, len(values[number]))
        axes.scatter(number + spread, values[number], s=8, color=colour, alpha=0.8, lw=0, zorder=3)
    for line in drawn["medians"]:
        line.set(color=INK, lw=1.2)
    axes.set_xticks(
        places, [label if len(label) < 24 else f"{label[:22]}..." for label in labels], rotation=15, ha="right"
    )


def _style(axes: Axes, title: str, along: str) -> None:
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.set_xlabel(along, fontsize=8, color=QUIET)
    axes.tick_params(labelsize=7, colors=QUIET, length=0)
    axes.grid(axis="y", color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure
