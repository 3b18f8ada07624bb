"""What is inside a trained model: the form of each head over two rays, and the terms of attention scores over a video."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sightline.figures.style import COLOURS, INK, LINE, QUIET, new_figure, save_figure

_SIGNED, _POSITIVE = "RdBu_r", "viridis"
_MAX_COLUMNS = 9  # latent frames of a video: all of a film of 33 frames
_MAX_HEADS = 4  # in a row
_MIN_FORM_WIDTH = 4.8  # inches, for the title above few heads
_MOST_NAMED = 6  # layers in a legend; the colours of the others lie between theirs


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
    lines: Sequence[np.ndarray] | None = None,  # [K, 2] pixels in each picture
) -> Figure:
    """A row of pictures, the query marked in its own, and below it a row of maps for each term, with the epipolar lines on top.

    A term named "attention" is drawn from 0 up, the others around 0.
    """
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
            for colour, thickness in (("white", 4), ("#d1603d", 2)):  # white around it, to be seen on any picture
                axis.plot(
                    query[1] * width - 0.5, query[2] * height - 0.5, "o", ms=7, mfc="none", mec=colour, mew=thickness
                )
        elif lines is not None:
            _line(axis, lines[frame], (height, width), (height, width))
    for row, (name, values) in zip(grid[1:], terms.items(), strict=True):
        largest = float(np.abs(values).max()) or 1.0
        colours, lowest = (_POSITIVE, 0.0) if name == "attention" else (_SIGNED, -largest)
        for axis, frame in zip(row, shown, strict=True):
            image = axis.imshow(values[frame], cmap=colours, vmin=lowest, vmax=largest, aspect="auto")
            if lines is not None and frame != query[0]:
                _line(axis, lines[frame], (height, width), values.shape[1:])
        row[0].set_ylabel(name, fontsize=7, color=INK)
        figure.colorbar(image, ax=row[-1], shrink=0.9).ax.tick_params(labelsize=6, colors=QUIET, length=0)
    for axis in grid.ravel():
        _hide_ticks(axis)
    save_figure(figure, path, dpi=110)
    return figure


def draw_layer_strengths(
    alpha: np.ndarray,  # [L, 2], of query and key
    magnitudes: Sequence[float],
    gate: np.ndarray | None,  # [L, K]
    path: str | Path,
    title: str,
) -> Figure:
    """The alphas of each layer, and the mean gate of each layer over the distance of a ray."""
    figure = new_figure(4.6, 4.4, layout="constrained")
    figure.suptitle(title, fontsize=9, color=INK, x=0.01, ha="left")
    left, right = figure.subplots(2, 1)
    layers = np.arange(len(alpha))
    for side, (name, colour) in enumerate((("query", COLOURS[0]), ("key", COLOURS[1]))):
        left.bar(layers + (side - 0.5) * 0.4, alpha[:, side], 0.4, color=colour, label=name)
    left.axhline(0, color=LINE, lw=0.8, zorder=0)
    left.set(xlabel="layer", title="alpha")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend(fontsize=7, frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))  # beside the title
    if gate is None:
        right.text(0.5, 0.5, "this encoding has no gate", ha="center", va="center", fontsize=8, color=QUIET)
        _hide_ticks(right)
    else:
        import matplotlib

        colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(gate)))
        named = set(np.linspace(0, len(gate) - 1, _MOST_NAMED).round())
        for layer, values in enumerate(gate):
            label = f"layer {layer}" if layer in named else None
            right.plot(magnitudes, values, color=colours[layer], lw=1.2, label=label)
        right.set(xscale="log", xlabel="|m|, distance of the ray from the first camera", title="mean gate", ylim=(0, 1))
        right.legend(fontsize=6, frameon=False, ncols=2)
    for axis in (left, right):
        axis.title.set(fontsize=9, color=INK)
        axis.xaxis.label.set(fontsize=8, color=QUIET)
        axis.tick_params(labelsize=7, colors=QUIET, length=0)
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, dpi=120)
    return figure


def draw_layer_form(
    matrix: np.ndarray,  # [H, F, F]
    reciprocal: np.ndarray,  # [6, 6]
    scale: np.ndarray,  # [H]
    distance: np.ndarray,  # [H]
    path: str | Path,
    title: str,
) -> Figure:
    """M of each head of a layer, and below it the reciprocal form c I that is nearest to it, in the same colours."""
    heads, columns = len(matrix), min(len(matrix), _MAX_HEADS)
    rows = -(-heads // columns)
    width = max(1.1 * columns + 0.4, _MIN_FORM_WIDTH)
    figure = new_figure(width, 2.4 * rows + 0.4, layout="constrained")
    figure.suptitle(title, fontsize=9, color=INK, x=0.01, ha="left")
    grid = figure.subplots(2 * rows, columns, squeeze=False)
    for axis in grid.ravel():
        _hide_ticks(axis)
    for head in range(heads):
        row, column = 2 * (head // columns), head % columns
        whole = np.zeros_like(matrix[head])
        whole[:6, :6] = scale[head] * reciprocal
        largest = float(np.abs(matrix[head]).max()) or 1.0
        for axis, form in ((grid[row, column], matrix[head]), (grid[row + 1, column], whole)):
            axis.imshow(form, cmap=_SIGNED, vmin=-largest, vmax=largest, interpolation="nearest")
        grid[row, column].set_title(f"head {head}: {distance[head]:.2f}", fontsize=7, color=INK)
    for row in range(rows):
        grid[2 * row, 0].set_ylabel("learned M", fontsize=7, color=INK)
        grid[2 * row + 1, 0].set_ylabel("reciprocal", fontsize=7, color=INK)
    save_figure(figure, path, dpi=120)
    return figure


def _line(axes: Axes, line: np.ndarray, picture: tuple[int, int], shape: tuple[int, ...]) -> None:
    """An epipolar line, given in pixels of the picture, over a map of this shape; a single point is drawn as one."""
    if not len(line):
        return
    x, y = (line[:, i] * (shape[1 - i] / picture[1 - i]) - 0.5 for i in (0, 1))
    marker = "o" if np.ptp(line) < 1e-6 else None
    for colour, thickness in (("white", 2.4), ("#111418", 1.0)):  # white around it, to be seen on any map
        axes.plot(x, y, color=colour, lw=thickness, marker=marker, ms=2 + thickness)
    axes.set(xlim=(-0.5, shape[1] - 0.5), ylim=(shape[0] - 0.5, -0.5))


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
