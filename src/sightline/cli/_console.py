"""Printing: tables, lines and progress bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
_BETWEEN = 3  # characters between two columns


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], whole_words: bool = False) -> None:
    """Print a table; without column names, only its rows. whole_words: never break a word: where the terminal has no room for
    all columns, the others follow below, again beside the first one, which takes up to a quarter of the terminal. A single
    column that is too wide is broken nevertheless."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    needed = [max(_longest_word(row[index]) for row in (header, *rows)) for index in range(len(header))]
    width = Console().width
    needed[0] = max(needed[0], min(width // 4, max(len(row[0]) for row in (header, *rows))))
    parts = _parts(needed, width) if whole_words else [list(range(len(header)))]
    for number, columns in enumerate(parts):
        shown = title if number == 0 else None
        table = Table(
            title=shown, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_header=any(header)
        )
        for index in columns:
            least = needed[index] if whole_words and len(columns) > 2 else None
            table.add_column(header[index], style="cyan" if index == 0 else None, overflow="fold", min_width=least)
        for row in rows:
            table.add_row(*(row[index] for index in columns))
        print_line(table)


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _parts(needed: Sequence[int], width: int) -> list[list[int]]:
    """Columns that fit beside the first one, part by part."""
    parts: list[list[int]] = [[0]]
    for index in range(1, len(needed)):
        if len(parts[-1]) > 1 and sum(needed[i] + _BETWEEN for i in (*parts[-1], index)) + 1 > width:
            parts.append([0])
        parts[-1].append(index)
    return parts


def print_line(what: object) -> None:
    """Print text or a rich renderable, exactly as it is."""
    from rich.console import Console

    # File names must not be read as markup or emoji, or be highlighted.
    Console(markup=False, emoji=False, highlight=False, soft_wrap=isinstance(what, str)).print(what)


def bar(items: Sequence[Item], what: str) -> Iterable[Item]:
    """The items, with a progress bar on stderr if that is a terminal. The bar disappears at the end."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, description=what, console=console, transient=True, disable=not console.is_terminal)
