"""The tab Shoot: the picture, its lens and depth, and the path from typed moves, from a file or from keyframes."""

from __future__ import annotations

import tempfile
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from PIL import Image

from sightline.cameras.formats import FORMATS
from sightline.cameras.moves import MOVES, Easing
from sightline.cameras.moves.phrase import defaults_of
from sightline.errors import SightlineError
from sightline.files import failure
from sightline.studio import depth as depths
from sightline.studio import uploads
from sightline.studio.fields import number_in, whole_number_in
from sightline.studio.keys_folder import KeysFolder
from sightline.studio.page_text import drop_area, sentence, sentences
from sightline.studio.trained_range import path_warnings
from sightline.worlds import STYLES

if TYPE_CHECKING:
    from sightline.studio.visit import Visit

_PICTURES = "image/png,image/jpeg,image/webp"
_CHOOSE = "add a move ..."
_FORMAT_SUFFIX = {"vipe": ".npz", "panshot": ".npy", "matrices": ".csv", "tum": ".tum", "kitti": ".kitti"}


def move_examples() -> list[str]:
    """Each move as it is typed, with its first amount."""
    lines = []
    for name, move in MOVES.items():
        amounts = defaults_of(move)
        first = next(iter(amounts.values()), None)
        if name == "zoom":
            first = amounts["to_mm"]
        lines.append(name if first is None else f"{name}:{first:g}")
    return lines


