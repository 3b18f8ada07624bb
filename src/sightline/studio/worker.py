"""One worker for all visitors: a queue of tasks, run one after the other in a process of its own (see process.py).

A task that fails, or a process that is killed, ends that task with one sentence; the next task starts a new process.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sightline
from sightline.generation.model import ModelOptions

_log = logging.getLogger("sightline")
_PATIENCE = 5.0  # seconds in which the process may end by itself

Event = dict[str, Any]  # "event": queued, progress, done, failed or cancelled, and what belongs to it
OnEvent = Callable[[Event], None]
ENDS = ("done", "failed", "cancelled")


@dataclass(eq=False)
class Ticket:
    """A task in the queue. last: its newest event."""

    number: int
    kind: str
    arguments: dict[str, Any]
    on_event: OnEvent
    last: Event = field(default_factory=lambda: {"event": "queued"})
    ended: threading.Event = field(default_factory=threading.Event)
    cancelled: bool = False

    def tell(self, event: Event) -> None:
        self.last = event
        try:
            self.on_event(event)
        except Exception:  # of a page that was closed meanwhile
            _log.debug("an event could not be shown", exc_info=True)
        if event["event"] in ENDS:
            self.ended.set()

    def wait(self, timeout: float | None = None) -> Event:
        """The last event, once the task has ended."""
        self.ended.wait(timeout)
        return self.last


class Worker:
    """Runs tasks in order. command: of the process; another one is only for tests."""

    def __init__(self, options: ModelOptions, command: list[str] | None = None) -> None:
        self.options = options
        self.command = command or [sys.executable, "-m", "sightline.studio.process"]
        self._changed = threading.Condition()
        self._waiting: list[Ticket] = []
        self._running: Ticket | None = None
        self._process: subprocess.Popen[str] | None = None
        self._numbers = 0
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="studio worker", daemon=True)
        self._thread.start()

    def submit(self, kind: str, arguments: dict[str, Any], on_event: OnEvent = lambda event: None) -> Ticket:
        """Add a task to the queue. on_event: called from the worker's thread."""
        with self._changed:
            self._numbers += 1
            ticket = Ticket(self._numbers, kind, arguments, on_event)
            self._waiting.append(ticket)
            ahead = len(self._waiting) - 1 + (self._running is not None)
            self._changed.notify_all()
        ticket.tell({"event": "queued", "ahead": ahead})
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Take a task out of the queue, or stop it after the step it is in."""
        with self._changed:
            ticket.cancelled = True
            waiting = ticket in self._waiting
            if waiting:
                self._waiting.remove(ticket)
            elif ticket is self._running:
                self._send({"cancel": ticket.number})
        if waiting:
            ticket.tell({"event": "cancelled"})

    @property
    def process_id(self) -> int | None:
        """Of the process that holds the model; None before the first task."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the process and all tasks. Finished films stay."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            process = self._process
            if self._running is not None:
                self._send({"cancel": self._running.number})
            self._changed.notify_all()
        for ticket in waiting:
            ticket.tell({"event": "cancelled"})
        if process is not None and process.stdin is not None:
            try:
                process.stdin.close()
                process.wait(_PATIENCE)
            except (OSError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
        self._thread.join(_PATIENCE)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                ticket = self._running = self._waiting.pop(0)
            end = self._run(ticket)
            with self._changed:
                self._running = None
            ticket.tell(end)

    def _run(self, ticket: Ticket) -> Event:
        try:
            process = self._alive()
            with self._changed:
                self._send({"id": ticket.number, "kind": ticket.kind, "arguments": ticket.arguments})
                if ticket.cancelled:  # before it was sent
                    self._send({"cancel": ticket.number})
            assert process.stdout is not None
            for line in process.stdout:
                event = json.loads(line)
                if event.pop("id") != ticket.number:
                    continue
                if event["event"] in ENDS:
                    return event
                ticket.tell(event)
            return self._death(process)
        except (OSError, ValueError) as error:
            return {"event": "failed", "sentence": f"the worker cannot be reached ({error}): expected it to run."}

    def _alive(self) -> subprocess.Popen[str]:
        """The process, started where there is none."""
        if self._process is None or self._process.poll() is not None:
            source = str(Path(sightline.__file__).parents[1])
            path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path, "TQDM_DISABLE": "1"},  # the page shows the progress
            )
            options = {name: value for name, value in dataclasses.asdict(self.options).items() if value is not None}
            self._send({"options": {name: str(v) if isinstance(v, Path) else v for name, v in options.items()}})
        return self._process

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(json.dumps(message) + "\n")
                self._process.stdin.flush()
            except (OSError, ValueError):  # it has ended; reading from it tells
                _log.debug("the worker's process has ended")

    def _death(self, process: subprocess.Popen[str]) -> Event:
        code = process.wait()
        if self._closed:
            return {"event": "cancelled"}
        how = f"signal {-code}, as when memory runs out" if code < 0 else f"exit code {code}"
        sentence = f"the process with the model ended ({how}): expected it to finish; the next film starts a new one."
        return {"event": "failed", "sentence": sentence}
