"""The studio: one server and one worker, and a Visit for each open page."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import threading
import warnings
from pathlib import Path
from typing import Any

import torch

from sightline.backbones.model_info import LAB_SHAPES
from sightline.errors import SightlineError
from sightline.files import failure, remove_leftovers, require_writable
from sightline.generation.model import Model, ModelOptions
from sightline.studio.gate import Gate, guarded, is_loopback
from sightline.studio.library import Library
from sightline.studio.trained_range import lab_range
from sightline.studio.visit import Visit
from sightline.studio.worker import Worker

_log = logging.getLogger("sightline")
_GIB = 2**30


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
        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))  # previews are drawn while the worker computes
        self.worker = worker or Worker(options)
        self.visits: dict[int, Visit] = {}
        self._reserved: set[str] = set()  # names of films that are being made
        self._memory: dict[tuple[int, int, int, bool], str] = {}
        self._prepare()
        self._lock = threading.Lock()
        with guarded(gate), contextlib.redirect_stdout(io.StringIO()):  # viser prints a banner of its own
            self.server = viser.ViserServer(host=host, port=port, label="Sightline studio", verbose=False)
        # A page may be closed while something is drawn on it, which is no news for whoever started the studio.
        warnings.filterwarnings("ignore", r"Queued a \w+ on a closed connection", UserWarning)
        self.server.scene.set_up_direction(
            "-y"
        )  # before anybody comes: a page would place its view before it turns its world
        self.server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(47, 93, 140))
        self.server.on_client_connect(self._welcome)
        self.server.on_client_disconnect(self._leave)
        shown = "127.0.0.1" if is_loopback(host) or host in ("0.0.0.0", "::") else host
        self.address = f"http://{shown}:{self.server.get_port()}/" + (f"?token={token}" if token else "")

    def _prepare(self) -> None:
        """What the first page would have to wait for."""
        own = self.info.defaults
        self.memory((own.num_frames, own.width, own.height), False)
        if self.info.trained_shapes == LAB_SHAPES:
            lab_range()

    def close(self) -> None:
        """End the worker and the server. Finished films stay."""
        self.worker.close()
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()
        remove_leftovers(self.library.folder)

    # -- visitors ---------------------------------------------------------------------------------------------------

    def _welcome(self, client: Any) -> None:
        try:
            visit = Visit(self, client)
        except Exception as error:  # the visitor may have left while the page was built
            _log.warning("a page could not be built: %s", failure(error), exc_info=True)
            return
        with self._lock:
            self.visits[client.client_id] = visit

    def _leave(self, client: Any) -> None:
        with self._lock:
            visit = self.visits.pop(client.client_id, None)
        if visit is not None:
            visit.leave()

    def reserve(self, title: str) -> Path:
        """A folder for a new film that nobody else gets, until it is released."""
        with self._lock:
            folder = self.library.new_folder(title, self._reserved)
            self._reserved.add(folder.name)
        return folder

    def release(self, name: str) -> None:
        """The film of a reserved folder is there, or will never be."""
        with self._lock:
            self._reserved.discard(name)

    def films_changed(self) -> None:
        """Tell every visitor that there is a new film, or one less."""
        with self._lock:
            visits = list(self.visits.values())
        for visit in visits:
            visit.guarded(visit.gallery.refresh)()
            visit.guarded(visit.inspect.refresh)()

    # -- what a film costs ------------------------------------------------------------------------------------------

    def memory(self, shape: tuple[int, int, int], camera_guidance: bool) -> str:
        """The estimated memory of a film of this shape, in words."""
        from sightline.generation.memory import estimate

        if self.model.configs is None:
            return "not known for an untrained model"
        key = (*shape, camera_guidance)
        if key not in self._memory:
            needs = estimate(self.model.configs, *shape, self.model.dtype, camera_guidance=camera_guidance)
            where = "main memory" if self.model.device.type == "cpu" else "GPU memory"
            self._memory[key] = f"about {needs.device(self.model.options.offload) / _GIB:.1f} GiB of {where}"
        return self._memory[key]

    def seconds_per_pass(self, shape: tuple[int, int, int]) -> float | None:
        """Of the newest film of this shape in the library, all in all; None where there is none."""
        for name in self.library.names():
            with contextlib.suppress(SightlineError, KeyError, TypeError, ZeroDivisionError):
                settings = self.library.film(name).settings
                made = settings["generated"]
                if (made["num_frames"], made["width"], made["height"]) != shape:
                    continue
                doubled = 2 if made["camera_guidance_scale"] != 1.0 else 1
                return float(settings["result"]["seconds"]) / (made["num_inference_steps"] * doubled)
        return None


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
            raise SightlineError(
                f"port {port} of {host} cannot be used ({error.strerror}): expected a free one."
            ) from None
