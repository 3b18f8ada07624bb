"""The 3D view: what is drawn again is replaced under its name, and never removed first."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from sightline.cameras import moves
from sightline.studio.keyframes import keys_along
from sightline.studio.scene_view import SceneView


class Scene:
    """Keeps the place of each node as a page does: a new node sends its place only if that is not the origin, or if it replaces
    one; what a page has removed it still remembers the place of."""

    def __init__(self):
        self.nodes, self.places = {}, {}

    def add_frame(self, name, *_, **__):
        self.nodes[name] = SimpleNamespace()

    add_line_segments = add_frame

    def add_camera_frustum(self, name, *_, position=(0.0, 0.0, 0.0), **__):
        if np.any(position) or name in self.nodes:
            self.places[name] = tuple(np.asarray(position, float))
        events = dict.fromkeys(("on_click", "on_update"), lambda _: None)
        self.nodes[name] = SimpleNamespace(remove=lambda: self.nodes.pop(name), **events)
        return self.nodes[name]

    add_transform_controls = add_camera_frustum

    def shown(self, kind):
        return [self.places.get(name, (0.0, 0.0, 0.0)) for name in sorted(self.nodes) if name.startswith(kind)]


@pytest.fixture
def view():
    return SceneView(SimpleNamespace(scene=Scene()))


def test_a_path_that_stands_still_is_drawn_where_it_stands(view):
    view.draw_path(moves.orbit(60, 2.0, frames=33, width=64, height=64))
    assert any(np.linalg.norm(place) > 1 for place in view.scene.shown("/path/frustum"))
    view.draw_path(moves.static(frames=33, width=64, height=64))
    assert len(view.scene.shown("/path/frustum")) == 8 and not np.any(view.scene.shown("/path/frustum"))
    view.draw_path(moves.static(frames=33, width=64, height=64), frusta=False)
    assert view.scene.shown("/path/frustum") == []


def test_keys_and_handles_are_drawn_where_the_keys_are(view):
    keys = keys_along(moves.truck(1.0, frames=9, width=64, height=64), 3)
    view.draw_keys(keys, 1.0, 1, lambda _: None)
    view.draw_gizmo(keys.keys[1].camera_to_world, lambda _: None)
    assert np.linalg.norm(view.scene.shown("/keys/gizmo")) > 0.1
    still = keys_along(moves.static(frames=9, width=64, height=64), 2)
    view.draw_keys(still, 1.0, 1, lambda _: None)
    view.draw_gizmo(torch.eye(4, dtype=torch.float64), lambda _: None)
    assert len(view.scene.shown("/keys/")) == 3 and not np.any(view.scene.shown("/keys/"))
    view.draw_gizmo(None, lambda _: None)
    view.draw_keys(None, 1.0, 0, lambda _: None)
    assert view.scene.shown("/keys/") == []


def test_lines_have_one_colour_as_frusta_have():
    """viser shows the colours of single points paler than they are."""
    view = SceneView(SimpleNamespace(scene=MagicMock()))
    view.draw_path(moves.truck(1.0, frames=5))
    colour = view.scene.add_line_segments.call_args.args[2]
    assert colour == view.scene.add_camera_frustum.call_args.kwargs["color"]


def test_keys_make_room_for_an_estimated_path():
    view = SceneView(
        SimpleNamespace(scene=MagicMock(add_frame=lambda name, **_: SimpleNamespace(name=name, visible=True)))
    )
    keys = next(parent for parent in view._parents if parent.name == "/keys")
    view.draw_estimate(moves.truck(1.0, frames=5).camera_to_world.numpy())
    drawn = view.scene.add_line_segments.call_args
    assert drawn.args[0] == "/path/estimate" and drawn.kwargs["thickness"] > 3.0 and not keys.visible
    view.show_path(False)  # for a film in Inspect
    view.show_path(True)
    assert not keys.visible
    view.draw_estimate(None)
    assert keys.visible
    view.show_path(False)  # for a film in Inspect
    view.draw_estimate(None)
    assert not keys.visible
