"""Loss curves: the training loss of each run over its steps, and its held-out losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from sightline.figures.style import COLOURS, save_figure

_MARKERS = "os^Dv"  # of the kinds of held-out loss, in the order in which they are given


@dataclass(frozen=True)
class LossCurve:
    """One run.

    points: (step, training loss).
    held_out: (step, loss) by kind of held-out loss; the kinds and their order are the same for all runs.
    """

    name: str
    points: Sequence[tuple[float, float]]
    held_out: Mapping[str, Sequence[tuple[float, float]]]


def draw_loss_curves(curves: Sequence[LossCurve], path: str | Path, ylabel: str = "loss") -> Figure:
    """All runs on one pair of axes with a logarithmic loss; held-out losses are markers, named once in the legend."""
    labelled: set[str] = set()  # the markers mean the same for all runs
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.subplots()
    for index, curve in enumerate(curves):
        colour = COLOURS[index % len(COLOURS)]
        steps, losses = [step for step, _ in curve.points], [loss for _, loss in curve.points]
        axes.plot(steps, losses, color=colour, linewidth=1.4, label=curve.name)
        for marker, (kind, points) in zip(_MARKERS, curve.held_out.items(), strict=False):
            if points:
                label = None if kind in labelled else kind
                axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=5, label=label)
                labelled.add(kind)
    axes.set_xlabel("step")
    axes.set_ylabel(ylabel)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    low, high = axes.get_ylim()
    axes.yaxis.set_minor_formatter("{x:.2g}" if high < 20 * low else "")  # over several decades they would overlap
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path, dpi=120)
    return figure
