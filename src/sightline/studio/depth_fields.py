"""The depth in the tab Shoot: where the points of the picture stand, from a plane, a room, a file, the world or a model."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from sightline.errors import SightlineError
from sightline.files import failure
from sightline.studio import depth as depths
from sightline.studio import uploads
from sightline.studio.fields import number_in
from sightline.studio.page_text import sentence

if TYPE_CHECKING:
    from sightline.studio.visit import Visit


class DepthFields:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        gui, session = visit.gui, visit.session
        self.source = gui.add_dropdown("Depth", depths.SOURCES, initial_value=session.depth_source)
        self.distance = gui.add_number("Distance", session.distance, min=0.05, max=100.0, step=0.05, hint=(
            "Of the subject, in scene units: the wall of a plane, and the radius of an orbit."))  # fmt: skip
        self.file_folder = gui.add_folder("Depth from a file")  # viser cannot hide an upload button itself
        with self.file_folder:
            self.file = gui.add_upload_button("Open a depth file (.npy)")
        self.model = gui.add_text("Depth model", session.depth_model, visible=False)
        self.run_model = gui.add_button("Estimate the depth", visible=False)
        self.note = gui.add_html("")
        self._show_inputs()
        for handle in (self.source, self.distance):
            visit.on_edit(handle, self.change)
        visit.on_upload(self.file, self.open_file)
        visit.on_click(self.run_model, self.estimate)

    def fill(self) -> None:
        """Show the session's own values, after something else has changed them."""
        session = self.visit.session
        self.source.value, self.distance.value = session.depth_source, session.distance
        self.model.value = session.depth_model
        self._show_inputs()

    def change(self) -> None:
        source, session = self.source.value, self.visit.session
        is_missing = source in ("file", "model") and source not in session.depth_values
        self._show_inputs()
        try:
            session.set_depth(session.depth_source if is_missing else source, number_in(self.distance))
        except SightlineError as error:
            self.visit.refuse([self.source, self.distance], error, self.fill)
            return
        if is_missing:
            self.note.content = sentence(f"Until there is a {source}, the depth stays {session.depth_source}.")
        self._draw()

    def open_file(self, file: Any) -> None:
        name = uploads.shown_name(file.name)
        with uploads.uploaded_file(file.content, file.name) as place:
            values = depths.read_depth(place, name)
        self.visit.session.set_depth("file", values=values)
        height, width = values.shape
        self.note.content = sentence(f"The depth is that of {name}, {width}x{height} values.")
        self._draw()

    def estimate(self) -> None:
        """Ask a depth model. Its download may take minutes, so the page goes on meanwhile."""
        session = self.visit.session
        picture, world = session.picture, session.world
        image = picture if picture is not None else Image.fromarray(session.first_picture())
        model, distance = depths.require_hub_id(self.model.value.strip()), number_in(self.distance)
        self.run_model.disabled = True
        self.note.content = sentence("Loading the model and estimating the depth ...")

        def finish(values: np.ndarray | None, error: str) -> None:
            self.run_model.disabled = False
            self.note.content = sentence(error, "error")
            now = self.visit.session
            if values is not None and now.picture is picture and now.world == world:
                now.set_depth("model", values=values)
                now.depth_model = model
                self.fill()
                self.note.content = sentence(f"The depth is that of {model}.")
                self._draw()

        def work() -> None:
            try:
                values, error = depths.model_depth(image, model, distance), ""
            except Exception as failed:
                values, error = None, failure(failed)
            self.visit.run_later(finish, values, error)

        threading.Thread(target=work, name="studio depth", daemon=True).start()

    def _show_inputs(self) -> None:
        source = self.source.value
        self.file_folder.visible = source == "file"
        self.model.visible = self.run_model.visible = source == "model"
        self.distance.visible = source != "world"  # for a file it is the radius of an orbit alone
        self.note.content = ""

    def _draw(self) -> None:
        """Draw the points; look from behind again where they are nearer or farther by far, as with a depth in millimetres."""
        before = self.visit.view.distance
        self.visit.path_changed(picture=True)
        if not 0.5 < self.visit.distance / before < 2:
            self.visit.view.look_from_behind(self.visit.distance)
