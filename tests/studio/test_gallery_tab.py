"""The tab Gallery without a browser: films that something else deletes or damages while they are listed."""

from __future__ import annotations

import shutil

import pytest

from sightline.studio.session import Session
from tests.studio.films import write_film
from tests.studio.plain_page import click, edit


@pytest.fixture
def two_films(visit):
    """A visit whose gallery has the films `one` and `two`, and shows `one`."""
    for name in ("two", "one"):
        write_film(visit.studio, Session(visit.session.info), name)
    edit(visit, visit.gallery.film, "one")
    assert "one: orbit:30" in visit.gallery.videos.content
    return visit


@pytest.mark.parametrize("word", ["Reopen", "Inspect", "Delete"])
def test_a_film_that_something_else_has_deleted_leaves_the_lists(two_films, word):
    visit, gallery = two_films, two_films.gallery
    shutil.rmtree(visit.studio.library.folder / "one")
    edit(visit, gallery.actions, word)
    assert "'one' is not in" in visit.said[-1]
    assert (gallery.film.options, gallery.film.value, visit.inspect.film.options) == (("two",), "two", ("two",))
    assert "two: orbit:30" in gallery.videos.content and "one:" not in gallery.videos.content


def test_inspect_suggests_the_film_that_was_made_or_reopened_here(two_films):
    visit, inspect = two_films, two_films.inspect
    edit(visit, visit.gallery.actions, "Reopen")
    assert inspect.film.value == "one"
    click(visit, visit.generate.start)
    write_film(visit.studio, Session(visit.session.info), "three")
    visit.studio.worker.tasks[-1].answer({"event": "done", "result": {"name": "three", "seconds": 3.0}})
    assert inspect.film.value == visit.gallery.film.value == "three"
    click(visit, inspect.open_film)
    edit(visit, visit.gallery.film, "two")
    edit(visit, visit.gallery.actions, "Reopen")  # puts the path in place of the film that was open
    assert inspect.film.value == "two"


def test_a_damaged_film_is_not_shown_as_the_one_before_it(two_films):
    visit, gallery = two_films, two_films.gallery
    (visit.studio.library.folder / "two" / "settings.json").write_text("[]")
    edit(visit, gallery.film, "two")
    assert "settings.json holds a list" in gallery.videos.content
    assert "<video" not in gallery.videos.content and gallery.commands.content == ""
    edit(visit, gallery.film, "one")
    assert "<video" in gallery.videos.content and "--move orbit:30" in gallery.commands.content
