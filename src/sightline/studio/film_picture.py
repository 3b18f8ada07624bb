"""FilmPicture: a film in the 3D view, in place of the path, as a picture whose points can be clicked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sightline.studio.visit import Visit

_WIDTH = 2.0  # of the picture in the 3D view
_MARGIN = 1.1  # of the view to the picture
_OTHER_ASPECT = 0.02  # a larger relative change of the view's shape is another one


class FilmPicture:
    """One frame of a film, one for each latent frame, and a mark where it was clicked. on_click: is called after a click."""

    def __init__(self, visit: Visit, on_click: Callable[[], object]) -> None:
        self.visit, self.on_click = visit, on_click
        self.frames: np.ndarray | None = None  # of the film that is open
        self.frame = 0  # the one that is shown
        self.is_shown = False
        self.at = (0.5, 0.5)  # the point that was clicked, as fractions of the picture
        self.at_frame: int | None = None  # the latent frame it was clicked in; None until there is a click
        self.aspect = 1.0  # of the 3D view when the visitor's view was last put before the picture
        self.node: Any = None
        self.mark: Any = None
        visit.client.camera.on_update(visit.guarded(lambda _: self.view_changed()))

    @property
    def token_frame(self) -> int:
        """The latent frame of the point that was clicked, or the one that is shown."""
        return self.frame if self.at_frame is None else self.at_frame

    def open(self, frames: np.ndarray) -> None:  # [t, H, W, 3] uint8
        """Show the last frame, with nothing clicked, and put the visitor's view before it."""
        self.frames, self.is_shown = frames, True
        self.at, self.at_frame = (0.5, 0.5), None
        self.show(len(frames) - 1)
        self.look_at()

    def show(self, frame: int) -> None:
        if self.frames is None or not self.is_shown:
            return
        self.frame = min(frame, len(self.frames) - 1)
        picture = self.frames[self.frame]
        self.node = self.visit.view.scene.add_image("/inspect/picture", picture, _WIDTH, self._height, format="png")
        self.node.on_click(self.visit.guarded(self.clicked))
        if self.mark is not None:  # the token is one of the frame that was clicked
            self.mark.visible = self.frame == self.at_frame

    def hide(self) -> None:
        self.is_shown = False
        for node in (self.node, self.mark):
            if node is not None:
                node.visible = False

    @property
    def _height(self) -> float:
        assert self.frames is not None
        return _WIDTH * self.frames.shape[1] / self.frames.shape[2]

    def look_at(self) -> None:
        """Put the visitor's view before the picture, so far away that it fits between the panels."""
        camera = self.visit.client.camera
        self.aspect = camera.aspect
        distance = _MARGIN * max(self._height, _WIDTH / self.aspect) / 2 / math.tan(camera.fov / 2)
        camera.position, camera.look_at = (0.0, 0.0, -distance), (0.0, 0.0, 0.0)
        camera.up_direction = (0.0, -1.0, 0.0)

    def view_changed(self) -> None:
        """A panel has come or gone, or the page has another size: there is more or less room for the picture."""
        if self.is_shown and abs(self.visit.client.camera.aspect / self.aspect - 1) > _OTHER_ASPECT:
            self.look_at()

    def clicked(self, event: Any) -> None:
        """A click gives a ray; the picture lies in the plane z = 0, x to the right and y down."""
        origin, direction = np.array(event.ray_origin), np.array(event.ray_direction)
        if self.frames is None or abs(direction[2]) < 1e-9:
            return
        point = origin - direction * (origin[2] / direction[2])
        x, y = point[0] / _WIDTH + 0.5, point[1] / self._height + 0.5
        if 0 <= x < 1 and 0 <= y < 1:
            self.at, self.at_frame = (float(x), float(y)), self.frame
            self.mark = self.visit.view.scene.add_icosphere(
                "/inspect/mark", 0.025, color=(209, 96, 61), position=(point[0], point[1], -0.01)
            )
            self.on_click()
