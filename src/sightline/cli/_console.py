"""Printing: tables, lines and progress bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], whole_words: bool = False) -> None:
    """Print a table; without column names, only its rows. whole_words: never break a word of the first column, however many
    columns there are; it takes a quarter of the terminal, or the length of its longest word. Words of the header are not broken
    either, if there is room for the longest one of every column."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_header=any(header))
    names = [header[0], *(row[0] for row in rows)] if whole_words else []
    words = [word for name in names for word in name.split()]
    width = max(*map(len, words), min(Console().width // 4, max(map(len, names)))) if words else None
    longest = [max(map(len, name.split()), default=0) for name in header]
    needed = (width or 0) + sum(longest[1:]) + 2 * len(header)
    is_kept = whole_words and needed <= Console().width
    for index, name in enumerate(header):
        first = index == 0
        least = longest[index] if is_kept and not first else None
        table.add_column(
            name, style="cyan" if first else None, overflow="fold", width=width if first else None, min_width=least
        )
    for row in rows:
        table.add_row(*row)
    print_line(table)


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
