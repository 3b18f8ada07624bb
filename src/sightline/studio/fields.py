"""The fields of the page: who changed them, and their numbers, which the page itself does not keep within bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sightline.checks import plain_number, shown
from sightline.errors import SightlineError

NOTHING = "-"  # what a list shows that is empty, or of which nothing is chosen


def by_visitor(callback: Callable[[Any], None]) -> Callable[[Any], None]:
    """A callback for the changes that the visitor makes, and not for those that this program makes."""

    def called(event: Any) -> None:
        if event.client is not None:
            callback(event)

    return called


def number_in(field: Any) -> float:
    """The number of a field, within the field's bounds; an error names the field as the page does."""
    return _within(field.label, field.value, field.min, field.max)


def whole_number_in(field: Any) -> int:
    """The whole number of a field, within its bounds."""
    found = number_in(field)
    if found != int(found):
        raise SightlineError(f"{field.label} is {found:g}: expected a whole number.")
    return int(found)


def vector_in(field: Any) -> list[float]:
    """The numbers of a field of several, each within its bounds."""
    values = zip(field.value, field.min, field.max, strict=True)
    return [_within(field.label, value, low, high) for value, low, high in values]


def index_in(field: Any) -> int:
    """The whole number of a slider. What is typed beside it may be outside: it counts as the nearest end."""
    return int(min(max(field.value, field.min), field.max))


def _within(label: str, value: Any, low: float, high: float) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not low <= found <= high:  # also for NaN
        given = plain_number(found, 6) if math.isfinite(found) else shown(value)
        raise SightlineError(
            f"{label} is {given}: expected a number from {plain_number(low, 6)} to {plain_number(high, 6)}."
        )
    return found
