"""Settings in dataclasses, filled from what YAML holds: each value in its type, or a sentence with its place."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Literal

from sightline.checks import number
from sightline.errors import SightlineError


def filled(cls: type[Any], content: Any, place: str) -> Any:
    """The dataclass with these settings, or a sentence on what does not fit. place: `FILE: `, then `FILE: section.`"""
    if not isinstance(content, dict):
        raise SightlineError(f"{place.rstrip(': .')} holds {type(content).__name__}: expected settings, name: value.")
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(content) - set(hints))
    if unknown:
        raise SightlineError(f"{place}{unknown[0]} is no setting: expected one of {', '.join(hints)}.")
    required = [
        field.name for field in dataclasses.fields(cls) if field.default is field.default_factory
    ]  # both MISSING
    if missing := [name for name in required if name not in content]:
        raise SightlineError(f"{place.rstrip(': .')} has no {missing[0]}: expected one.")
    values = {name: _converted(hints[name], value, f"{place}{name}") for name, value in content.items()}
    try:
        return cls(**values)
    except SightlineError as error:
        raise SightlineError(f"{place}{error}" if place.endswith(": ") else str(error)) from None


def _converted(hint: Any, value: Any, place: str) -> Any:
    """The value in the setting's type, or a sentence; YAML reads 2e-5 as text and 1 as an int."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return filled(typing.cast("type[Any]", hint), value, f"{place}.")
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        return _converted(next(option for option in options if option is not type(None)), value, place)
    if origin is Literal:
        if value in options:
            return value
        raise SightlineError(f"{place} is {value!r}: expected one of {', '.join(map(str, options))}.")
    if origin is tuple and isinstance(value, list):
        return tuple(_converted(options[0], item, place) for item in value)
    if origin is list and isinstance(value, list):
        return [_converted(options[0], item, place) for item in value]
    if origin is dict and options[1] is not Any and isinstance(value, dict):
        return {key: _converted(options[1], item, f"{place}.{key}") for key, item in value.items()}
    if hint is float and not isinstance(value, bool):
        return number(place, value)
    if (origin or hint) is dict and isinstance(value, dict):
        return value
    if isinstance(value, hint if isinstance(hint, type) else ()) and (hint is bool or not isinstance(value, bool)):
        return value
    raise SightlineError(f"{place} is {value!r}: expected {getattr(hint, '__name__', hint)}.")


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings of settings as one dictionary, by `section.name`."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def plain(value: Any) -> Any:
    """Without tuples, which YAML would tag."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value
