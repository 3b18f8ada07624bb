"""The studio: one server, one worker and the films they make, and a Visit for each open page."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import socket
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from sightline.backbones.model_info import LAB_SHAPES
from sightline.errors import SightlineError
from sightline.files import failure, remove_leftovers, require_writable
from sightline.generation.model import Model
from sightline.generation.model_options import ModelOptions
from sightline.studio.closed_pages import ClosedPages
from sightline.studio.film_cost import FilmCosts, FilmSettings
from sightline.studio.gate import Gate, address
from sightline.studio.jobs import FilmJob, FilmJobs
from sightline.studio.library import Library
from sightline.studio.trained_range import lab_range
from sightline.studio.upload_limit import MAX_MESSAGE_BYTES
from sightline.studio.visit import Visit
from sightline.studio.worker import Worker

_log = logging.getLogger("sightline")
_LAST_MESSAGE_SECONDS = 0.3  # for the last message to reach the pages: viser cannot tell when it has


class Studio:
    """Starts at once; `close` ends it. worker: another one is only for tests."""

    def __init__(
        self,
        options: ModelOptions,
        output: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str | None = None,
        worker: Worker | None = None,
    ) -> None:
        gate = Gate(host, token)
        viser = require_viser()
        self.library = Library(output)
        require_writable(self.library.folder)
        remove_leftovers(self.library.folder)
        self.model = Model(options)
        self.model.require_camera()
        self.info = self.model.info
        _require_free(host, port)
        self._threads = torch.get_num_threads()
        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))  # previews are drawn while the worker computes
        self.worker = worker or Worker(options)
        self.jobs = FilmJobs(self.library, self.worker, self._on_job_change)
        self.costs = FilmCosts(self.model, self.library)
        self.visits: dict[int, Visit] = {}
        # None where other machines reach the page: who opens it next may be somebody else.
        self.closed_pages = ClosedPages() if gate.local else None
        self._lock = threading.Lock()
        self._prepare()
        with gate.installed(max_size=MAX_MESSAGE_BYTES), contextlib.redirect_stdout(io.StringIO()):  # viser's banner
            self.server = viser.ViserServer(host=host, port=port, label="Sightline studio", verbose=False)
        # A page may be closed while something is drawn on it, of which viser warns in the terminal.
        warnings.filterwarnings("ignore", r"Queued a \w+ on a closed connection", UserWarning)
        # Before anybody comes: a page would place its view before it turns its world.
        self.server.scene.set_up_direction("-y")
        self.server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(47, 93, 140))
        self.server.on_client_connect(self._on_connect)
        self.server.on_client_disconnect(self._on_disconnect)
        self.address = address(host, self.server.get_port(), token)

    def _prepare(self) -> None:
        """What the first page would have to wait for."""
        own = self.info.defaults
        shape = (own.num_frames, own.width, own.height)
        self.costs.memory(FilmSettings(*shape, own.num_inference_steps, own.guidance_scale > 1.0, False))
        if self.info.trained_shapes == LAB_SHAPES:
            lab_range()

    def close(self) -> None:
        """End the pages, the worker and the server. Finished films stay."""
        for visit in self._open_visits():
            visit.show_end()
            visit.close()  # before the server stops: a player would go on drawing
        self.worker.close()
        time.sleep(_LAST_MESSAGE_SECONDS)
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()
        torch.set_num_threads(self._threads)
        remove_leftovers(self.library.folder)

    # -- visitors ---------------------------------------------------------------------------------------------------

    def _on_connect(self, client: Any) -> None:
        try:
            visit = Visit(self, client)
        except Exception as error:  # the visitor may have left while the page was built
            _log.warning("a page could not be built: %s", failure(error), exc_info=True)
            return
        with self._lock:
            self.visits[client.client_id] = visit
        visit.run_later(visit.jobs_changed)  # a film may have ended while the page was built
        visit.run_later(visit.films_changed)
        if client.client_id not in self.server.get_clients():  # the page may have been closed, too
            self._on_disconnect(client)

    def _on_disconnect(self, client: Any) -> None:
        with self._lock:
            visit = self.visits.pop(client.client_id, None)
        if visit is None:
            return
        visit.close()
        if self.closed_pages is not None:
            self.closed_pages.keep(visit.closed_page())
            self.closed_pages_changed()

    def closed_pages_changed(self) -> None:
        """A page was closed, or another one goes on with it: new pages offer it."""
        for visit in self._open_visits():
            visit.run_later(visit.closed_pages_changed)

    def _open_visits(self) -> list[Visit]:
        with self._lock:
            return list(self.visits.values())

    def _on_job_change(self, job: FilmJob) -> None:
        """A film has started, made progress or ended: every page lists it."""
        if job.last_event["event"] == "done":
            self.films_changed()
        for visit in self._open_visits():
            visit.run_later(visit.jobs_changed)

    def films_changed(self) -> None:
        """There is a film more or less: every page shows it."""
        self.costs.films_changed()
        for visit in self._open_visits():
            visit.run_later(visit.films_changed)


def require_viser() -> Any:
    """viser, or a sentence that says how to install it."""
    try:
        import viser
    except ImportError:
        raise SightlineError(
            "the studio needs viser, which is not installed: expected `pip install 'sightline[studio]'` before."
        ) from None
    return viser


def _require_free(host: str, port: int) -> None:
    """Refuse a port that is taken: viser would silently take another one."""
    if not 0 <= port <= 65535:
        raise SightlineError(f"port is {port}: expected a number from 0 to 65535.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            expected = "an address of this machine" if _is_elsewhere(error) else "a free port"
            raise SightlineError(
                f"port {port} of {host} cannot be used ({error.strerror}): expected {expected}."
            ) from None


def _is_elsewhere(error: OSError) -> bool:
    """Whether a server cannot listen because the host is not known or not one of this machine."""
    return isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
