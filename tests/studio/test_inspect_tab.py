"""The tab Inspect without a browser: its maps are labelled with the question that they answer."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from sightline.studio import inspect_tab
from sightline.studio.inspector import LayersView, TokenView
from tests.studio.plain_page import click, edit, plain_visit

LINES = [np.zeros((2, 2))] * 2
NAMES = ("A content", "B content to ray", "C ray to content", "D ray to ray", "sum")


def answer(task, value=1.0):
    maps = np.full((2, 4, 4), value)
    pictures = np.zeros((2, 16, 16, 3), np.uint8)
    view = TokenView(dict.fromkeys(NAMES, maps), maps, pictures, LINES, (0, 0.5, 0.5))
    task.answer({"event": "done", "result": view.packed()})


def open_film(visit):
    films = {
        name: SimpleNamespace(name=name, folder=name, frames=lambda: np.zeros((5, 16, 16, 3), np.uint8))
        for name in ("one", "two")
    }
    visit.studio.library = SimpleNamespace(names=lambda: list(films), film=films.__getitem__)
    visit.inspect.open("one")


@pytest.fixture
def opened(visit):
    """A visit with a film of 5 frames open."""
    open_film(visit)
    return visit


def ask(visit):
    visit.inspect.ask()
    return visit.studio.worker.tasks[-1]


def test_the_title_is_that_of_the_question_and_not_of_the_fields(opened, monkeypatch):
    inspect = opened.inspect
    edit(opened, inspect.sigma, 0.5)
    answer(opened.studio.worker.tasks[-1])
    asked = inspect.state.content
    assert "one: latent frame 1, layer 0, mean over heads, noise level 0.5" in asked
    titles = []
    monkeypatch.setattr(inspect_tab, "write_figure", lambda token, file, title: (titles.append(title), file.touch()))
    inspect.experts = [SimpleNamespace(from_sigma=0.0, layers=2, matrix=None, alpha=None)]
    inspect.frame.value, inspect.head.value = 0, "head 1"  # the maps are still those of the first question
    inspect.sigma.value = 0.9
    edit(opened, inspect.exports, "PNG")
    assert titles == ["one: latent frame 1, layer 0, mean over heads, noise level 0.5"]


def test_the_answer_to_an_earlier_question_is_not_shown(opened):
    first, second = ask(opened), ask(opened)
    assert opened.studio.worker.cancelled == [first]
    answer(first)  # it was done before it could be cancelled
    assert opened.inspect.token is None and "Reading the model" in opened.inspect.state.content
    answer(second)
    assert opened.inspect.token is not None


def test_maps_of_another_film_are_not_exported(opened):
    answer(ask(opened))
    late = ask(opened)
    opened.inspect.open("two")
    answer(late)
    assert opened.inspect.token is None and not opened.inspect.panel.visible and opened.preview_panel.visible
    edit(opened, opened.inspect.exports, "PNG")
    assert "there is nothing to export yet" in opened.said[-1]


def test_back_to_the_path_while_the_model_is_read_brings_no_panel(opened):
    question = ask(opened)
    click(opened, opened.inspect.back)
    assert opened.studio.worker.cancelled == [question]
    answer(question)
    assert opened.inspect.panel is None and opened.preview_panel.visible
    assert "Reading" not in opened.inspect.state.content


def test_back_to_the_path_the_film_that_follows_it_still_plays_and_is_not_called_outdated(opened):
    film = np.zeros((len(opened.session.trajectory), 16, 16, 3), np.uint8)
    opened.film, opened.film_name = film, "one"
    opened.generate.film_view.video.content = "<video>"
    click(opened, opened.inspect.back)
    assert opened.film is film and opened.film_name == "one"
    assert "has changed since" not in opened.generate.film_view.errors.content
    edit(opened, opened.shoot.move, "pan:9")
    assert opened.film is None and "has changed since" in opened.generate.film_view.errors.content


def test_a_slider_of_a_film_that_was_left_does_not_bring_it_back(opened):
    click(opened, opened.inspect.back)
    opened.view.scene.add_image.reset_mock()
    edit(opened, opened.inspect.frame, 0)
    edit(opened, opened.inspect.sigma, 0.2)
    assert not opened.view.scene.add_image.called
    assert [task.kind for task in opened.studio.worker.tasks] == ["weights"]


def test_a_token_stays_that_of_the_frame_in_which_it_was_clicked(opened):
    inspect = opened.inspect
    point = SimpleNamespace(ray_origin=(0.5, 0.0, -1.0), ray_direction=(0.0, 0.0, 1.0))
    inspect.picture.clicked(point)
    clicked = opened.studio.worker.tasks[-1].arguments
    assert (clicked["frame"], clicked["x"]) == (1, 0.75) and inspect.picture.mark.visible
    edit(opened, inspect.frame, 0)  # to look at another frame
    assert not inspect.picture.mark.visible
    edit(opened, inspect.layer, 1)
    assert opened.studio.worker.tasks[-1].arguments["frame"] == 1
    edit(opened, inspect.frame, 1)
    assert inspect.picture.mark.visible
    inspect.open("two")  # where nothing was clicked
    edit(opened, inspect.frame, 0)
    edit(opened, inspect.sigma, 0.2)
    asked = opened.studio.worker.tasks[-1].arguments
    assert (asked["frame"], asked["x"]) == (0, 0.5) and not inspect.picture.mark.visible


def test_the_noise_level_chooses_the_expert_whose_layers_are_shown_and_exported(opened, monkeypatch):
    def expert(name, from_sigma):
        return LayersView(from_sigma, "sweep", 2, 2, np.ones((2, 2)), [], None, None, None, None, None, f"of {name}.")

    inspect, drawn, written = opened.inspect, [], []
    monkeypatch.setattr(inspect_tab, "strengths_picture", lambda layers: drawn.append(layers) or inspect_tab._EMPTY)
    monkeypatch.setattr(inspect_tab, "write_page", lambda file, *of: (written.append(of[-1]), file.touch()))
    experts = [expert("high", 0.9), expert("low", 0.0)]
    task = opened.studio.worker.tasks[-1]
    task.answer({"event": "done", "result": {"experts": [view.packed() for view in experts]}})
    assert "of low." in inspect.note.content
    edit(opened, inspect.layer, 1)  # the figure is still that of the same expert
    edit(opened, inspect.sigma, 0.95)
    answer(opened.studio.worker.tasks[-1])
    assert "of high." in inspect.note.content and [one.note for one in drawn] == ["of low.", "of high."]
    edit(opened, inspect.sigma, 0.1)  # the maps are still those of the high noise level
    edit(opened, inspect.exports, "HTML page")
    assert [one.note for one in written] == ["of high."]


def shown_width(visit):
    """Of the picture, as a part of the view."""
    camera = visit.client.camera
    assert camera.position[:2] == (0.0, 0.0) == camera.look_at[:2]
    return 2.0 / (-2 * camera.position[2] * math.tan(camera.fov / 2) * camera.aspect)


@pytest.mark.parametrize("page_width", [1280, 1000])
def test_the_picture_fits_between_the_panels(tmp_path, monkeypatch, page_width):
    visit = plain_visit(tmp_path, monkeypatch, page_width)
    try:
        open_film(visit)
        answer(ask(visit))
        assert visit.inspect.panel.width <= 0.4 * page_width
        free = page_width - visit.gui.main_panel.width - visit.inspect.panel.width
        assert free > 0.25 * page_width
        edit(visit, visit.client.camera, None, aspect=free / 800)  # viser tells of the room that the panels leave
        assert 0.8 < shown_width(visit) < 1
        visit.client.camera.position = (0.1, 0.0, -1.0)  # the visitor looks closer
        edit(visit, visit.client.camera, None)
        assert visit.client.camera.position == (0.1, 0.0, -1.0)
    finally:
        visit.close()
