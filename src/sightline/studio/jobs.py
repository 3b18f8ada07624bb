"""The films that were asked for. They belong to the studio: a page that is reloaded or closed does not end them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sightline.errors import SightlineError
from sightline.files import remove_leftovers
from sightline.generation.job import Job
from sightline.studio.library import FilmDepth, Library
from sightline.studio.remaining import Remaining, with_remaining
from sightline.studio.worker import FINAL_EVENTS, Event, OnEvent, Task, Worker, waiting_words

_MAX_ENDED = 12  # films that have ended and are still listed


@dataclass(eq=False)
class FilmJob:
    """One film on its way. name: of its folder in the library."""

    name: str
    on_event: OnEvent
    last_event: Event = field(default_factory=lambda: {"event": "queued", "ahead": 0})
    task: Task | None = None  # until it is in the queue
    remaining: Remaining = field(default_factory=Remaining)

    def take(self, event: Event) -> None:
        """Remember an event."""
        self.last_event = event
        if event["event"] == "progress" and event["step"]:  # the first step waits for the model, and tells nothing
            self.remaining.update(self.fraction)

    @property
    def fraction(self) -> float:
        """Of the film that is done; decoding counts as one step."""
        event = self.last_event
        return event["step"] / (event["steps"] + 1) if event["event"] == "progress" else 0.0

    @property
    def has_ended(self) -> bool:
        return self.last_event["event"] in FINAL_EVENTS

    @property
    def is_decoding(self) -> bool:
        """Whether all steps are done, and the frames are being decoded and written."""
        event = self.last_event
        return event["event"] == "progress" and event["step"] == event["steps"]

    @property
    def can_be_cancelled(self) -> bool:
        """A film stops after a step, so not any more once it is being decoded."""
        return not self.has_ended and not self.is_decoding

    @property
    def state(self) -> str:
        """What the film is doing, in a few words."""
        event = self.last_event
        kind = event["event"]
        if kind == "queued":
            return waiting_words(event)
        if kind == "progress":
            if self.is_decoding:
                return "decoding the film"
            if not event["step"]:
                return "loading the model"
            return with_remaining(f"step {event['step']} of {event['steps']}", self.remaining)
        if kind == "failed":
            return f"failed: {event['sentence']}"
        return (
            "cancelled; nothing was kept" if kind == "cancelled" else f"finished in {event['result']['seconds']:.0f} s"
        )


class FilmJobs:
    """Starts, lists and cancels films. on_change: called after every event of any film; it must return at once."""

    def __init__(self, library: Library, worker: Worker, on_change: Callable[[FilmJob], None]) -> None:
        self.library, self.worker, self.on_change = library, worker, on_change
        self._lock = threading.Lock()  # never held while the worker is called, which calls back
        self._reserved: set[str] = set()  # names of films that are being made
        self._jobs: list[FilmJob] = []  # the oldest first

    def start(
        self, title: str, make_job: Callable[[Path], Job], on_event: OnEvent, depth: FilmDepth | None = None
    ) -> FilmJob:
        """Add a film to the queue. make_job: the job that writes a folder. on_event: of this film; must return at once.

        depth: what `keep_depth` tells, which is written beside the film.
        """
        with self._lock:
            folder = self.library.new_folder(title, self._reserved)
            self._reserved.add(folder.name)
        try:
            arguments = {**make_job(folder).settings(), "output": str(folder), "depth": depth}
        except BaseException:
            self._release(folder.name)
            raise
        job = FilmJob(folder.name, on_event)
        with self._lock:
            ended = [job for job in self._jobs if job.has_ended]
            forgotten = ended[: max(0, len(ended) - _MAX_ENDED)]
            self._jobs = [*(job for job in self._jobs if job not in forgotten), job]
        job.task = self.worker.submit("generate", arguments, lambda event: self._on_event(job, event))
        return job

    def cancel(self, name: str) -> None:
        """End a film after the step it is in, or take it out of the queue; nothing of it is kept."""
        found = next((job for job in self.active() if job.name == name), None)
        if found is None or found.task is None:
            raise SightlineError(f"{name} is not being generated: expected a film that is.")
        if not found.can_be_cancelled:
            raise SightlineError(f"{name} is being decoded: expected a film that has steps to go.")
        self.worker.cancel(found.task)

    def forget(self, name: str) -> None:
        """Do not list a film any more that was deleted."""
        with self._lock:
            self._jobs = [job for job in self._jobs if job.name != name or not job.has_ended]

    def all(self) -> list[FilmJob]:
        """The films that are being generated or wait, and the last ones that have ended; the newest first."""
        with self._lock:
            return self._jobs[::-1]

    def active(self) -> list[FilmJob]:
        """The films that are being generated or wait for it, the next one first."""
        return [job for job in reversed(self.all()) if not job.has_ended]

    def _on_event(self, job: FilmJob, event: Event) -> None:
        job.take(event)
        if job.has_ended:
            self._release(job.name)
            if event["event"] == "failed":  # a process that was killed could not tidy up
                remove_leftovers(self.library.folder)
        self.on_change(job)
        job.on_event(event)  # last: the page that started the film may be gone

    def _release(self, name: str) -> None:
        """The film of a reserved name is there, or will never be."""
        with self._lock:
            self._reserved.discard(name)
