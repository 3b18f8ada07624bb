"""What all figures share: colours, an empty figure, the file types a figure may have, and writing one."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sightline.errors import SightlineError
from sightline.files import atomic_write, reason

_log = logging.getLogger("sightline")
_MAX_LETTERS, _MAX_TICK_LETTERS = 200, 40  # of a title or a name in a figure, and of the label of a tick

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


def plain_texts(figure: Figure) -> None:
    """Show names as they are written: not as formulas between dollar signs, and cut to a length that can be drawn quickly."""
    from matplotlib.text import Text  # here, as all of matplotlib: importing it takes a while

    for text in figure.findobj(Text):
        written = shorten(text.get_text(), _MAX_LETTERS)
        if written != text.get_text():
            text.set_text(written)
        if "$" in written.replace(r"\$", ""):
            text.set_parse_math(False)


def tick_name(name: str) -> str:
    """A name as the label of a tick. Ticks write their labels anew when they are drawn, so their text is made plain before."""
    return shorten(name, _MAX_TICK_LETTERS).replace("$", r"\$")


def in_lines(text: str, letters: int) -> str:
    """Text of several words in at most two lines of about this many letters, the second one shortened. A unit in parentheses
    stays beside the word before it."""
    kept = shorten(text, 4 * letters).replace(" (", "\N{NO-BREAK SPACE}(")
    first, *rest = textwrap.wrap(kept, letters) or [""]
    return "\n".join([first, shorten(" ".join(rest), letters)]) if rest else first


def shorten(text: str, letters: int) -> str:
    """At most this many letters, without the halves of characters that no font can draw."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= letters else f"{text[: letters - 3].rstrip()}..."


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Write the figure atomically, in the format that its suffix names."""
    with atomic_write(check_figure_path(path)) as temporary:
        plain_texts(figure)
        figure.savefig(temporary, dpi=dpi)


@contextmanager
def picture_or_warning(path: str | Path) -> Iterator[None]:
    """Draw a picture that accompanies a result. If that fails, a warning says so, and the result is kept without it."""
    try:
        yield
    except Exception as error:
        _log.warning("%s cannot be drawn (%s): everything else is kept.", path, reason(error))
