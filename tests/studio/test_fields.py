"""What a page sends for a field is checked against the field, and named as the page names it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sightline.errors import SightlineError
from sightline.studio.fields import by_visitor, index_in, number_in, vector_in, whole_number_in


def field(value, low=8.0, high=400.0):
    return SimpleNamespace(label="Lens (mm)", value=value, min=low, max=high)


def test_a_number_within_the_bounds_is_taken():
    assert number_in(field(8)) == 8.0 and number_in(field(400.0)) == 400.0 and whole_number_in(field(50.0)) == 50


@pytest.mark.parametrize("value", [10_000, 7.9, -1, float("nan"), float("inf"), None, "wide", [28], {}])
def test_anything_else_is_refused_by_the_name_of_the_field(value):
    with pytest.raises(SightlineError, match=r"^Lens \(mm\) is .*: expected a number from 8 to 400\.$"):
        number_in(field(value))


def test_a_fraction_is_no_whole_number():
    with pytest.raises(SightlineError, match=r"Lens \(mm\) is 28.5: expected a whole number"):
        whole_number_in(field(28.5))


def test_each_number_of_a_vector_is_checked():
    place = SimpleNamespace(label="Position", value=(1, 2, 3.5), min=(-9,) * 3, max=(9,) * 3)
    assert vector_in(place) == [1.0, 2.0, 3.5]
    place.value = (1, 2, 1e12)
    with pytest.raises(SightlineError, match=r"^Position is 1,000,000,000,000: expected a number from -9 to 9"):
        vector_in(place)


@pytest.mark.parametrize("value, taken", [(-5, 8), (1e12, 400), (33.0, 33)])
def test_what_is_typed_beside_a_slider_counts_as_its_nearest_end(value, taken):
    assert index_in(field(value)) == taken


def test_only_changes_of_a_visitor_count():
    seen = []
    callback = by_visitor(lambda event: seen.append(event.client))
    for client in (None, "someone"):
        callback(SimpleNamespace(client=client))
    assert seen == ["someone"]
