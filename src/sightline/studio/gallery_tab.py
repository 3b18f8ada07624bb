"""The tab Gallery: the films of the output folder; compare two, reopen one, delete one after confirmation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.studio.command import python_code, shell_line
from sightline.studio.page_text import code, sentence, sentences, videos

if TYPE_CHECKING:
    from sightline.studio.visit import Visit

_NONE = "-"


class GalleryTab:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        gui = visit.gui
        self.film = gui.add_dropdown("Film", (_NONE,))
        self.other = gui.add_dropdown("Compare with", (_NONE,))
        self.videos = gui.add_html("")
        self.actions = gui.add_button_group("Actions", ("Reopen", "Inspect", "Delete"))
        self.commands = gui.add_html("")
        guarded = visit.guarded
        for handle in (self.film, self.other):
            handle.on_update(lambda event: None if event.client is None else guarded(self.show)())
        self.actions.on_click(guarded(lambda event: self.act(event.target.value)))
        self.refresh()

    def refresh(self) -> None:
        """Read the folder again; the choice stays, if it is still there."""
        names = self.visit.studio.library.names()
        film, other = self.film.value, self.other.value
        self.film.options = tuple(names) or (_NONE,)
        self.other.options = (_NONE, *names)
        self.film.value = film if film in names else (names[0] if names else _NONE)
        self.other.value = other if other in names else _NONE
        self.show()

    def show(self) -> None:
        library = self.visit.studio.library
        if self.film.value == _NONE:
            self.videos.content = sentence(f"No films in {library.folder} yet.")
            self.commands.content = ""
            return
        film = library.film(self.film.value)
        shown = [film] if self.other.value == _NONE else [film, library.film(self.other.value)]
        films = [(one.name, one.folder / "video.mp4") for one in shown]
        if len(shown) == 1 and film.has_truth:
            films.append(("true view", film.folder / "true.mp4"))
        self.videos.content = videos(films) + sentences(f"{one.name}: {one}" for one in shown)
        self.commands.content = code("Copy as command", shell_line(film)) + code("Python", python_code(film))

    def act(self, word: str) -> None:
        if self.film.value == _NONE:
            return
        film = self.visit.studio.library.film(self.film.value)
        if word == "Reopen":
            self.visit.reopen(film)
            self.visit.tell(f"{film.name} is open in Shoot and Generate.", "green")
        elif word == "Inspect":
            self.visit.inspect.open(film.name)
        else:
            self._confirm(film.name)

    def _confirm(self, name: str) -> None:
        gui = self.visit.gui
        with gui.add_modal("Delete this film?") as modal:
            gui.add_html(sentence(f"{name} and everything in its folder will be gone."))
            yes, no = gui.add_button("Delete it", color="red"), gui.add_button("Keep it")
        no.on_click(lambda _: modal.close())

        def delete(_: object) -> None:
            modal.close()
            self.visit.studio.library.delete(name)
            self.visit.studio.films_changed()

        yes.on_click(self.visit.guarded(delete))
