"""Overrides of a recipe's `model.encoding` from text, such as `--model.encoding.name prope --model.encoding.branch own`.

The other sections of a recipe are dataclasses with fixed fields, which tyro overrides. The fields of an encoding depend on
its name, so they are parsed here.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from sightline.encodings import encoding_from_config, encoding_names, get_encoding
from sightline.errors import SightlineError
from sightline.parsing import parse_value

_NONE = ("none", "null")


def override_encoding(encoding: Mapping[str, Any] | None, overrides: Mapping[str, str]) -> dict[str, Any] | None:
    """The encoding's settings with some of them replaced.

    encoding: a recipe's `model.encoding`. overrides: texts by field name; the empty name stands for the encoding as a whole,
    and its only value is none. Another `name` than the recipe's drops the recipe's settings, which belong to its own method.
    """
    fields = {name: text for name, text in overrides.items() if name}
    if "" in overrides:
        if overrides[""].lower() not in _NONE or fields:
            raise SightlineError(
                f"model.encoding is {overrides['']!r}: expected none alone, or model.encoding.name and other fields."
            )
        return None
    name = fields.pop("name", None) or (encoding or {}).get("name")
    if name is None:
        raise SightlineError(
            f"model.encoding.{next(iter(fields))} is set without an encoding: expected model.encoding.name, one of "
            f"{', '.join(encoding_names())}."
        )
    if name not in encoding_names():
        raise SightlineError(f"model.encoding.name is {name!r}: expected one of {', '.join(encoding_names())}.")
    hints = typing.get_type_hints(get_encoding(name))
    known = [field.name for field in dataclasses.fields(get_encoding(name))]
    settings: dict[str, Any] = {"name": name}
    if encoding is not None and encoding.get("name") == name:
        settings |= encoding
    for field, text in fields.items():
        if field not in known:
            choices = f"one of name, {', '.join(known)}" if known else "its name alone"
            raise SightlineError(f"model.encoding.{field} is no setting of {name}: expected {choices}.")
        settings[field] = _parse(f"model.encoding.{field}", text, hints[field])
    try:
        encoding_from_config(settings)
    except SightlineError as error:
        raise SightlineError(f"model.encoding: {error}") from None
    return settings


def _parse(name: str, text: str, hint: Any) -> Any:
    """The text in the type of an encoding's field."""
    options = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        if type(None) in options and text.lower() in _NONE:
            return None
        return _parse(name, text, next(option for option in options if option is not type(None)))
    if typing.get_origin(hint) is Literal:
        choices = {str(option): option for option in options}
        if text not in choices:
            raise SightlineError(f"{name} is {text!r}: expected one of {', '.join(choices)}.")
        return choices[text]
    return parse_value(name, text, hint)
