"""Text becomes values of a type, or one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.errors import SightlineError
from sightline.parsing import parse_assignment, parse_query, parse_scalar, parse_value


@pytest.mark.parametrize(
    "value, type_hint, expected",
    [
        ("3", int, 3),
        (3.0, int, 3),
        ("3", float, 3.0),
        ("3", int | None, 3),
        ("True", bool, True),
        (0, bool, False),
        ("a", str, "a"),
        ("a/b", Path | None, Path("a/b")),
    ],
)
def test_a_value_takes_the_type_that_is_asked_for(value: Any, type_hint: Any, expected: Any) -> None:
    parsed = parse_value("x", value, type_hint)
    assert parsed == expected and type(parsed) is type(expected)


@pytest.mark.parametrize(
    "value, type_hint, sentence",
    [
        ("3.5", int, "x is '3.5': expected a whole number"),
        (True, int, "x is True: expected a whole number"),
        (1e400, int, "x is inf: expected a whole number"),
        ("much", float, "x is 'much': expected a number"),
        ("maybe", bool, "x is 'maybe': expected true or false"),
        (3, str, "x is 3: expected text"),
    ],
)
def test_a_value_of_another_type_is_one_sentence(value: Any, type_hint: Any, sentence: str) -> None:
    with pytest.raises(SightlineError, match=sentence):
        parse_value("x", value, type_hint)


def test_options_come_apart() -> None:
    assert [parse_scalar(text) for text in ("3", "0.5", "true", "false", "out/x")] == [3, 0.5, True, False, "out/x"]
    assert parse_assignment("option", "a=b=c") == ("a", "b=c")
    assert parse_query("the estimator", "vipe?folder=out&seed=3") == ("vipe", {"folder": "out", "seed": "3"})
    assert parse_query("the estimator", "direct") == ("direct", {})
    with pytest.raises(SightlineError, match="expected option=value"):
        parse_query("the estimator", "vipe?folder")
