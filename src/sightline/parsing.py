"""Values from text: cells of tables, NAME=VALUE options and NAME?option=value&option=value."""

from __future__ import annotations

import re
import types
import typing
from pathlib import Path
from typing import Any

from sightline.checks import shown
from sightline.errors import SightlineError

_TRUE, _FALSE = ("true", "1"), ("false", "0")


def parse_value(name: str, value: Any, type_hint: Any) -> Any:
    """`value`, text or what JSON made of it, as int, float, bool, str or Path, or as one of these where it is optional.

    A tuple of texts is a list of texts, or one text with spaces between them.

    name: what the error calls the value.
    """
    options = typing.get_args(type_hint)
    if typing.get_origin(type_hint) in (typing.Union, types.UnionType):
        type_hint = next(option for option in options if option is not type(None))
    if typing.get_origin(type_hint) is tuple:
        words = value.split() if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise SightlineError(f"{name} is {value!r}: expected a list of texts.")
        return tuple(words)
    if type_hint in (int, float):
        expected = "a whole number" if type_hint is int else "a number"
        try:
            is_fraction = type_hint is int and isinstance(value, float) and value != int(value)
            if isinstance(value, bool) or is_fraction:
                raise ValueError
            return type_hint(value)
        except (TypeError, ValueError, OverflowError):
            raise SightlineError(f"{name} is {shown(value)}: expected {expected}.") from None
    if type_hint is bool:
        word = str(value).strip().lower()
        if word not in (*_TRUE, *_FALSE):
            raise SightlineError(f"{name} is {shown(value)}: expected true or false.")
        return word in _TRUE
    if not isinstance(value, str):
        raise SightlineError(f"{name} is {shown(value)}: expected text.")
    if type_hint is Path and "\0" in value:
        raise SightlineError(f"{name} is {shown(value)}: expected a path, without null characters.")
    return Path(value) if type_hint is Path else value


def parse_scalar(text: str) -> bool | int | float | str:
    """A bool where the text is true or false, an int or else a float where it is one, else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return text


def parse_assignment(name: str, text: str, expected: str = "NAME=VALUE") -> tuple[str, str]:
    """(key, value) of "key=value". The value may hold further equals signs and may be empty."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise SightlineError(f"{name} is {text!r}: expected {expected}.")
    return key, value


def parse_query(name: str, text: str) -> tuple[str, dict[str, str]]:
    """("vipe", {"folder": "out", "seed": "3"}) of "vipe?folder=out&seed=3"."""
    subject, _, query = text.partition("?")
    assignments = filter(None, query.split("&"))
    return subject, dict(parse_assignment(f"option of {name}", one, "option=value") for one in assignments)


def parse_size(text: str) -> tuple[int, int]:
    """(width, height) of "832x480"."""
    match = re.fullmatch(r"(\d{1,6})[xX](\d{1,6})", text.strip())
    if not match or not int(match[1]) * int(match[2]):
        raise SightlineError(f"size is {text!r}: expected WIDTHxHEIGHT, such as 832x480.")
    return int(match[1]), int(match[2])


def parse_shape(text: str) -> tuple[int, int, int]:
    """(frames, width, height) of "33x128x128"."""
    match = re.fullmatch(r"(\d{1,6})[xX](\d{1,6})[xX](\d{1,6})", text.strip())
    if not match or not int(match[1]) * int(match[2]) * int(match[3]):
        raise SightlineError(f"shape is {text!r}: expected FRAMESxWIDTHxHEIGHT, such as 33x128x128.")
    return int(match[1]), int(match[2]), int(match[3])