class ShootTab:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        gui, session = visit.gui, visit.session
        with gui.add_folder("Picture"):
            self.upload = gui.add_upload_button("Open a picture", icon="photo", mime_type=_PICTURES)
            gui.add_html(drop_area(_PICTURES))
            with gui.add_folder("From a procedural world", expand_by_default=False):
                self.style = gui.add_dropdown("Style", STYLES, initial_value="orbit")
                self.seed = gui.add_number("Seed", 3, min=0, max=2**31, step=1)
                self.use_world = gui.add_button("Take this world")
            self.lens = gui.add_number("Lens (mm)", session.focal_mm, min=8.0, max=400.0, step=0.5)
            self.depth = gui.add_dropdown("Depth", depths.SOURCES, initial_value=session.depth_source)
            self.distance = gui.add_number("Distance", session.distance, min=0.05, max=100.0, step=0.05, hint=(
                "Of the subject, in scene units: the wall of a plane, and the radius of an orbit."))  # fmt: skip
            self.file_folder = gui.add_folder("Depth from a file")  # viser cannot hide an upload button itself
            with self.file_folder:
                self.depth_file = gui.add_upload_button("Open a depth file (.npy)")
            self.depth_model = gui.add_text("Depth model", "depth-anything/Depth-Anything-V2-Small-hf", visible=False)
            self.run_model = gui.add_button("Estimate the depth", visible=False)
            self.depth_note = gui.add_html("")
        with gui.add_folder("Path"):
            self.move = gui.add_text("Moves", session.move, hint="orbit:30, or: slow push in, then pan left 20")
            self.move_error = gui.add_html("")
            self.add = gui.add_dropdown("Or choose", (_CHOOSE, *move_examples()))
            self.easing = gui.add_dropdown("Easing", get_args(Easing), initial_value=session.easing)
            self.open_path = gui.add_upload_button("Open a trajectory", icon="file-upload")
            self.format = gui.add_dropdown("Format", tuple(FORMATS), initial_value="sightline")
            self.save = gui.add_button("Save the trajectory", icon="download")
        with gui.add_folder("Keyframes"):
            self.keys = KeysFolder(visit)
        self._show_depth_inputs()
        self._listen()

    def _listen(self) -> None:
        visit = self.visit
        visit.on_upload(self.upload, self.open_picture)
        visit.on_click(self.use_world, self.set_world)
        visit.on_edit(self.lens, self.set_lens)
        visit.on_edit(self.depth, self.set_depth)
        visit.on_edit(self.distance, self.set_depth)
        visit.on_upload(self.depth_file, self.open_depth)
        visit.on_click(self.run_model, self.estimate_depth)
        visit.on_edit(self.move, self.set_move)
        visit.on_edit(self.easing, self.set_move)
        visit.on_edit(self.add, self.add_move)
        visit.on_upload(self.open_path, self.open_trajectory)
        visit.on_click(self.save, self.save_trajectory)

    # -- the picture ------------------------------------------------------------------------------------------------

    def open_picture(self, file: Any) -> None:
        self.visit.session.set_picture(uploads.read_picture(file.content, file.name))
        self._picture_changed()

    def set_world(self) -> None:
        self.visit.session.set_world(whole_number_in(self.seed), self.style.value)
        self._picture_changed()

    def _picture_changed(self) -> None:
        self.fill()
        self.visit.path_changed(picture=True)
        self.visit.view.look_from_behind(self.visit.distance)

    def set_lens(self) -> None:
        session = self.visit.session
        try:
            session.set_lens(number_in(self.lens))
        except SightlineError:
            self.lens.value = session.focal_mm  # what is shown is what is used
            raise
        self.visit.path_changed(picture=True)

    def set_depth(self) -> None:
        source = self.depth.value
        self._show_depth_inputs()
        if source in ("file", "model") and source not in self.visit.session.depth_values:
            return  # until there is one
        session = self.visit.session
        try:
            session.set_depth(source, number_in(self.distance))
        except SightlineError:
            self.depth.value, self.distance.value = session.depth_source, session.distance
            self._show_depth_inputs()
            raise
        self.visit.path_changed(picture=True)

    def _show_depth_inputs(self) -> None:
        source = self.depth.value
        self.file_folder.visible = source == "file"
        self.depth_model.visible = self.run_model.visible = source == "model"
        self.distance.visible = source != "world"  # for a file it is the radius of an orbit alone

    def open_depth(self, file: Any) -> None:
        session = self.visit.session
        with uploads.uploaded_file(file.content, file.name) as place:
            values = depths.read_depth(place, uploads.shown_name(file.name))
        session.set_depth("file", values=values)
        self.visit.path_changed(picture=True)

    def estimate_depth(self) -> None:
        """Ask a depth model. Its download may take minutes, so the page goes on meanwhile."""
        session = self.visit.session
        picture, world = session.picture, session.world
        image = picture if picture is not None else Image.fromarray(session.first_picture())
        model, distance = depths.require_hub_id(self.depth_model.value.strip()), number_in(self.distance)
        self.run_model.disabled = True
        self.depth_note.content = sentence("Loading the model and estimating the depth ...")

        def finish(values: np.ndarray | None, error: str) -> None:
            self.run_model.disabled = False
            self.depth_note.content = sentence(error, "error")
            now = self.visit.session
            if values is not None and now.picture is picture and now.world == world:
                now.set_depth("model", values=values)
                self.depth.value = "model"
                self._show_depth_inputs()
                self.visit.path_changed(picture=True)

        def estimate() -> None:
            try:
                values, error = depths.model_depth(image, model, distance), ""
            except Exception as failed:
                values, error = None, failure(failed)
            self.visit.run_later(finish, values, error)

        threading.Thread(target=estimate, name="studio depth", daemon=True).start()

    # -- the path ---------------------------------------------------------------------------------------------------

    def set_move(self) -> None:
        try:
            self.visit.session.set_move(self.move.value, self.easing.value)
        except SightlineError as error:
            self.move_error.content = sentence(str(error), "error")
            return
        is_empty = not self.move.value.strip()
        self.move_error.content = sentence(f"Without moves, the path is {self.visit.session.move}." if is_empty else "")
        self.visit.path_changed()

    def add_move(self) -> None:
        if self.add.value == _CHOOSE:
            return
        typed = self.move.value.strip()
        self.move.value = f"{typed}, {self.add.value}" if typed else self.add.value
        self.add.value = _CHOOSE
        self.set_move()

    def open_trajectory(self, file: Any) -> None:
        session = self.visit.session
        lens = {"width": session.width, "height": session.height, "focal_mm": session.focal_mm}
        session.load(uploads.read_trajectory(file.content, file.name, **lens))
        self.move_error.content = sentence(f"The path is that of {file.name}.")
        self.visit.path_changed()

    def save_trajectory(self) -> None:
        """Send the path as a file; a format that is a folder becomes a .zip."""
        name = self.format.value
        if name not in FORMATS:
            raise SightlineError(f"format is {name!r}: expected one of {', '.join(FORMATS)}.")
        suffix = FORMATS[name].extension or _FORMAT_SUFFIX.get(name) or (".json" if "nerf" in name else ".txt")
        with tempfile.TemporaryDirectory(prefix="sightline-save-") as folder:
            place = Path(folder) / f"trajectory{suffix}"
            self.visit.session.trajectory.save(place, format=name)
            if place.is_dir():
                packed = Path(folder) / "trajectory.zip"
                with zipfile.ZipFile(packed, "w") as archive:
                    for file in sorted(place.iterdir()):
                        archive.write(file, file.name)
                place = packed
            self.visit.client.send_file_download(f"{name}{place.suffix}", place.read_bytes(), save_immediately=True)

    def show_warnings(self) -> None:
        session = self.visit.session
        warnings = sentences(path_warnings(session.trajectory, session.info, session.mode == "file"), "warning")
        self.visit.warnings.content = sentence(session.crop) + warnings

    def fill(self) -> None:
        """Show the session's own values, after something else has changed them."""
        session = self.visit.session
        self.lens.value, self.distance.value = session.focal_mm, session.distance
        self.depth.value, self.move.value, self.easing.value = session.depth_source, session.move, session.easing
        if session.world is not None:
            self.style.value, self.seed.value = session.world.style, session.world.seed
        self.move_error.content = ""
        self._show_depth_inputs()
