"""Results with their intervals: rows of a table as points with bars, and verdicts on pairs of rows as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from sightline.figures.style import COLOURS, FAINT, INK, QUIET, in_lines, new_figure, save_figure, tick_name

_COLUMNS = 3  # panels side by side
_REACH = 4.0  # a panel of differences shows so many times the median distance of an interval's far end from 0
_TITLE_LETTERS = 32  # in a line: as many as fit above the narrowest panels, whose rows have long names
_MIN_CELLS = 8  # a matrix of verdicts has room for so many columns, so that few of them are not drawn huge
_GOOD, _BAD = COLOURS[2], COLOURS[1]
_TONES = {"plain": QUIET, "best": COLOURS[0], "better": _GOOD, "worse": _BAD}
_MATRIX = {"better": (_GOOD, "+"), "worse": (_BAD, "−"), "no difference shown": (FAINT, "·")}  # others are left empty


@dataclass(frozen=True)
class IntervalRow:
    """name: may have several lines. low, high: None where there is no interval. tone: how it is coloured. points: single seeds,
    drawn as small ticks."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    tone: Literal["plain", "best", "better", "worse"] = "plain"
    points: Sequence[float] = ()


@dataclass(frozen=True)
class IntervalPanel:
    """zero: a line at 0, for differences. A row that lies far beyond the others is then cut: arrows, and its numbers."""

    title: str
    rows: Sequence[IntervalRow]
    zero: bool = False


@dataclass(frozen=True)
class VerdictPanel:
    """verdicts: [first row][second row], on the first row; empty on the diagonal and where a pair was not compared."""

    title: str
    rows: Sequence[str]
    verdicts: Sequence[Sequence[str]]


def draw_intervals(panels: Sequence[IntervalPanel], path: str | Path) -> Figure:
    """One panel per metric: a point with its interval for each row, from top to bottom."""
    figure, all_axes = _panels([0.9 + 0.3 * len(panel.rows) for panel in panels], 4.2)
    for axes, panel in zip(all_axes, panels, strict=True):
        limit = _limit(panel.rows) if panel.zero else np.inf
        names = list(dict.fromkeys(row.name for row in panel.rows))
        for place, row in enumerate(panel.rows):
            colour = _TONES[row.tone]
            if row.low is not None and row.high is not None:
                ends = np.clip((row.low, row.high), -limit, limit).tolist()
                axes.plot(ends, (place, place), color=colour, lw=2.2, alpha=0.55, solid_capstyle="butt")
            axes.plot(row.points, [place] * len(row.points), "|", color=colour, ms=7, mew=1.0)
            if abs(row.value) <= limit:
                axes.plot(row.value, place, "o", color=colour, ms=5)
            _mark_cut(axes, row, place, limit)
        if panel.zero:
            axes.axvline(0, color=INK, lw=0.8, ls=":")
        labels = ["\n".join(map(tick_name, name.split("\n"))) for name in names]
        axes.set_yticks(range(len(names)), labels)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="x", color=FAINT, lw=0.8)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.ticklabel_format(axis="x", useOffset=False)
        _style(axes, in_lines(panel.title, _TITLE_LETTERS))
    save_figure(figure, path, dpi=120)
    return figure


def draw_verdicts(panels: Sequence[VerdictPanel], path: str | Path) -> Figure:
    """One matrix per metric: + on green where the row on the left is better than the one above, − on red where it is worse."""
    cells = max(len(panel.rows) for panel in panels)
    figure, all_axes = _panels([1.6 + 0.32 * cells] * len(panels), max(2.0 + 0.34 * cells, 3.6))
    for axes, panel in zip(all_axes, panels, strict=True):
        for left, verdicts in enumerate(panel.verdicts):
            for above, verdict in enumerate(verdicts):
                colour, sign = _MATRIX.get(verdict, ("white", ""))
                axes.add_patch(_square(above, left, colour))
                ink, size = ("white", 10) if sign in ("+", "−") else (QUIET, 16)
                axes.text(above, left, sign, ha="center", va="center", fontsize=size, color=ink)
        names = [tick_name(name) for name in panel.rows]
        axes.set_xticks(range(len(names)), names, rotation=60, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(names)), names)
        axes.xaxis.tick_top()
        axes.set_xlim(-0.5, max(len(names), _MIN_CELLS) - 0.5)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_aspect("equal", anchor="NW")
        _style(axes, panel.title)
    save_figure(figure, path, dpi=120)
    return figure


def _limit(rows: Sequence[IntervalRow]) -> float:
    """How far from 0 a panel of differences reaches: to its farthest row, unless that would squeeze the others to dots."""
    ends = [max(abs(end) for end in (row.value, row.low, row.high) if end is not None) for row in rows]
    limit = _REACH * float(np.median(ends)) if ends else 0.0
    return limit if 0 < limit < max(ends, default=0.0) else np.inf


def _mark_cut(axes: Axes, row: IntervalRow, place: float, limit: float) -> None:
    """Draw arrows where a row extends beyond the axis, and its numbers beside the arrow on the side of its value."""
    low, high = (row.value if end is None else end for end in (row.low, row.high))
    cut = [side for side, end in ((-1, low), (1, high)) if side * end > limit]
    for side in cut:
        axes.plot(side * limit, place, "<>"[side > 0], color=_TONES[row.tone], ms=6, clip_on=False)
    if cut:
        side = max(cut, key=lambda side: side * row.value)
        text = f"{row.value:.3g}" + (f" [{low:.3g}, {high:.3g}]" if low < high else "")
        axes.annotate(
            text.replace("-", "\N{MINUS SIGN}"), (side * limit, place), (-5 * side, 3), textcoords="offset points",
            fontsize=6.5, color=INK, ha="right" if side > 0 else "left", va="bottom",
        )  # fmt: skip


def _square(x: float, y: float, colour: str) -> Rectangle:
    return Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, facecolor=colour, edgecolor="none")


def _panels(heights: Sequence[float], width: float) -> tuple[Figure, list[Axes]]:
    """A figure with panels of these sizes in inches, some side by side: a line is as high as its highest panel."""
    count, columns = len(heights), min(_COLUMNS, len(heights))
    lines = [max(heights[start : start + columns]) for start in range(0, count, columns)]
    figure = new_figure(width * columns, sum(lines))
    figure.set_layout_engine("constrained", hspace=0.06)
    every = list(np.ravel(figure.subplots(len(lines), columns, height_ratios=lines)))
    for axes in every[count:]:
        axes.remove()
    return figure, every[:count]


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.tick_params(labelsize=7, colors=INK, length=0)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
