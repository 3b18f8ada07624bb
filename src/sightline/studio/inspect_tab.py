"""The tab Inspect: click a point of a film to see the score terms of its token, and what every layer has learned."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.errors import SightlineError
from sightline.studio.fields import NOTHING, index_in
from sightline.studio.film_picture import FilmPicture
from sightline.studio.inspection_page import form_picture, strengths_picture, strips, write_figure, write_page
from sightline.studio.inspector import LayersView, TokenQuery, TokenView
from sightline.studio.page_text import sentence
from sightline.studio.worker import FINAL_EVENTS, Event, Task

if TYPE_CHECKING:
    from sightline.studio.visit import Visit

_MEAN = "mean over heads"
_PANEL_WIDTH, _PANEL_SHARE = 560, 0.4  # the most, in pixels and of the page's width
_START = "Open a film, then click a point of its picture in the 3D view."
_EMPTY = np.full((8, 8, 3), 255, np.uint8)


class InspectTab:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.opened = ""  # the name of the film that is open, which the list may not show any more
        self.picture = FilmPicture(visit, self.ask)
        self.token: TokenView | None = None
        self.query: TokenQuery | None = None  # the question that `token` answers
        self.experts: list[LayersView] = []  # the one of the highest noise levels first; empty until they are read
        self.drawn: LayersView | None = None  # the expert whose alphas and gates are shown
        self.maps: dict[str, Any] = {}
        self.task: Task | None = None  # the last question to the model
        self.asked = 0  # counts the questions, so that the answer to one that was put away is not shown
        gui = visit.gui
        self.film = gui.add_dropdown("Film to inspect", (NOTHING,))
        self.open_film = gui.add_button("Open the film", icon="scan-eye")
        self.state = gui.add_html(sentence(_START))
        self.frame = gui.add_slider("Latent frame", 0, 1, 1, 0)
        self.layer = gui.add_slider("Layer", 0, 1, 1, 0)
        self.head = gui.add_dropdown("Head", (_MEAN,))
        self.sigma = gui.add_slider("Noise level", 0.0, 1.0, 0.05, 0.5)
        self.exports = gui.add_button_group("Export", ("PNG", "HTML page"))
        self.back = gui.add_button("Back to the path")
        self.strengths = gui.add_image(_EMPTY, label="alpha and gate", visible=False)
        self.form = gui.add_image(_EMPTY, label="M", visible=False)
        self.note = gui.add_html("")
        self.panel: Any = None
        visit.on_click(self.open_film, lambda: self.open(self.film.value))
        visit.on_edit(self.frame, lambda: self.picture.show(index_in(self.frame)))
        for handle in (self.layer, self.head, self.sigma):
            visit.on_edit(handle, self.ask)
        visit.on_click(self.exports, lambda: self.export(self.exports.value))
        visit.on_click(self.back, self.leave)
        self.refresh()

    def refresh(self) -> None:
        names = self.visit.studio.library.names()
        self.film.options = tuple(names) or (NOTHING,)
        self.film.value = self.film.value if self.film.value in names else self.film.options[0]
        if self.opened and self.opened not in names:
            deleted, self.opened = self.opened, ""
            if self.picture.is_shown:
                self.leave()
            self.picture.frames = None
            self.state.content = sentence(f"{deleted} was deleted. Open another film.")

    def suggest(self, name: str) -> None:
        """Choose a film that was made or reopened here, unless another one is being looked at."""
        self.refresh()
        if not self.picture.is_shown:
            self.film.value = name

    # -- the film -----------------------------------------------------------------------------------------------------

    def open(self, name: str) -> None:
        """Show the frames of a film in the 3D view, in place of the path."""
        film = self.visit.find_film(name)
        self.put_away_question()
        if name != self.opened:
            self.token = self.query = None
            self.hide_picture()  # with the maps of the film that was open before
        self.film.value = self.opened = name
        stride = self.visit.session.info.stride.frames
        frames = film.frames()[::stride]
        self.frame.max = max(len(frames) - 1, 1)
        self.frame.value = len(frames) - 1
        self.visit.player.stop()
        self.visit.view.show_path(False)
        self.picture.open(frames)
        if not self.experts:
            self.visit.studio.worker.submit("weights", {}, self.visit.on_event(self.show_layers))
        self.state.content = sentence("Click a point of the picture in the 3D view.")

    @property
    def _layer(self) -> int:
        layer, layers = index_in(self.layer), self.layers_at(self._sigma)
        return layer if layers is None else min(layer, layers.layers - 1)

    @property
    def _sigma(self) -> float:
        return min(max(float(self.sigma.value), 0.0), 1.0)  # what is typed beside the slider may be outside

    def layers_at(self, sigma: float) -> LayersView | None:
        """The expert that denoises at a noise level; None until it is read, or where it takes no camera."""
        return next((view for view in self.experts if sigma >= view.from_sigma), None)

    def hide_picture(self) -> None:
        """Make room for the path again."""
        self.picture.hide()
        if self.put_away_question():
            self.state.content = sentence("Open the film again, then click a point of its picture in the 3D view.")
        if self.panel is not None:
            self.panel.visible = False
        self.visit.show_preview()

    def leave(self) -> None:
        """Show the path again, from where it is first shown. It is the same path, so a film that follows it plays on."""
        self.hide_picture()
        self.state.content = sentence(_START)
        self.visit.view.show_path(True)
        self.visit.view.look_from_behind(self.visit.distance)

    def close(self) -> None:
        """The page was closed: nobody waits for the answer."""
        self.put_away_question()

    # -- the model ----------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask the worker for the terms of the chosen token."""
        self._draw_layers()
        if not self.picture.is_shown:
            return
        number = self.head.value.removeprefix("head ")
        head = int(number) if number.isdecimal() else None  # _MEAN
        folder = self.visit.find_film(self.opened).folder
        query = TokenQuery(str(folder), self.picture.token_frame, *self.picture.at, self._layer, head, self._sigma)
        self.state.content = sentence("Reading the model ...")
        self.put_away_question()  # a slider asks many times; only the last one matters
        on_event = self.visit.on_event(partial(self.show_scores, self.asked, query))
        self.task = self.visit.studio.worker.submit("scores", vars(query), on_event)

    def put_away_question(self) -> bool:
        """Neither wait for the answer to the last question nor show it; whether there was one to wait for."""
        task, self.task = self.task, None
        self.asked += 1
        if task is not None:
            self.visit.studio.worker.cancel(task)
        return task is not None

    def show_layers(self, event: Event) -> None:
        if event["event"] == "failed":
            self.note.content = sentence(event["sentence"], "error")
        elif event["event"] == "done":
            self.experts = [LayersView.unpacked(view) for view in event["result"]["experts"]]
            first = self.experts[0]  # as large as the other one
            self.layer.max = max(first.layers - 1, 1)
            self.layer.value = first.layers // 2
            self.head.options = (_MEAN, *(f"head {number}" for number in range(first.heads)))
            self._draw_layers()

    def _draw_layers(self) -> None:
        """M of the chosen layer, and, once for each expert, the alphas and gates of all."""
        layers = self.layers_at(self._sigma)
        self._draw(self.form, None if layers is None else form_picture(layers, self._layer))
        if self.drawn is not layers:
            self.drawn = layers
            self._draw(self.strengths, None if layers is None else strengths_picture(layers))
            self.note.content = sentence("" if layers is None else layers.note)

    def _draw(self, handle: Any, picture: np.ndarray | None) -> None:
        handle.visible = picture is not None
        if picture is not None:
            handle.image = picture

    def show_scores(self, number: int, query: TokenQuery, event: Event) -> None:
        """An event of the question of this number."""
        if number != self.asked:
            return
        if event["event"] in FINAL_EVENTS:
            self.task = None
        if event["event"] == "failed":
            self.state.content = sentence(event["sentence"], "error")
        elif event["event"] == "done":
            self.token, self.query = TokenView.unpacked(event["result"]), query
            self._draw_maps(strips(self.token))
            self.state.content = sentence(f"{_title(query)}. Red is a higher score, blue a lower one.")

    def _draw_maps(self, pictures: dict[str, np.ndarray]) -> None:
        gui = self.visit.gui
        if self.panel is None:
            self.panel = gui.add_panel()
            with self.panel.add_tab("Score terms"):
                self.maps = {name: gui.add_image(picture, label=name) for name, picture in pictures.items()}
            self.panel.dock_left()
            self.panel.set_width(min(_PANEL_WIDTH, round(_PANEL_SHARE * self.visit.page_width)))
        self.visit.preview_panel.visible = False
        self.panel.visible = True
        for name, picture in pictures.items():
            self.maps[name].image = picture

    def export(self, kind: str) -> None:
        """Send the view as a figure, or everything as a page."""
        layers = None if self.query is None else self.layers_at(self.query.sigma)
        if self.token is None or self.query is None or layers is None:
            raise SightlineError("there is nothing to export yet: expected a point of a film to be clicked first.")
        with tempfile.TemporaryDirectory(prefix="sightline-export-") as folder:
            file = Path(folder) / ("scores.png" if kind == "PNG" else "inspection.html")
            if kind == "PNG":
                write_figure(self.token, file, _title(self.query))
            else:
                write_page(file, _title(self.query), self.token, layers)
            self.visit.client.send_file_download(file.name, file.read_bytes(), save_immediately=True)


def _title(query: TokenQuery) -> str:
    """What the maps of a question show: the fields may show another choice by now."""
    head = _MEAN if query.head is None else f"head {query.head}"
    return (
        f"{Path(query.folder).name}: latent frame {query.frame}, layer {query.layer}, {head}, "
        f"noise level {query.sigma:g}"
    )
