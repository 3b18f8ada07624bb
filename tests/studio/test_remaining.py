"""The remaining time, with a clock that the test sets."""

from __future__ import annotations

import pytest

from sightline.studio.remaining import Remaining, duration


def test_the_time_left_follows_from_the_speed_so_far():
    now = 100.0
    remaining = Remaining(lambda: now)
    remaining.update(0.1)  # whatever came before, such as loading a model, does not count
    assert str(remaining) == ""
    now = 104.0
    remaining.update(0.11)
    assert str(remaining) == ""  # too early to say
    now = 110.0
    remaining.update(0.35)
    assert str(remaining) == "about 25 s left"
    now = 120.0
    remaining.update(1.0)
    assert str(remaining) == "about 1 s left"


@pytest.mark.parametrize(
    "seconds, words", [(0, "1 s"), (7.4, "7 s"), (42, "40 s"), (89, "90 s"), (300, "5 min"), (9000, "2.5 h")]
)
def test_a_duration_is_rounded_as_it_is_said(seconds, words):
    assert duration(seconds) == words
