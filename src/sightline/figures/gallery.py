"""A gallery: frames of videos beside the frusta of their cameras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.figures.style import COLOURS, INK, QUIET, check_figure_path, new_figure, save_figure
from sightline.figures.trajectories import draw_frusta
from sightline.figures.trajectory_views import trajectory_views

_SHORT_SIDE = 0.4  # over the longest side
_ROW, _FRUSTA, _FRAME = 2.3, 3.2, 2.4  # inches


@dataclass(frozen=True, eq=False)
class GalleryRow:
    """videos: by name, each [T, H, W, 3] uint8. trajectories: by name, drawn into one panel in different colours."""

    label: str
    videos: Mapping[str, np.ndarray]
    trajectories: Mapping[str, Trajectory]


def draw_gallery(rows: Sequence[GalleryRow], path: str | Path, columns: int = 5) -> Figure:
    """One band per row: the frusta on the left, and beside them `columns` frames from first to last of each video."""
    if not rows:
        raise SightlineError("rows is empty: expected at least one video with its cameras.")
    target = check_figure_path(path)
    heights = [max(_ROW, 1.6 * len(row.videos)) for row in rows]
    total = sum(heights)
    figure = new_figure(_FRUSTA + columns * _FRAME, total)
    width = figure.get_figwidth()
    top = 1.0
    for row, height in zip(rows, heights, strict=True):
        band = height / total
        space: Any = figure.add_axes((0.0, top - band, _FRUSTA / width, 0.93 * band), projection="3d")
        draw_frusta(space, trajectory_views(list(row.trajectories.values())))
        space.set(xlabel="", ylabel="", zlabel="")
        _hide_crowded_numbers(space)
        figure.text(0.005, top - 0.03 * band, row.label, fontsize=8, color=INK, va="top")
        names = list(row.trajectories)
        for number, name in enumerate(names if len(names) > 1 else []):
            colour = COLOURS[number % len(COLOURS)]
            figure.text(0.005, top - (0.13 + 0.08 * number) * band, name, fontsize=6, color=colour, va="top")
        _draw_frames(figure, row, (top - band, band), _FRUSTA / width, columns)
        top -= band
    save_figure(figure, target, dpi=110)
    return figure


def _hide_crowded_numbers(space: Any) -> None:
    """No numbers along the short sides of the box: in a panel of this size they would be printed on top of each other."""
    axes = (space.xaxis, space.yaxis, space.zaxis)
    lengths = [abs(high - low) for low, high in (axis.get_view_interval() for axis in axes)]
    for axis, length in zip(axes, lengths, strict=True):
        if length < _SHORT_SIDE * max(lengths):
            axis.set_major_formatter(NullFormatter())


def _draw_frames(figure: Figure, row: GalleryRow, band: tuple[float, float], left: float, columns: int) -> None:
    """band: bottom and height, in fractions of the figure."""
    each, wide = band[1] / len(row.videos), (1.0 - left) / columns
    for line, (name, video) in enumerate(row.videos.items()):
        bottom = band[0] + band[1] - (line + 1) * each
        for column, frame in enumerate(np.linspace(0, len(video) - 1, columns).round().astype(int)):
            axes = figure.add_axes((left + column * wide, bottom + 0.08 * each, 0.97 * wide, 0.84 * each))
            axes.imshow(video[frame])
            axes.set_axis_off()
            title = f"{name}, frame {frame}" if name and column == 0 else f"frame {frame}"
            axes.set_title(title, fontsize=6, color=QUIET, pad=2)
