"""The tab Gallery: films that are on their way, and the films of the output folder; compare two, reopen or delete one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sightline.errors import SightlineError
from sightline.studio.fields import NOTHING
from sightline.studio.film_view import commands
from sightline.studio.page_text import sentence, sentences, table, videos

if TYPE_CHECKING:
    from sightline.studio.visit import Visit


class GalleryTab:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        gui = visit.gui
        self.jobs = gui.add_html("")
        self.active = gui.add_dropdown("Being generated", (NOTHING,), visible=False)
        self.cancel = gui.add_button("Cancel this film", icon="x", visible=False)
        self.film = gui.add_dropdown("Film", (NOTHING,))
        self.other = gui.add_dropdown("Compare with", (NOTHING,))
        self.videos = gui.add_html("")
        self.actions = gui.add_button_group("Actions", ("Reopen", "Inspect", "Delete"))
        self.commands = gui.add_html("")
        self.names: list[str] | None = None  # of the films that are listed
        for handle in (self.film, self.other):
            visit.on_edit(handle, self.show)
        visit.on_click(self.cancel, self._confirm_cancel)
        visit.on_click(self.actions, lambda: self.act(self.actions.value))
        self.refresh()
        self.show_jobs()

    # -- films that are on their way ---------------------------------------------------------------------------------

    def show_jobs(self) -> None:
        """List all films that were asked for since the studio was started, whoever asked for them."""
        jobs = self.visit.studio.jobs.all()
        self.jobs.content = table([(job.name, job.state) for job in jobs]) if jobs else ""
        names = [job.name for job in self.visit.studio.jobs.active() if job.can_be_cancelled]
        self.active.visible = self.cancel.visible = bool(names)
        options = tuple(names) or (NOTHING,)
        if self.active.options != options:
            chosen = self.active.value
            self.active.options = options
            self.active.value = chosen if chosen in options else options[0]

    def _confirm_cancel(self) -> None:
        name = self.active.value
        self._confirm(
            "Cancel this film?",
            f"{name} may be another visitor's. Nothing of it will be kept.",
            ("Cancel it", "Let it go on"),
            lambda: self.visit.studio.jobs.cancel(name),
        )

    # -- finished films ----------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the folder again; the choice stays, if it is still there."""
        names = self.visit.studio.library.names()
        if names == self.names:
            return
        self.names = names
        film, other = self.film.value, self.other.value
        self.film.options = tuple(names) or (NOTHING,)
        self.other.options = (NOTHING, *names)
        self.film.value = film if film in names else (names[0] if names else NOTHING)
        self.other.value = other if other in names else NOTHING
        self.show()

    def choose(self, name: str) -> None:
        """Show a film of the folder."""
        self.refresh()
        self.film.value = name
        self.show()

    def show(self) -> None:
        self.videos.content = self.commands.content = ""
        if self.film.value == NOTHING:
            self.videos.content = sentence(f"No films in {self.visit.studio.library.folder} yet.")
            return
        try:
            self._show_films()
        except SightlineError as error:  # of a folder that something else has damaged or deleted
            self.videos.content = sentence(str(error), "error")

    def _show_films(self) -> None:
        film = self.visit.find_film(self.film.value)
        shown = [film] if self.other.value == NOTHING else [film, self.visit.find_film(self.other.value)]
        films = [(one.name, one.folder / "video.mp4") for one in shown]
        if len(shown) == 1 and film.has_truth:
            films.append(("true view", film.folder / "true.mp4"))
        self.videos.content = videos(films) + sentences(f"{one.name}: {one}" for one in shown)
        self.commands.content = commands(film)

    def act(self, word: str) -> None:
        if self.film.value == NOTHING:
            return
        film = self.visit.find_film(self.film.value)
        if word == "Reopen":
            self.visit.reopen(film)
        elif word == "Inspect":
            self.visit.inspect.open(film.name)
            self.visit.notify(f"{film.name} is open in Inspect.", "green")
        else:
            warning = f"{film.name} and everything in its folder will be gone."
            self._confirm("Delete this film?", warning, ("Delete it", "Keep it"), lambda: self._delete(film.name))

    def _delete(self, name: str) -> None:
        self.visit.studio.library.delete(name)
        self.visit.studio.jobs.forget(name)
        self.visit.studio.films_changed()

    def _confirm(self, title: str, warning: str, answers: tuple[str, str], work: Callable[[], None]) -> None:
        """Ask before something that cannot be undone. answers: yes and no."""
        gui = self.visit.gui
        with gui.add_modal(title) as modal:
            gui.add_html(sentence(warning))
            yes, no = gui.add_button(answers[0], color="red"), gui.add_button(answers[1])
        no.on_click(lambda _: modal.close())

        def confirmed() -> None:
            modal.close()
            work()

        self.visit.on_click(yes, confirmed)
