"""Figures of trajectories: frusta in 3D, the view from above, and distance, rotation and focal length over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

from sightline.cameras import lens, se3
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.figures.style import FAINT, INK, LINE, QUIET, check_figure_path, new_figure, plain_texts, save_figure
from sightline.figures.trajectory_views import TrajectoryView, trajectory_views

_INCHES = (12.0, 6.75)
_ABOVE = (0.64, 0.50, 0.335, 0.375)  # left, bottom, width and height of the view from above, as fractions of the figure
_NUMBER = FuncFormatter(lambda value, _: f"{value:.4g}")


def draw_trajectories(
    trajectories: Sequence[Trajectory],
    path: str | Path | None = None,
    title: str | None = None,
    labels: Sequence[str] | None = None,
) -> Figure:
    """Draw trajectories, each relative to its own first camera, in the axes right (x), forward (z) and up (-y).

    Left: frusta in 3D at one scale on all axes. Right: the same from above, and three curves over the frames. A single
    trajectory is coloured from its first frame to its last; several have one colour each. path: a .png, .svg or .pdf
    to write.
    """
    if not trajectories:
        raise SightlineError("trajectories is empty: expected at least one to draw.")
    if labels is not None and len(labels) != len(trajectories):
        raise SightlineError(f"labels has {len(labels)} names: expected {len(trajectories)}, one per trajectory.")
    target = None if path is None else check_figure_path(path)
    views = trajectory_views(trajectories)

    figure = new_figure(*_INCHES)
    space: Any = figure.add_axes((-0.01, 0.0, 0.59, 0.93), projection="3d")
    draw_frusta(space, views)
    _draw_from_above(figure.add_axes(_ABOVE), views)
    _draw_over_time([figure.add_axes((0.64, bottom, 0.335, 0.085)) for bottom in (0.33, 0.20, 0.07)], views)
    _draw_heading(figure, trajectories, views, title, labels)
    plain_texts(figure)
    if target is not None:
        save_figure(figure, target)
    return figure


# -- the panels -----------------------------------------------------------------------------------------------------


def draw_frusta(axes: Axes3D, views: list[TrajectoryView]) -> None:
    low, high = _box(np.concatenate([view.points for view in views]), margin=1.1)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.set_box_aspect(high - low, zoom=1.0)
    axes.view_init(elev=27, azim=-62)
    axes.set_proj_type("persp", focal_length=1.6)
    for view in views:
        shadow = view.centres.copy()
        shadow[:, 2] = low[2]
        axes.plot(*shadow.T, color=LINE, linewidth=1.2, zorder=0)
        if len(view.centres) > 1:  # 3D axes refuse an empty collection
            segments, width = _segments(view.centres), 2.2 * view.weight
            axes.add_collection3d(Line3DCollection(segments, colors=view.colours[:-1], linewidths=width))
        for frame in view.shown:
            end = frame in view.ends
            colour, apex, corners = view.colours[frame], view.centres[frame], view.corners[frame]
            edges = [(apex, corner) for corner in corners] + list(zip(corners, np.roll(corners, -1, 0), strict=True))
            axes.add_collection3d(
                Line3DCollection(edges, colors=[colour], linewidths=1.6 if end else 0.8, alpha=1.0 if end else 0.6)
            )
            faces, alpha = ([corners, _up_mark(corners)], 0.35) if end else ([corners], 0.10)
            axes.add_collection3d(Poly3DCollection(faces, facecolors=[colour], alpha=alpha, linewidths=0))
    _style_space(axes, views[0].trajectory.unit)


def _draw_from_above(axes: Axes, views: list[TrajectoryView]) -> None:
    low, high = _box(np.concatenate([view.points[:, :2] for view in views]), margin=1.25)
    low, high = _widened(low, high, ratio=_ABOVE[2] * _INCHES[0] / (_ABOVE[3] * _INCHES[1]))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_aspect("equal")
    for view in views:
        edges = view.corners[:, (0, 3)].mean(1), view.corners[:, (1, 2)].mean(1)  # left and right
        wedges = np.stack([view.centres, *edges], axis=1)[..., :2]  # [T, 3, 2], the field of view, flattened
        shown = view.shown
        axes.add_collection(
            PolyCollection(list(wedges[shown]), facecolors=view.colours[shown], alpha=0.18, linewidths=0)
        )
        outlines = list(wedges[view.ends])
        axes.add_collection(
            PolyCollection(outlines, facecolors="none", edgecolors=view.colours[view.ends], linewidths=1)
        )
        _draw_curve(axes, view.centres[:, :2], view, width=2.2)
        dots = [30 if frame in view.ends else 9 for frame in shown]
        right, forward, _ = view.centres[shown].T
        axes.scatter(right, forward, s=dots, c=view.colours[shown], zorder=3, linewidths=0)
        if len(views) == 1:
            _name_ends(axes, view)
    unit = views[0].trajectory.unit
    axes.set_xlabel(f"right ({unit})", labelpad=2)
    axes.set_ylabel(f"forward ({unit})", labelpad=2)
    _style_flat(axes, "from above", ticks=5)


def _draw_over_time(panels: list[Axes], views: list[TrajectoryView]) -> None:
    unit = views[0].trajectory.unit
    names = (f"distance from the first frame ({unit})", "turn from the first frame (degrees)", "focal length (mm)")
    last = max(max(len(view.centres) for view in views) - 1, 1)
    for view in views:
        trajectory = view.trajectory
        curves = (
            np.linalg.norm(view.centres, axis=-1),
            se3.rotation_angle(trajectory.rotations).rad2deg().numpy(),
            trajectory.intrinsics[:, 0, 0].numpy() * lens.FULL_FRAME_MM / trajectory.width,
        )
        ends = [0, len(view.centres) - 1]
        for panel, curve in zip(panels, curves, strict=True):
            _draw_curve(panel, np.stack([np.arange(len(curve), dtype=float), curve], axis=-1), view, width=1.8)
            panel.scatter(ends, curve[ends], s=14, c=view.colours[ends], zorder=3, linewidths=0)
    for panel, name in zip(panels, names, strict=True):
        panel.set_xlim(-0.02 * last, 1.02 * last)
        panel.set_ylim(*_heights(panel))
        _style_flat(panel, name, ticks=3)
        panel.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        panel.tick_params(labelbottom=panel is panels[-1])
    panels[-1].set_xlabel("frame", labelpad=2)


def _draw_heading(
    figure: Figure,
    trajectories: Sequence[Trajectory],
    views: list[TrajectoryView],
    title: str | None,
    labels: Sequence[str] | None,
) -> None:
    lengths = sorted({len(one) for one in trajectories})
    rates = sorted({round(one.fps, 2) for one in trajectories})
    sizes = {f"{one.width}x{one.height}" for one in trajectories}
    frames, fps = (_range_text(values) for values in (lengths, rates))
    details = f"{frames} frames    {sizes.pop() if len(sizes) == 1 else 'several sizes'}    {fps} fps"
    figure.text(0.03, 0.945, title or "camera trajectory", fontsize=15, color=INK, weight="bold", va="center")
    figure.text(0.975, 0.945, details, fontsize=9, color=QUIET, ha="right", va="center")
    if labels is not None:
        for row, (label, view) in enumerate(zip(labels, views, strict=True)):
            place = (0.03, 0.90 - 0.032 * row)
            figure.text(*place, f"\u25cf  {label}", fontsize=10, color=tuple(view.colours[0]), va="center")


# -- helpers --------------------------------------------------------------------------------------------------------


def _range_text(values: Sequence[float]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"{values[0]:g}-{values[-1]:g}"


def _segments(points: np.ndarray) -> np.ndarray:  # [T, D] -> [T - 1, 2, D]
    return np.stack([points[:-1], points[1:]], axis=1)


def _up_mark(corners: np.ndarray) -> np.ndarray:  # [4, 3] -> [3, 3]
    """A small triangle on the top edge of a frustum, which marks up as in other viewers."""
    top_left, top_right, _, bottom_left = corners
    across, up = top_right - top_left, top_left - bottom_left
    return np.stack([top_left + 0.25 * across, top_left + 0.75 * across, top_left + 0.5 * across + 0.3 * up])


def _box(points: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:  # [N, D] -> [D], [D]
    """Limits around all points with a margin; a flat axis still gets a part of the longest, so that it can be seen."""
    low, high = points.min(0), points.max(0)
    middle, size = (low + high) / 2, margin * (high - low)
    size = np.maximum(size, 0.3 * size.max())
    return middle - size / 2, middle + size / 2


def _widened(low: np.ndarray, high: np.ndarray, ratio: float) -> tuple[np.ndarray, np.ndarray]:  # [2], [2]
    """The same middle with the shorter side lengthened to the ratio of a panel, so that one scale fills it."""
    middle, (width, height) = (low + high) / 2, high - low
    size = np.array([max(width, height * ratio), max(height, width / ratio)])
    return middle - size / 2, middle + size / 2


def _heights(panel: Axes) -> tuple[float, float]:
    """Limits with a margin. The rounding errors of a constant curve are not magnified to the height of the panel."""
    low, high = (float(value) for value in panel.dataLim.intervaly)
    margin = 0.16 * (high - low)
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        margin = 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _draw_curve(axes: Axes, points: np.ndarray, view: TrajectoryView, width: float) -> None:  # [T, 2]
    lines = LineCollection(
        list(_segments(points)), colors=view.colours[:-1], linewidths=width * view.weight, capstyle="round"
    )
    axes.add_collection(lines)


def _name_ends(axes: Axes, view: TrajectoryView) -> None:
    """Frame numbers beside the first and the last camera, on one label where they stand on the same spot."""
    last = len(view.centres) - 1
    names = {0: "0", last: str(last)}
    if np.linalg.norm(view.centres[last] - view.centres[0]) < 0.2 * view.frustum_depth:
        names = {0: f"0, {last}"} if last else {0: "0"}
    for frame, name in names.items():
        behind = view.centres[frame] - view.corners[frame].mean(0)
        angle = np.arctan2(behind[1], behind[0])
        axes.annotate(
            name, tuple(view.centres[frame, :2]), xytext=(13 * np.cos(angle), 13 * np.sin(angle)), textcoords="offset points",
            ha="center", va="center", fontsize=8, color=tuple(view.colours[frame]), weight="bold",
        )  # fmt: skip


def _style_flat(axes: Axes, title: str, ticks: int) -> None:
    axes.set_title(title, loc="left", fontsize=8.5, color=QUIET, pad=4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINE)
    axes.grid(color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=7.5, length=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(color=QUIET, fontsize=8.5)
        axis.set_major_formatter(_NUMBER)
    axes.yaxis.set_major_locator(MaxNLocator(ticks))


def _style_space(axes: Axes3D, unit: str) -> None:
    for axis, name in ((axes.xaxis, "right"), (axes.yaxis, "forward"), (axes.zaxis, "up")):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis.line.set_color(LINE)
        # The public setters do not reach the grid and the ticks of 3D axes.
        axis._axinfo["grid"].update(color=FAINT, linewidth=0.8)
        axis._axinfo["tick"].update(inward_factor=0.0, outward_factor=0.0)
        axis.set_major_locator(MaxNLocator(4))
        axis.set_major_formatter(_NUMBER)
        axis.set_tick_params(colors=QUIET, labelsize=7.5, pad=-1)
        axis.set_label_text(f"{name} ({unit})", fontsize=8.5, color=QUIET)
    axes.zaxis.labelpad = -4
