"""Pages that were closed: a new page offers to go on with the last one, once, and until something was made on it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sightline.generation.model import Model, ModelOptions
from sightline.studio.closed_pages import ClosedPage, ClosedPages
from sightline.studio.session import Session
from tests.studio.browser import picture
from tests.studio.plain_page import click, edit, plain_visit


@pytest.fixture
def open_page(tmp_path, monkeypatch):
    """Pages of one studio, one after the other."""
    pytest.importorskip("viser", reason="viser is not installed.")
    closed, visits = ClosedPages(), []

    def open_page():
        visits.append(plain_visit(tmp_path, monkeypatch, closed_pages=closed))
        return visits[-1]

    def close_page(visit):
        visit.close()
        closed.keep(visit.closed_page())

    open_page.close = close_page
    open_page.closed = closed
    yield open_page
    for visit in visits:
        visit.close()


def test_a_new_page_goes_on_with_keys_picture_and_settings(open_page):
    first = open_page()
    assert not first.shoot.go_on.visible
    edit(first, first.shoot.upload, SimpleNamespace(name="room.png", content=picture()))
    click(first, first.shoot.keys.start)
    edit(first, first.shoot.keys.key, 2)
    edit(first, first.shoot.keys.lens, 50.0)
    edit(first, first.generate.frames, 17)
    edit(first, first.generate.prompt, "a red room")
    edit(first, first.generate.seed, 7)
    made = first.session.trajectory
    open_page.close(first)

    second = open_page()
    assert second.shoot.go_on.visible
    click(second, second.shoot.go_on)
    assert second.session is first.session and second.session.trajectory is made
    assert second.session.picture is not None and second.session.mode == "keys"
    assert (second.generate.prompt.value, second.generate.seed.value) == ("a red room", 7)
    assert second.generate.frames.value == 17 and not second.shoot.go_on.visible
    edit(second, second.shoot.keys.actions, "Undo")
    assert second.session.history.current.keys[2].focal_mm != 50.0  # the steps of the history are there, too
    assert second.said == []


def test_it_is_offered_until_something_is_made_and_to_one_page_only(open_page):
    first = open_page()
    edit(first, first.shoot.move, "pan:10")
    open_page.close(first)
    second, third = open_page(), open_page()
    edit(second, second.shoot.move, "tilt:5")
    assert not second.shoot.go_on.visible and third.shoot.go_on.visible
    click(third, third.shoot.go_on)
    assert third.session.move == "pan:10" and len(open_page.closed) == 0
    click(second, second.shoot.go_on)  # before the page has heard of it
    assert "another page goes on with it" in second.said[-1] and second.session.move == "tilt:5"


def test_nothing_is_kept_of_a_page_on_which_nothing_was_made_nor_of_too_many(open_page):
    open_page.close(open_page())
    assert len(open_page.closed) == 0
    pages, info = ClosedPages(limit=2), Model(ModelOptions()).info
    for move in ("pan:1", "pan:2", "pan:3"):
        pages.keep(ClosedPage(Session(info, move=move), "film", None))
    assert [pages.take().session.move for _ in range(2)] == ["pan:3", "pan:2"] and pages.take() is None


def test_settings_that_cannot_be_read_are_left_out(open_page):
    first = open_page()
    edit(first, first.shoot.move, "pan:10")
    first.generate.steps.value = None  # an empty field
    open_page.close(first)
    second = open_page()
    click(second, second.shoot.go_on)
    assert (
        second.session.move == "pan:10"
        and second.generate.steps.value == first.session.info.defaults.num_inference_steps
    )


def test_a_page_that_other_machines_reach_is_not_kept(tmp_path):
    pytest.importorskip("viser", reason="viser is not installed.")
    from sightline.studio.app import Studio
    from tests.studio.stand_in import stand_in_worker

    for host, is_kept in (("127.0.0.1", True), ("0.0.0.0", False)):
        studio = Studio(ModelOptions(), tmp_path, host=host, port=0, token="long-enough", worker=stand_in_worker())
        assert (studio.closed_pages is not None) == is_kept
        studio.close()
