"""The tab Shoot without a browser: numbers as they are typed, letter by letter, and what the path is made of."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.studio import visit as visits
from tests.studio.plain_page import click, edit


@pytest.fixture
def timers(monkeypatch):
    """What would be done after a while."""
    waiting = []

    class Timer:
        def __init__(self, seconds, work):
            self.start = lambda: waiting.append(work)

    monkeypatch.setattr(visits.threading, "Timer", Timer)
    return waiting


def fields(visit):
    click(visit, visit.shoot.keys.start)
    keys = visit.shoot.keys
    return [
        (visit.shoot.lens, 35.0, lambda: visit.session.focal_mm),
        (visit.shoot.depth.distance, 0.5, lambda: visit.session.distance),
        (keys.lens, 35.0, lambda: keys.keyframes.keys[keys.chosen].focal_mm),
        (keys.seconds, 0.5, lambda: keys.keyframes.keys[keys.chosen].seconds),
    ]


def test_a_number_can_be_typed_although_its_first_letter_is_refused(visit, timers):
    for field, value, used in fields(visit):
        first = float(f"{value:g}"[0])  # 3 of 35, 0 of 0.5
        edit(visit, field, first)
        assert field.value == first and used() != first
        edit(visit, field, value)
        for work in timers:
            work()
        assert field.value == used() == value and visit.said == []


def test_a_refused_number_that_stays_is_told_and_replaced(visit, timers):
    for field, _, used in fields(visit):
        before = used()
        edit(visit, field, 0.0)
        timers[-1]()
        assert field.value == pytest.approx(used()) == pytest.approx(before)
        assert f"{field.label} is 0: expected a number from" in visit.said[-1]


def test_a_move_whose_name_means_something_else_elsewhere_is_explained_on_the_page(visit):
    for _ in range(2):  # every time that it is typed
        edit(visit, visit.shoot.move, "push in 1, pan left 20")
        assert "push in is read as dolly in." in visit.shoot.move_error.content
        assert "pan left turns the camera; to move it say truck left." in visit.shoot.move_error.content
        edit(visit, visit.shoot.move, "orbit:30")
        assert visit.shoot.move_error.content == ""


def test_the_easing_of_moves_leaves_keys_alone_and_undo_brings_them_back(visit):
    keys = visit.shoot.keys
    assert not keys.actions.visible
    click(visit, keys.start)
    made = visit.session.history.current
    edit(visit, visit.shoot.easing, "ease")
    assert visit.session.mode == "keys" and visit.session.history.current is made
    edit(visit, visit.shoot.move, "pan:10")
    assert (visit.session.mode, visit.session.easing) == ("move", "ease") and keys.actions.visible
    edit(visit, keys.actions, "Delete")
    assert "the path is not made of keys" in visit.said[-1]
    edit(visit, keys.actions, "Undo")
    assert visit.session.mode == "keys" and visit.session.history.current is made
    edit(visit, visit.shoot.move, "pan:20")
    edit(visit, visit.shoot.easing, "linear")
    assert (visit.session.mode, visit.session.move, visit.session.easing) == ("move", "pan:20", "linear")


def test_a_format_without_a_lens_says_so_when_it_is_saved(visit):
    edit(visit, visit.shoot.move, "zoom:28>50")
    for name, has_lens in (("re10k", True), ("sightline", True), ("tum", False), ("kitti", False)):
        visit.said.clear()
        visit.shoot.format.value = name
        click(visit, visit.shoot.save)
        assert visit.client.send_file_download.call_args.args[0].startswith(name)
        assert has_lens == (visit.said == []) and (has_lens or f"format {name} have no lens" in visit.said[0])


def test_a_key_from_the_view_replaces_a_typed_move_in_one_step_of_the_history(visit):
    keys, camera = visit.shoot.keys, visit.client.camera
    click(visit, keys.start)
    edit(visit, keys.key, 3)
    edit(visit, visit.shoot.move, "pan:10")
    camera.position = (0.1, -0.2, 0.3)
    click(visit, keys.insert)
    assert visit.session.mode == "keys" and len(keys.keyframes) == 2 and keys.chosen == 1
    assert keys.keyframes.keys[1].camera_to_world[:3, 3].tolist() == pytest.approx([0.1, -0.2, 0.3])
    edit(visit, keys.actions, "Undo")
    assert (visit.session.mode, visit.session.move) == ("move", "pan:10")
    edit(visit, keys.actions, "Undo")
    assert visit.session.mode == "keys" and len(keys.keyframes) == 4


def test_after_a_key_from_the_view_the_view_is_behind_the_key(visit):
    """From within, the frustum and the handles of the new key would cover everything."""
    camera = visit.client.camera
    camera.position, camera.wxyz = (0.5, 0.0, -1.0), (0.0, 0.0, 1.0, 0.0)  # it looks along -z
    click(visit, visit.shoot.keys.insert)
    key = visit.shoot.keys.keyframes.keys[1].camera_to_world
    position, look_at = np.array(camera.position), np.array(camera.look_at)
    assert position[2] > key[2, 3] > look_at[2] and position[0] == look_at[0] == 0.5
    assert np.linalg.norm(position - key[:3, 3].numpy()) > 2 * visit.view.size


def test_another_field_of_a_key_leaves_its_position_as_it_is(visit):
    keys, exact = visit.shoot.keys, [0.123456789, 0.0, -0.2]
    visit.client.camera.position = exact
    click(visit, keys.insert)
    edit(visit, keys.seconds, 2.0)
    assert keys.keyframes.keys[1].seconds == 2.0 and keys.keyframes.keys[1].camera_to_world[:3, 3].tolist() == exact
    edit(visit, keys.place, (0.1235, 0.0, 0.3))
    assert keys.keyframes.keys[1].camera_to_world[:3, 3].tolist() == [0.1235, 0.0, 0.3]
