"""The tab Shoot: the picture, its lens and depth, and the path from typed moves, from a file or from keyframes."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from sightline.cameras.formats import FORMATS
from sightline.cameras.moves import MOVES, Easing
from sightline.cameras.moves.phrase import defaults_of
from sightline.errors import SightlineError
from sightline.studio import uploads
from sightline.studio.depth_fields import DepthFields
from sightline.studio.fields import number_in, whole_number_in
from sightline.studio.keys_folder import KeysFolder
from sightline.studio.page_text import drop_area, sentence, sentences
from sightline.studio.trained_range import path_warnings
from sightline.worlds import STYLES

if TYPE_CHECKING:
    from sightline.studio.visit import Visit

_PICTURES = "image/png,image/jpeg,image/webp"
_CHOOSE = "add a move ..."
_FORMAT_SUFFIX = {"panshot": ".npy", "matrices": ".csv", "tum": ".tum", "kitti": ".kitti"}


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


def _packed(files: list[Path], root: Path, place: Path) -> Path:
    """The files as a .zip, by their names in the folder `root`."""
    with zipfile.ZipFile(place, "w") as archive:
        for file in files:
            archive.write(file, file.relative_to(root))
    return place


class ShootTab:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        gui, session = visit.gui, visit.session
        self.go_on = gui.add_button("Continue where the closed page left off", icon="history", visible=False)
        with gui.add_folder("Picture"):
            self.upload = gui.add_upload_button("Open a picture", icon="photo", mime_type=_PICTURES)
            gui.add_html(drop_area(_PICTURES))
            with gui.add_folder("From a procedural world", expand_by_default=False):
                self.style = gui.add_dropdown("Style", STYLES, initial_value="orbit")
                self.seed = gui.add_number("Seed", 3, min=0, max=2**31, step=1)
                self.use_world = gui.add_button("Take this world")
            self.lens = gui.add_number("Lens (mm)", session.focal_mm, min=8.0, max=400.0, step=0.5)
            self.depth = DepthFields(visit)
        with gui.add_folder("Path"):
            self.move = gui.add_text("Moves", session.move, hint="orbit:30, or: slow push in, then pan left 20")
            self.move_error = gui.add_html("")
            self.add = gui.add_dropdown("Or choose", (_CHOOSE, *move_examples()))
            self.easing = gui.add_dropdown("Easing", get_args(Easing), initial_value=session.easing)
            self.opened = ""  # the name of the trajectory file that was opened last
            self.open_path = gui.add_upload_button("Open a trajectory", icon="file-upload")
            self.format = gui.add_dropdown("Format", tuple(FORMATS), initial_value="sightline")
            self.save = gui.add_button("Save the trajectory", icon="download")
        with gui.add_folder("Keyframes"):
            self.keys = KeysFolder(visit)
        self._listen()

    def _listen(self) -> None:
        visit = self.visit
        visit.on_click(self.go_on, visit.go_on)
        visit.on_upload(self.upload, self.open_picture)
        visit.on_click(self.use_world, self.set_world)
        visit.on_edit(self.lens, self.set_lens)
        visit.on_edit(self.move, self.set_move)
        visit.on_edit(self.easing, self.set_easing)
        visit.on_edit(self.add, self.add_move)
        visit.on_upload(self.open_path, self.open_trajectory)
        visit.on_click(self.save, self.save_trajectory)

    def show_closed_page(self) -> None:
        """Offer what was made on a page that is closed, until something is made on this one."""
        self.go_on.visible = bool(self.visit.studio.closed_pages) and self.visit.session.is_untouched

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
        except SightlineError as error:
            self.visit.refuse([self.lens], error, self.fill_lens)
            return
        self.visit.path_changed(picture=True)

    def fill_lens(self) -> None:
        self.lens.value = self.visit.session.focal_mm

    # -- the path ---------------------------------------------------------------------------------------------------

    def set_move(self) -> None:
        try:
            self.visit.session.set_move(self.move.value, self.easing.value)
        except SightlineError as error:
            self.move_error.content = sentence(str(error), "error")
            return
        self.visit.path_changed()

    def set_easing(self) -> None:
        if self.visit.session.mode == "move":
            self.set_move()  # with what is typed
        else:
            self.visit.session.set_easing(self.easing.value)
            self.show_path_source()

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
        self.opened = uploads.shown_name(file.name)
        self.visit.path_changed()

    def show_path_source(self) -> None:
        """Say where the path comes from, where that is not what the field shows."""
        session, words = self.visit.session, ""
        if session.mode == "keys":
            words = "The path is made of the keyframes below; typing a move replaces it."
        elif session.mode == "file":
            words = f"The path is that of {self.opened or 'a file'}; typing a move replaces it."
        elif not self.move.value.strip():
            words = f"Without moves, the path is {session.move}."
        if session.mode != "move" and session.easing != "linear":
            words += f" The easing {session.easing} is for typed moves."
        self.move_error.content = sentence(words) + sentences(session.move_notes)

    def save_trajectory(self) -> None:
        """Send the path as a file; a format of several files becomes a .zip, which the page can open too."""
        name = self.format.value
        if name not in FORMATS:
            raise SightlineError(f"format is {name!r}: expected one of {', '.join(FORMATS)}.")
        suffix = FORMATS[name].extension or _FORMAT_SUFFIX.get(name) or (".json" if "nerf" in name else ".txt")
        with tempfile.TemporaryDirectory(prefix="sightline-save-") as folder:
            root = Path(folder) / "files"
            place = root / "pose" / "trajectory.npz" if name == "vipe" else root / f"trajectory{suffix}"
            place.parent.mkdir(parents=True)
            self.visit.session.trajectory.save(place, format=name)
            files = sorted(file for file in root.rglob("*") if file.is_file())
            if len(files) > 1:
                place = _packed(files, place if place.is_dir() else root, Path(folder) / "trajectory.zip")
            self.visit.client.send_file_download(f"{name}{place.suffix}", place.read_bytes(), save_immediately=True)
        if "focal_mm" in FORMATS[name].read_options:
            self.visit.notify(
                f"Files of the format {name} have no lens: who opens one sets it. A zoom is lost.", "green"
            )

    def show_warnings(self) -> None:
        session = self.visit.session
        warnings = sentences(path_warnings(session.trajectory, session.info, session.mode == "file"), "warning")
        self.visit.warnings.content = sentence(session.crop) + warnings

    def fill(self) -> None:
        """Show the session's own values, after something else has changed them."""
        session = self.visit.session
        self.lens.value = session.focal_mm
        self.depth.fill()
        self.move.value, self.easing.value = session.move, session.easing
        if session.world is not None:
            self.style.value, self.seed.value = session.world.style, session.world.seed
