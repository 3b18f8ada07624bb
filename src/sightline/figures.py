"""What all drawn figures share: colours, the endings that a picture may have, and how one is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sightline.errors import SightlineError
from sightline.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#2f5d8c", "#d1603d", "#3f8f6b", "#8a5a9e", "#b8902f", "#4a9bb0")  # of paths, styles and runs, in this order
INK, QUIET, LINE, FAINT = "#22262b", "#7b828c", "#c3c8cf", "#e6e8ec"
PICTURE_SUFFIXES = (".png", ".svg", ".pdf")


def picture_path(path: str | Path) -> Path:
    """The path, refused unless its ending names a picture; asked before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in PICTURE_SUFFIXES:
        raise SightlineError(
            f"{target} has the suffix {target.suffix!r}: expected one of {', '.join(PICTURE_SUFFIXES)}."
        )
    return target


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Write the figure, whole or not at all, in the format of its ending."""
    with atomic_write(picture_path(path)) as temporary:
        figure.savefig(temporary, dpi=dpi)
