"""A page: what happens on it, under one lock, and what is said on it. Whatever goes wrong becomes a sentence."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from sightline.errors import SightlineError
from sightline.files import failure
from sightline.studio.fields import by_visitor
from sightline.studio.page_text import page_words
from sightline.studio.worker import OnEvent

_log = logging.getLogger("sightline")
_TYPING_SECONDS = 1.5  # without another letter, after which a number counts as typed


class Page:
    """The callbacks and notifications of one client."""

    def __init__(self, client: Any) -> None:
        self.client, self.gui = client, client.gui
        self.lock = threading.RLock()  # callbacks come from several threads
        self.is_closed = False
        self._edits: dict[int, int] = {}  # how often the visitor has changed a field, by the id() of its handle
        # What the studio has to tell: one thread, so that it is told in order, and that nobody waits for this page.
        self._later = ThreadPoolExecutor(1, "studio visit")

    def close(self) -> None:
        """Nothing happens on the page from now on."""
        self.is_closed = True
        self._later.shutdown(wait=False, cancel_futures=True)

    def guarded(self, work: Callable[..., None]) -> Callable[..., None]:
        """Under the visitor's lock, and whatever goes wrong becomes a sentence on the page."""

        def run(*arguments: Any) -> None:
            with self.lock:
                if self.is_closed:
                    return
                try:
                    work(*arguments)
                except SightlineError as error:
                    self.notify(str(error))
                except Exception as error:
                    _log.warning("the page could not do something: %s", failure(error), exc_info=True)
                    self.notify(failure(error))

        return run

    def on_click(self, handle: Any, work: Callable[[], None]) -> None:
        """Do something when a button is clicked."""
        handle.on_click(self.guarded(lambda _: work()))

    def on_edit(self, handle: Any, work: Callable[[], None]) -> None:
        """Do something when the visitor changes a field."""

        def edited(_: Any) -> None:
            self._edits[id(handle)] = self._edits.get(id(handle), 0) + 1
            work()

        handle.on_update(by_visitor(self.guarded(edited)))

    def refuse(self, handles: Sequence[Any], error: SightlineError, fill: Callable[[], None]) -> None:
        """Tell of a number that cannot be used, and show again what is used, once the visitor has stopped typing.

        Every letter arrives on its own: 3 is no lens, but it may become 35, and a field that is filled meanwhile becomes 285.
        """
        before = self._count_edits(handles)

        def tell() -> None:
            if self._count_edits(handles) == before:
                fill()
                self.notify(str(error))

        timer = threading.Timer(_TYPING_SECONDS, lambda: self.run_later(tell))
        timer.daemon = True
        timer.start()

    def _count_edits(self, handles: Sequence[Any]) -> int:
        return sum(self._edits.get(id(handle), 0) for handle in handles)

    def on_upload(self, handle: Any, work: Callable[[Any], None]) -> None:
        """Do something with a file that the visitor opens."""
        handle.on_upload(self.guarded(lambda event: work(event.target.value)))

    def run_later(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do something on the visitor's own thread; returns at once."""
        with suppress(RuntimeError):  # the page was closed meanwhile
            self._later.submit(self.guarded(work), *arguments)

    def on_event(self, work: OnEvent) -> OnEvent:
        """A callback for the worker's events, which does not make the worker wait."""
        return lambda event: self.run_later(work, event)

    def notify(self, text: str, colour: str = "red") -> None:
        """A sentence in the corner of the page."""
        title = "Not possible" if colour == "red" else "Sightline"
        self.client.add_notification(title, page_words(text), color=colour, auto_close_seconds=8.0)
