"""What is inside a trained model: the form of each head over two rays, and the terms of attention scores over a video."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sightline.figures.style import INK, QUIET, new_figure, save_figure

_SIGNED, _POSITIVE = "RdBu_r", "viridis"
_MAX_COLUMNS = 6  # latent frames of a video


def draw_ray_form(
    matrix: np.ndarray,  # [L, H, F, F]
    scale: np.ndarray,  # [L, H]
    distance: np.ndarray,  # [L, H]
    path: str | Path,
    title: str,
) -> Figure:
    """Layers by heads: the distance of M from the reciprocal form and its scale; then M of the nearest and the farthest head."""
    figure = new_figure(13.0, 3.6, layout="constrained")
    axes = figure.subplots(1, 4)
    figure.suptitle(title, fontsize=10, color=INK, x=0.01, ha="left")
    _heat(axes[0], distance, "distance from the reciprocal form", _POSITIVE, 0.0, 1.0)
    largest = float(np.abs(scale).max()) or 1.0
    _heat(axes[1], scale, "scale c", _SIGNED, -largest, largest)
    for axis in axes[:2]:
        axis.set_xlabel("head", fontsize=8, color=QUIET)
        axis.set_ylabel("layer", fontsize=8, color=QUIET)
    for axis, place, word in ((axes[2], distance.argmin(), "nearest"), (axes[3], distance.argmax(), "farthest")):
        layer, head = np.unravel_index(int(place), distance.shape)
        form = matrix[layer, head]
        largest = float(np.abs(form).max()) or 1.0
        _heat(axis, form, f"M of the {word}: layer {layer}, head {head}", _SIGNED, -largest, largest)
    save_figure(figure, path, dpi=130)
    return figure


def draw_score_terms(
    pictures: np.ndarray,  # [t, H, W, 3] uint8, the picture of each latent frame
    terms: Mapping[str, np.ndarray],  # [t, rows, columns] each
    query: tuple[int, float, float],  # latent frame, and where the token is in its picture: x and y as fractions
    path: str | Path,
    title: str,
) -> Figure:
    """A row of pictures, the query marked in its own, and below it a row of maps for each term."""
    shown = sorted({*np.linspace(0, len(pictures) - 1, min(_MAX_COLUMNS, len(pictures))).round().astype(int), query[0]})
    height, width = pictures.shape[1:3]
    figure = new_figure(
        2.0 * len(shown) + 0.9, (1.9 * height / width + 0.15) * (len(terms) + 1) + 0.5, layout="constrained"
    )
    figure.suptitle(title, fontsize=9, color=INK, x=0.01, ha="left")
    grid = figure.subplots(len(terms) + 1, len(shown), squeeze=False)
    for axis, frame in zip(grid[0], shown, strict=True):
        axis.imshow(pictures[frame])
        axis.set_title(f"latent frame {frame}", fontsize=7, color=QUIET)
        if frame == query[0]:
            axis.plot(query[1] * width - 0.5, query[2] * height - 0.5, "o", ms=7, mfc="none", mec="#d1603d", mew=2)
    for row, (name, values) in zip(grid[1:], terms.items(), strict=True):
        largest = float(np.abs(values).max()) or 1.0
        for axis, frame in zip(row, shown, strict=True):
            image = axis.imshow(values[frame], cmap=_SIGNED, vmin=-largest, vmax=largest, aspect="auto")
        row[0].set_ylabel(name, fontsize=7, color=INK)
        figure.colorbar(image, ax=row[-1], shrink=0.9).ax.tick_params(labelsize=6, colors=QUIET, length=0)
    for axis in grid.ravel():
        _hide_ticks(axis)
    save_figure(figure, path, dpi=110)
    return figure


def _heat(axes: Axes, values: np.ndarray, title: str, colours: str, low: float, high: float) -> None:
    image = axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    axes.set_title(title, fontsize=8, color=INK, loc="left")
    axes.tick_params(labelsize=6, colors=QUIET, length=0)
    figure = axes.figure
    figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=6, colors=QUIET, length=0)


def _hide_ticks(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
