"""The fields of the page: who changed them, and their numbers, which the page itself does not keep within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sightline.checks import number
from sightline.errors import SightlineError


def by_visitor(callback: Callable[[Any], None]) -> Callable[[Any], None]:
    """A callback for the changes that the visitor makes, and not for those that this program makes."""

    def called(event: Any) -> None:
        if event.client is not None:
            callback(event)

    return called


def number_in(field: Any) -> float:
    """The number of a field, within the field's bounds; an error names the field as the page does."""
    return number(field.label, field.value, at_least=field.min, at_most=field.max)


def whole_number_in(field: Any) -> int:
    """The whole number of a field, within its bounds."""
    found = number_in(field)
    if found != int(found):
        raise SightlineError(f"{field.label} is {found:g}: expected a whole number.")
    return int(found)


def vector_in(field: Any) -> list[float]:
    """The numbers of a field of several, each within its bounds."""
    values = zip(field.value, field.min, field.max, strict=True)
    return [number(field.label, value, at_least=low, at_most=high) for value, low, high in values]
