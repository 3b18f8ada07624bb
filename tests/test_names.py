"""Names that become paths: plain, short, different, and inside the folder they are meant for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import SightlineError
from sightline.names import plain_name, require_plain_name, unique_names


@given(st.lists(st.text(max_size=300), max_size=8))
def test_any_texts_become_different_plain_names(texts):
    names = unique_names(texts)
    assert len({name.casefold() for name in names}) == len(texts)
    for name in names:
        assert name == plain_name(name) == require_plain_name("name", name)
        assert name and "/" not in name and "\0" not in name and not name.startswith(".") and len(name.encode()) <= 150


def test_names_that_collide_get_a_suffix():
    assert unique_names(["a/b", "a b", "a_b", "A_b", "..", "/etc/passwd"]) == [
        "a_b", "a_b-2", "a_b-3", "A_b-4", "_", "_etc_passwd",
    ]  # fmt: skip
    assert unique_names(["GT", "x"], taken=["GT"]) == ["GT-2", "x"]
    assert plain_name("scene-1.2+x@y_ü") == "scene-1.2+x@y_ü"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/a", ".hidden", "a\0b", None, "x" * 200])
def test_a_name_that_is_not_plain_is_refused(name):
    with pytest.raises(SightlineError, match=r"the clip's name is .*: expected letters, digits and"):
        require_plain_name("the clip's name", name)
