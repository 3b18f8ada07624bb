"""One visitor: a session, a 3D view, a player and the four tabs. Nothing here is shared with another visitor."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.errors import SightlineError
from sightline.studio import depth as depths
from sightline.studio.closed_pages import ClosedPage
from sightline.studio.film_job import reopened
from sightline.studio.gallery_tab import GalleryTab
from sightline.studio.generate_tab import GenerateTab
from sightline.studio.inspect_tab import InspectTab
from sightline.studio.library import Film
from sightline.studio.page import Page
from sightline.studio.page_text import path_table
from sightline.studio.player import Player, side_by_side
from sightline.studio.scene_view import SceneView
from sightline.studio.session import Session
from sightline.studio.shoot_tab import ShootTab
from sightline.studio.upload_limit import limit_uploads

if TYPE_CHECKING:
    from sightline.studio.app import Studio

_PANEL_WIDTH = (300, 400)  # pixels: the least and the most of a panel at the side of the page
_PANEL_SHARE = 0.31  # of the page's width, in between
_PANEL_SECONDS = 0.3  # until a page has drawn a panel again: it forgets the width, and ignores one that comes before


class Visit(Page):
    """Connects the session of one client to what the client sees."""

    def __init__(self, studio: Studio, client: Any) -> None:
        super().__init__(client)
        self.studio = studio
        self.session = Session(studio.info)
        self.view = SceneView(client)
        self.film: np.ndarray | None = None  # [T, H, W, 3], along the current path
        self.film_name = ""
        limit_uploads(client, self.notify)
        self.page_width = int(client.camera.image_width)  # the 3D view has the whole page before there are panels
        self.side_width = min(max(round(_PANEL_SHARE * self.page_width), _PANEL_WIDTH[0]), _PANEL_WIDTH[1])
        with client.atomic():
            self._build()
        self.path_changed(picture=True)
        self.view.look_from_behind(self.distance)

    def _build(self) -> None:
        gui = self.gui
        gui.set_panel_label("Sightline studio")
        gui.main_panel.dock_right()
        gui.main_panel.set_width(self.side_width)
        self.preview_panel = gui.add_panel()
        with self.preview_panel.add_tab("Preview"):
            self.player = Player(
                gui, self.guarded(self.show), self.session.num_frames, lambda: self.session.trajectory.fps
            )
            self.table = gui.add_html("")
            self.warnings = gui.add_html("")
        self.preview_panel.dock_left()
        self.preview_panel.set_width(self.side_width)
        self.tabs = gui.add_tab_group()
        with self.tabs.add_tab("Shoot"):
            self.shoot = ShootTab(self)
        with self.tabs.add_tab("Generate"):
            self.generate = GenerateTab(self)
        with self.tabs.add_tab("Gallery"):
            self.gallery = GalleryTab(self)
        with self.tabs.add_tab("Inspect"):
            self.inspect = InspectTab(self)

    # -- drawing --------------------------------------------------------------------------------------------------

    @property
    def distance(self) -> float:
        """Of the subject, in scene units: what everything in the 3D view is sized by."""
        return depths.subject_depth(self.session.preview().depth)

    def path_changed(self, picture: bool = False) -> None:
        """Draw what depends on the path, and on the picture where that has changed. A film along another path is put away."""
        session = self.session
        with self.client.atomic():
            if picture:
                self.view.draw_picture(session.preview(), self.distance)
                self.generate.suggest_prompt()
            self.film, self.film_name = None, ""
            self.generate.film_view.path_changed()
            self.view.show_path(True)
            self.inspect.hide_picture()
            self.view.draw_path(session.trajectory, session.mode != "keys")
            self.shoot.show_path_source()
            self.shoot.show_closed_page()
            self.shoot.keys.draw()
            self.player.set_frames(len(session.trajectory))
            self.show(self.player.frame)
            self.shoot.show_warnings()
            self.generate.fill_size()  # a value that was refused before is neither shown nor used
            self.generate.show_cost()

    def show(self, frame: int) -> None:
        """Draw one frame in the player, the 3D view and the table."""
        session = self.session
        trajectory = session.trajectory
        frame = min(frame, len(trajectory) - 1)
        preview, _ = session.preview().frame(trajectory, frame)
        pictures = {"preview": preview}
        if (true := session.true_frame(frame)) is not None:
            pictures["true view"] = true
        if self.film is not None:
            pictures["film"] = self.film[frame]
        self.player.picture.image = side_by_side(pictures)
        self.view.draw_now(trajectory, frame, pictures.get("film", preview))
        self.table.content = path_table(trajectory, frame)

    def show_preview(self) -> None:
        """Bring back the preview, which something else has hidden."""
        if not self.preview_panel.visible:
            self.preview_panel.visible = True
            widen = self.guarded(lambda: self.preview_panel.set_width(self.side_width))
            timer = threading.Timer(_PANEL_SECONDS, widen)
            timer.daemon = True
            timer.start()

    # -- films ----------------------------------------------------------------------------------------------------

    def find_film(self, name: str) -> Film:
        """A film of the output folder. One that something else has deleted is refused, and leaves the lists of all pages."""
        try:
            return self.studio.library.film(name)
        except SightlineError:
            self.studio.films_changed()
            raise

    def show_film(self, film: Film) -> None:
        """Play a film that follows the current path, beside the preview."""
        frames = film.frames()
        if len(frames) == len(self.session.trajectory):
            self.film, self.film_name = frames, film.name
            self.show(0)
            self.player.play()

    def films_changed(self) -> None:
        """There is a film more or less: list them again, and put away one that was deleted."""
        self.gallery.refresh()
        self.inspect.refresh()
        self.generate.show_cost()
        if self.film_name and self.film_name not in self.studio.library.names():
            self.film, self.film_name = None, ""
            self.generate.film_view.clear()
            self.show(self.player.frame)

    def jobs_changed(self) -> None:
        """A film has started, made progress or ended, here or on another page."""
        self.gallery.show_jobs()
        self.generate.show_others()

    def reopen(self, film: Film) -> None:
        """Work on from a film: its picture, its path and its settings."""
        session, sampling, note = reopened(film, self.studio.info, self.studio.library)
        self._work_on(session)
        self.generate.fill(film.name, sampling, film.name)
        self.show_film(film)
        self.generate.film_view.show(film)
        self.inspect.suggest(film.name)
        self.notify(f"{film.name} is open in Shoot and Generate. {note}", "green")

    def _work_on(self, session: Session) -> None:
        """Replace the session of this page by another one."""
        self.session = session
        self.shoot.opened = ""
        self.shoot.fill()
        self.path_changed(picture=True)
        self.view.look_from_behind(self.distance)

    # -- pages that are closed --------------------------------------------------------------------------------------

    def closed_page(self) -> ClosedPage:
        """What was made here, for the page that is opened next."""
        with self.lock:
            try:
                settings = self.generate.sampling()
            except SightlineError:
                settings = None
            return ClosedPage(self.session, self.generate.name.value, settings)

    def closed_pages_changed(self) -> None:
        """There is a closed page more or less to go on with."""
        self.shoot.show_closed_page()

    def go_on(self) -> None:
        """Go on with what was made on the page that was closed last."""
        closed = self.studio.closed_pages.take() if self.studio.closed_pages is not None else None
        self.studio.closed_pages_changed()
        if closed is None:
            raise SightlineError("another page goes on with it: expected a page that was closed.")
        self._work_on(closed.session)
        if closed.settings is not None:
            self.generate.fill(closed.film_name, closed.settings, "the closed page")

    def show_end(self) -> None:
        """Say that the studio has ended. The page itself only tries to connect again, which Chromium holds back after a while."""
        films = self.studio.library.folder
        with suppress(Exception):  # a page that is just being closed
            self.gui.add_modal(
                f"The studio has ended. Finished films are in {films}. To go on, start `sightline studio` and reload this page."
            )
            self.client.flush()

    def close(self) -> None:
        """The visitor has closed the page. Their films go on: they belong to the studio."""
        super().close()
        self.player.close()
        self.inspect.close()
        self.generate.film_view.cancel()
