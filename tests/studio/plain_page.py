"""A Visit without a server and a browser: fields that keep what is set, and a worker that remembers what it is asked."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from sightline.generation.model import Model, ModelOptions
from sightline.studio import visit as visits
from sightline.studio.closed_pages import ClosedPages
from sightline.studio.film_cost import FilmCosts
from sightline.studio.jobs import FilmJobs
from sightline.studio.library import Library

_FIRST = {  # the place of the first value among the arguments of the functions that make a field, after its label
    "slider": 3, "number": 0, "text": 0, "checkbox": 0, "vector3": 0
}  # fmt: skip


class Handle:
    """A field, a button or a folder of the page."""

    def __init__(self, kind: str, label: Any = None, /, *values: Any, **named: Any) -> None:
        self.kind, self.label, self.visible, self.disabled = kind, label, True, False
        self.callbacks: list[Any] = []
        for name, value in named.items():
            setattr(self, name, value)
        if kind == "slider":
            self.min, self.max, self.step, self.value = values
        elif kind in ("dropdown", "button_group"):
            self.options = values[0]
            self.value = named.get("initial_value", values[0][0])
        elif kind in ("html", "image"):
            setattr(self, {"html": "content", "image": "image"}[kind], label)
        elif kind == "progress_bar":
            self.value = label
        elif kind in _FIRST:
            self.value = values[_FIRST[kind]]

    def listen(self, callback: Any) -> None:
        self.callbacks.append(callback)

    on_click = on_update = on_upload = listen

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add_tab(self, label: str) -> Handle:
        return Handle("tab", label)

    def set_width(self, width: float) -> None:
        self.width = width

    def dock_left(self) -> None:
        pass

    dock_right = close = dock_left


class _Gui:
    main_panel = Handle("panel", "main")

    def set_panel_label(self, label: str) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("add_"):
            raise AttributeError(name)
        kind = name.removeprefix("add_")
        return partial(Handle, kind)


class Asked:
    """A worker without a process. tasks: what it was asked; cancelled: those that were taken back."""

    def __init__(self) -> None:
        self.tasks: list[Any] = []
        self.cancelled: list[Any] = []

    def submit(self, kind: str, arguments: dict[str, Any], on_event: Any = None) -> Any:
        self.tasks.append(SimpleNamespace(kind=kind, arguments=arguments, answer=on_event, ended=threading.Event()))
        return self.tasks[-1]

    def cancel(self, task: Any) -> None:
        self.cancelled.append(task)


def plain_visit(folder: Any, monkeypatch: Any, page_width: int = 1280, closed_pages: ClosedPages | None = None) -> Any:
    """A visit of a studio whose films are in this folder. said: its notifications."""
    monkeypatch.setattr(visits, "limit_uploads", lambda client, on_refusal: None)
    model, library, worker = Model(ModelOptions()), Library(folder), Asked()
    jobs = FilmJobs(library, worker, lambda job: None)
    studio = SimpleNamespace(
        info=model.info,
        library=library,
        worker=worker,
        jobs=jobs,
        costs=FilmCosts(model, library),
        films_changed=lambda: visit.films_changed(),
        closed_pages=closed_pages,
        closed_pages_changed=lambda: visit.closed_pages_changed(),
    )
    said: list[str] = []
    camera = Handle(
        "camera", aspect=1.6, fov=1.3, image_width=page_width, wxyz=(1.0, 0, 0, 0), position=None, look_at=None
    )
    client = SimpleNamespace(
        gui=_Gui(), scene=MagicMock(), camera=camera, atomic=contextlib.nullcontext,
        add_notification=lambda title, text, **more: said.append(text), send_file_download=MagicMock(),
    )  # fmt: skip
    visit = visits.Visit(studio, client)
    visit.said = said
    visit.run_later = lambda work, *arguments: visit.guarded(work)(*arguments)
    return visit


def edit(visit: Any, handle: Any, value: Any, **more: Any) -> None:
    """Type a value into a field, or choose one."""
    vars(handle).update(value=value, **more)
    for callback in handle.callbacks:
        callback(SimpleNamespace(client=visit.client, target=handle, client_id=0))


def click(visit: Any, handle: Any) -> None:
    edit(visit, handle, getattr(handle, "value", None))
