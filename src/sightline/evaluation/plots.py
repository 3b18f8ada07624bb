"""Plots of runs: errors over the frames, and the distribution over clips. The trajectories of a clip are drawn in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightline.evaluation.results import RunResults
from sightline.evaluation.scores import REVISIT_SCORES, SCORES
from sightline.figures import COLOURS, FAINT, INK, QUIET, save_figure

_OVER_FRAMES = {"rot_err": "rotation error (rad)", "trans_err": "translation error", "psnr": "PSNR (dB)"}
_STANDARD_BOXES = (
    "rot_err_raw", "trans_err_raw", "trans_err_rescaled", "cam_mc_raw", "ate_raw", "psnr", "ssim", "lpips",
)  # fmt: skip
_FLOOR_LABEL = "estimator floor"


def draw_errors(runs: Sequence[RunResults], path: Path) -> bool:
    """Median over clips and the interquartile range, frame by frame; dashed is the estimator floor. False without data."""
    shown = [key for key in _OVER_FRAMES if any(key in clip.generated.by_frame for run in runs for clip in run.clips)]
    if not shown:
        return False
    figure = _figure(4.2 * len(shown), 3.4)
    for axes, key in zip(np.ravel(figure.subplots(1, len(shown))), shown, strict=True):
        for number, run in enumerate(runs):
            _band(axes, _curves(run, key, "generated"), COLOURS[number % len(COLOURS)], run.label)
        floor = _curves(runs[0], key, "ground_truth")
        if len(floor):
            axes.plot(np.median(floor, axis=0), "--", color=QUIET, lw=1.2, label=f"{_FLOOR_LABEL}: the true videos")
        _style(axes, _OVER_FRAMES[key], "frame")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(frameon=False, fontsize=7)
    save_figure(figure, path, dpi=130)
    return True


def draw_boxes(runs: Sequence[RunResults], path: Path) -> bool:
    """A box of each run for each score: median, interquartile range, and every clip as a point. False without data."""
    keys = REVISIT_SCORES if runs[0].protocol == "revisit" else _STANDARD_BOXES
    shown = [key for key in keys if any(key in run.means for run in runs)]
    if not shown:
        return False
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure = _figure(3.0 * columns, 2.9 * rows)
    panels = np.ravel(figure.subplots(rows, columns))
    for axes, key in zip(panels, shown, strict=False):
        values = [[clip.generated.scores[key] for clip in run.clips if key in clip.generated.scores] for run in runs]
        floor = [clip.ground_truth.scores[key] for clip in runs[0].clips if key in clip.ground_truth.scores]
        labels = [run.label for run in runs]
        if floor:
            values, labels = [*values, floor], [*labels, _FLOOR_LABEL]
        _boxes(axes, values, labels)
        _style(axes, SCORES[key].title, "")
    for axes in panels[len(shown) :]:
        axes.remove()
    save_figure(figure, path, dpi=130)
    return True


def _curves(run: RunResults, key: str, which: Literal["generated", "ground_truth"]) -> np.ndarray:  # [N, T]
    """The curves of the clips that have the most common length."""
    videos = [getattr(clip, which) for clip in run.clips]
    curves = [video.by_frame[key] for video in videos if key in video.by_frame]
    lengths = [len(curve) for curve in curves]
    usual = max(set(lengths), key=lengths.count) if lengths else 0
    return np.array([curve for curve in curves if len(curve) == usual])


def _band(axes: Axes, curves: np.ndarray, colour: str, label: str) -> None:
    if not len(curves):
        return
    low, middle, high = np.quantile(curves, (0.25, 0.5, 0.75), axis=0)
    axes.fill_between(np.arange(len(middle)), low, high, color=colour, alpha=0.18, lw=0)
    axes.plot(middle, color=colour, lw=1.6, label=f"{label} (n = {len(curves)})")


def _boxes(axes: Axes, values: Sequence[Sequence[float]], labels: Sequence[str]) -> None:
    positions = np.arange(len(values))
    drawn = axes.boxplot(values, positions=positions, widths=0.5, showfliers=False, patch_artist=True)
    for number, box in enumerate(drawn["boxes"]):
        colour = QUIET if labels[number] == _FLOOR_LABEL else COLOURS[number % len(COLOURS)]
        box.set(facecolor=colour, alpha=0.25, edgecolor=colour)
        jitter = np.random.default_rng(0).uniform(-0.12, 0.12, len(values[number]))
        axes.scatter(number + jitter, values[number], s=8, color=colour, alpha=0.8, lw=0, zorder=3)
    for line in drawn["medians"]:
        line.set(color=INK, lw=1.2)
    axes.set_xticks(
        positions, [label if len(label) < 24 else f"{label[:22]}..." for label in labels], rotation=15, ha="right"
    )


def _style(axes: Axes, title: str, xlabel: str) -> None:
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.set_xlabel(xlabel, fontsize=8, color=QUIET)
    axes.tick_params(labelsize=7, colors=QUIET, length=0)
    axes.grid(axis="y", color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure
