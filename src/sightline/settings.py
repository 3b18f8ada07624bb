"""Dataclasses from plain data, such as what YAML or JSON holds, and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Literal

from typing_extensions import is_typeddict

from sightline.checks import number, shown
from sightline.errors import SightlineError


def from_dict(cls: type[Any], content: Any, place: str) -> Any:
    """A dataclass from a dictionary, with every value checked and converted to the type of its field.

    place: how errors begin; `FILE: ` at the top level and `FILE: section.` inside a section.
    """
    if not isinstance(content, dict):
        raise SightlineError(f"{place.rstrip(': .')} holds {type(content).__name__}: expected settings, name: value.")
    hints = typing.get_type_hints(cls)
    unknown = sorted(str(name) for name in content if name not in hints)
    if unknown:
        raise SightlineError(f"{place}{unknown[0][:60]} is no setting: expected one of {', '.join(hints)}.")
    required = [
        field.name for field in dataclasses.fields(cls) if field.default is field.default_factory
    ]  # both MISSING
    if missing := [name for name in required if name not in content]:
        raise SightlineError(f"{place.rstrip(': .')} has no {missing[0]}: expected one.")
    values = {name: convert(hints[name], value, f"{place}{name}") for name, value in content.items()}
    try:
        return cls(**values)
    except SightlineError as error:
        raise SightlineError(f"{place}{error}" if place.endswith(": ") else str(error)) from None


def convert(hint: Any, value: Any, place: str) -> Any:
    """The value in the type that the hint says, or one sentence that begins with `place`.

    YAML reads 2e-5 as text and 1 as an int, and both may be meant as a float. A TypedDict is a dictionary that has at least
    these entries.
    """
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast("type[Any]", hint), value, f"{place}.")
    if is_typeddict(hint) and isinstance(value, dict):
        return value | {name: _entry(value, name, item, place) for name, item in typing.get_type_hints(hint).items()}
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        return convert(next(option for option in options if option is not type(None)), value, place)
    if origin is Literal:
        if any(value == option and type(value) is type(option) for option in options):
            return value
        raise SightlineError(f"{place} is {shown(value)}: expected one of {', '.join(map(str, options))}.")
    if origin is tuple and options[0] is str and isinstance(value, str):
        return (value,)  # one text, without the brackets of a list
    if origin is tuple and options[-1] is not ... and isinstance(value, list | tuple) and len(value) == len(options):
        return tuple(convert(option, item, place) for option, item in zip(options, value, strict=True))
    if origin is tuple and options[-1] is ... and isinstance(value, list | tuple):
        return tuple(convert(options[0], item, place) for item in value)
    if origin is list and isinstance(value, list):
        return [convert(options[0], item, f"{place}[{index}]") for index, item in enumerate(value)]
    if origin is dict and options[1] is not Any and isinstance(value, dict):
        return {key: convert(options[1], item, f"{place}.{key}") for key, item in value.items()}
    if hint is float and not isinstance(value, bool):
        return number(place, value)
    if (origin or hint) is dict and isinstance(value, dict):
        return value
    is_class = isinstance(hint, type) and not is_typeddict(hint)
    if isinstance(value, hint if is_class else ()) and (hint is bool or not isinstance(value, bool)):
        return value
    raise SightlineError(f"{place} is {shown(value)}: expected {_name(hint)}.")


def _entry(holder: dict[str, Any], name: str, hint: Any, place: str) -> Any:
    if name not in holder:
        raise SightlineError(f"{place} has no {name}: expected one.")
    return convert(hint, holder[name], f"{place}.{name}")


def _name(hint: Any) -> str:
    """What an error calls the type."""
    kind, options = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is tuple and options[-1] is not ...:
        return f"a list of {len(options)}"
    names = {
        str: "text",
        int: "a whole number",
        bool: "true or false",
        dict: "an object",
        list: "a list",
        tuple: "a list",
    }
    return names.get(kind, "an object" if is_typeddict(hint) else getattr(hint, "__name__", str(hint)))


def flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one dictionary, by `section.name`."""
    items: dict[str, Any] = {}
    for name, value in settings.items():
        items |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return items


def to_builtin(value: Any) -> Any:
    """The value with lists instead of tuples, which YAML would write with a tag."""
    if isinstance(value, dict):
        return {key: to_builtin(item) for key, item in value.items()}
    return [to_builtin(item) for item in value] if isinstance(value, tuple | list) else value
