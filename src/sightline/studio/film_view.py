"""A finished film in the tab Generate: the film, how to make it again, and the path that it really follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sightline.errors import SightlineError
from sightline.studio.command import python_code, shell_line
from sightline.studio.inspector import pack
from sightline.studio.library import Film
from sightline.studio.page_text import code, sentence, unit_name, videos
from sightline.studio.worker import Event

if TYPE_CHECKING:
    from sightline.studio.visit import Visit


class FilmView:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        gui = visit.gui
        self.video = gui.add_html("")
        self.measure = gui.add_button("Estimate the path of the film", icon="ruler-measure", visible=False)
        self.errors = gui.add_html("")
        self.commands = gui.add_html("")
        visit.on_click(self.measure, self.estimate)

    def show(self, film: Film) -> None:
        """The film itself, and how to make it again."""
        self.video.content = videos([(film.name, film.folder / "video.mp4")])
        self.commands.content = code("Copy as command", shell_line(film)) + code("Python", python_code(film))
        self.errors.content = ""
        self.measure.visible = self.visit.session.depth_source in ("world", "file", "model")

    def clear(self) -> None:
        self.video.content = self.commands.content = self.errors.content = ""
        self.measure.visible = False

    def estimate(self) -> None:
        """Ask the worker where the camera of the film really went."""
        if not self.visit.film_name:
            raise SightlineError("the film does not follow this path any more: expected the path it was made along.")
        depth = self.visit.session.depth().numpy()
        folder = self.visit.studio.library.film(self.visit.film_name).folder
        self.errors.content = sentence("Estimating the path ...")
        arguments = {"folder": str(folder), "depth": pack(depth)}
        self.visit.studio.worker.submit("estimate", arguments, self.visit.on_event(self.show_estimate))

    def show_estimate(self, event: Event) -> None:
        if event["event"] == "failed":
            self.errors.content = sentence(event["sentence"], "error")
        elif event["event"] == "done":
            found = event["result"]
            self.visit.view.draw_estimate(np.array(found["poses"]))
            degrees = np.degrees(found["rotation"])
            self.errors.content = sentence(
                f"The green path is the one that the film follows. On average it is off by {degrees:.2f} degrees and "
                f"{found['translation']:.3f} {unit_name(found['unit'])}; {found['confidence']:.0%} of the pixels agree with it."
            )
