"""What all figures share: colours, an empty figure, the file types a figure may have, and writing one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sightline.errors import SightlineError
from sightline.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (
    "#2f5d8c",
    "#d1603d",
    "#3f8f6b",
    "#8a5a9e",
    "#b8902f",
    "#4a9bb0",
)  # of trajectories, sources and runs, in order
INK, QUIET, LINE, FAINT = "#22262b", "#7b828c", "#c3c8cf", "#e6e8ec"
FIGURE_SUFFIXES = (".png", ".svg", ".pdf")


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = None) -> Figure:
    """An empty white figure of this size in inches. It does not touch pyplot's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    return figure


def check_figure_path(path: str | Path) -> Path:
    """The path of a figure, refused unless its suffix is one that can be written. Call it before long work."""
    target = Path(path)
    if target.suffix.lower() not in FIGURE_SUFFIXES:
        raise SightlineError(
            f"{target} has the suffix {target.suffix!r}: expected one of {', '.join(FIGURE_SUFFIXES)}."
        )
    return target


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Write the figure atomically, in the format that its suffix names."""
    with atomic_write(check_figure_path(path)) as temporary:
        figure.savefig(temporary, dpi=dpi)
