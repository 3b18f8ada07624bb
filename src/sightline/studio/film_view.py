"""A finished film in the tab Generate: the film, how to make it again, and the path that it really follows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sightline.errors import SightlineError
from sightline.studio.command import python_code, shell_line
from sightline.studio.inspector import pack
from sightline.studio.library import Film
from sightline.studio.page_text import code, sentence, unit_name, videos
from sightline.studio.remaining import Remaining, with_remaining
from sightline.studio.worker import Event, Task, waiting_words

if TYPE_CHECKING:
    from sightline.studio.visit import Visit

_KNOWN_DEPTHS = ("world", "file", "model")  # a plane or a room is no depth to measure a film by
_OUTDATED = "The picture or the path has changed since this film. Reopen it in the Gallery to see them together."


def commands(film: Film) -> str:
    """How to make a film again, as HTML."""
    return code("Copy as command", shell_line(film)) + code("Python", python_code(film))


class FilmView:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.task: Task | None = None  # the last estimate
        self.asked = 0  # counts the estimates, so that the events of one that was put away are not shown
        self.remaining = Remaining()
        gui = visit.gui
        self.video = gui.add_html("")
        self.measure = gui.add_button("Estimate the path of the film", icon="ruler-measure", visible=False)
        self.stop = gui.add_button("Cancel the estimate", icon="x", visible=False)
        self.bar = gui.add_progress_bar(0.0, visible=False)
        self.errors = gui.add_html("")
        self.commands = gui.add_html("")
        visit.on_click(self.measure, self.estimate)
        visit.on_click(self.stop, self.cancel)

    def show(self, film: Film) -> None:
        """The film itself, and how to make it again."""
        self.put_away_estimate()
        self.video.content = videos([(film.name, film.folder / "video.mp4")])
        self.commands.content = commands(film)
        if self.visit.film_name == film.name:
            self.measure.visible = self.visit.session.depth_source in _KNOWN_DEPTHS
        else:
            self.path_changed()

    def path_changed(self) -> None:
        """A film that is shown here does not belong to the picture and the path any more."""
        self.put_away_estimate()
        self.errors.content = sentence(_OUTDATED if self.video.content else "")

    def clear(self) -> None:
        self.put_away_estimate()
        self.video.content = self.commands.content = ""

    # -- the path of the film -----------------------------------------------------------------------------------------

    def put_away_estimate(self) -> None:
        """The film or the path is another one: an estimate is neither shown nor waited for."""
        self.cancel()
        self.asked += 1
        self.visit.view.draw_estimate(None)
        self._show_running(False)
        self.measure.visible = False
        self.errors.content = ""

    def estimate(self) -> None:
        """Ask the worker where the camera of the film really went."""
        if not self.visit.film_name:
            raise SightlineError("the film does not follow this path any more: expected the path it was made along.")
        if self.task is not None and not self.task.ended.is_set():
            return  # a second click
        depth = self.visit.session.depth().numpy()
        folder = self.visit.find_film(self.visit.film_name).folder
        arguments = {"folder": str(folder), "depth": pack(depth)}
        self.remaining = Remaining()
        self._show_running(True)
        self.asked += 1
        on_event = self.visit.on_event(partial(self.show_estimate, self.asked))
        self.task = self.visit.studio.worker.submit("estimate", arguments, on_event)

    def cancel(self) -> None:
        if self.task is not None and not self.task.ended.is_set():
            self.visit.studio.worker.cancel(self.task)

    def _show_running(self, is_running: bool) -> None:
        self.measure.disabled = is_running
        self.stop.visible = self.bar.visible = is_running
        self.bar.value = 0.0

    def show_estimate(self, number: int, event: Event) -> None:
        """An event of the estimate of this number."""
        if number != self.asked:
            return
        kind = event["event"]
        if kind == "queued":
            self.errors.content = sentence(f"Estimating the path: {waiting_words(event)} ...")
        elif kind == "progress":
            self.bar.value = 100.0 * event["fraction"]
            self.remaining.update(event["fraction"])
            words = with_remaining(f"Estimating the path: {event['fraction']:.0%}", self.remaining)
            self.errors.content = sentence(f"{words} ...")
        else:
            self._show_running(False)
            self._show_end(event)

    def _show_end(self, event: Event) -> None:
        if event["event"] == "cancelled":
            self.errors.content = sentence("The estimate was cancelled.")
        elif event["event"] == "failed":
            self.errors.content = sentence(event["sentence"], "error")
        else:
            found = event["result"]
            self.visit.view.draw_estimate(np.array(found["poses"]))
            degrees = np.degrees(found["rotation"])
            self.errors.content = sentence(
                f"The green path is the one that the film follows. On average it is off by {degrees:.2f} degrees and "
                f"{found['translation']:.3f} {unit_name(found['unit'])}; {found['confidence']:.0%} of the pixels agree with it."
            )
