"""One worker for all visitors: a queue of tasks, run one after the other in a process of its own (see process.py).

A task that fails, or a process that is killed, ends that task with one sentence; the next task starts a new process.
"""

from __future__ import annotations

import contextlib
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
from sightline.generation.model_options import ModelOptions

_log = logging.getLogger("sightline")
_EXIT_TIMEOUT = 5.0  # seconds in which the process may end by itself
_ENVIRONMENT = {  # of the process, unless the user has set it
    "TQDM_DISABLE": "1",  # the page shows the progress
    # Threads that wait for each other sleep instead of spinning. Spinning made a film take three times as long where the page
    # and the browser use the same cores. The film is the same.
    "OMP_WAIT_POLICY": "PASSIVE",
}

Event = dict[str, Any]  # "event": queued, progress, done, failed or cancelled, and what belongs to it
OnEvent = Callable[[Event], None]
FINAL_EVENTS = ("done", "failed", "cancelled")


def waiting_words(event: Event) -> str:
    """What a task that is in the queue waits for. event: a queued one."""
    ahead = event["ahead"]
    if not ahead:
        return "starting"
    return "waiting for another task" if ahead == 1 else f"waiting for {ahead} other tasks"


@dataclass(eq=False)
class Task:
    """One entry of the queue. on_event must return at once: the worker waits for it."""

    number: int
    kind: str
    arguments: dict[str, Any]
    on_event: OnEvent
    last_event: Event = field(default_factory=lambda: {"event": "queued", "ahead": 0})
    ended: threading.Event = field(default_factory=threading.Event)
    cancelled: bool = False

    def publish(self, event: Event) -> None:
        """Remember an event and pass it on."""
        self.last_event = event
        try:
            self.on_event(event)
        except Exception:  # of a page that was closed meanwhile
            _log.debug("an event could not be shown", exc_info=True)
        if event["event"] in FINAL_EVENTS:
            self.ended.set()

    def wait(self, timeout: float | None = None) -> Event:
        """The last event, once the task has ended."""
        self.ended.wait(timeout)
        return self.last_event


class Worker:
    """Runs tasks in order. command: of the process; another one is only for tests."""

    def __init__(self, options: ModelOptions, command: list[str] | None = None) -> None:
        self.options = options
        self.command = command or [sys.executable, "-m", "sightline.studio.process"]
        self._changed = threading.Condition()
        self._waiting: list[Task] = []
        self._running: Task | None = None
        self._process: subprocess.Popen[str] | None = None
        self._last_number = 0
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="studio worker", daemon=True)
        self._thread.start()

    def submit(self, kind: str, arguments: dict[str, Any], on_event: OnEvent = lambda event: None) -> Task:
        """Add a task to the queue. on_event: called from the worker's threads, in the order of the events."""
        with self._changed:
            self._last_number += 1
            task = Task(self._last_number, kind, arguments, on_event)
            if self._closed:
                task.publish({"event": "cancelled"})
                return task
            self._waiting.append(task)
            self._publish_positions(task)
            self._changed.notify_all()
        return task

    def cancel(self, task: Task) -> None:
        """Take a task out of the queue, or stop it after the step it is in."""
        with self._changed:
            task.cancelled = True
            if task in self._waiting:
                self._waiting.remove(task)
                task.publish({"event": "cancelled"})
                self._publish_positions()
            elif task is self._running:
                self._send({"cancel": task.number})

    def close(self) -> None:
        """End the process and all tasks. Finished films stay."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            process = self._process
            if self._running is not None:
                self._send({"cancel": self._running.number})
            self._changed.notify_all()
        for task in waiting:
            task.publish({"event": "cancelled"})
        if process is not None and process.stdin is not None:
            try:
                process.stdin.close()
                process.wait(_EXIT_TIMEOUT)
            except (OSError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
        self._thread.join(_EXIT_TIMEOUT)
        if process is not None:
            _close_pipes(process)

    def _publish_positions(self, only: Task | None = None) -> None:
        """Tell the tasks that wait how many are before them. The lock is held, so nothing overtakes these events."""
        for place, task in enumerate(self._waiting):
            ahead = place + (self._running is not None)
            if only is None or task is only:
                task.publish({"event": "queued", "ahead": ahead})

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                task = self._running = self._waiting.pop(0)
                self._publish_positions()
            final = self._run(task)
            with self._changed:
                self._running = None
            task.publish(final)

    def _run(self, task: Task) -> Event:
        """Send a task to the process and publish its progress; returns its final event."""
        try:
            process = self._running_process()
            with self._changed:
                self._send({"id": task.number, "kind": task.kind, "arguments": task.arguments})
                if task.cancelled:  # before it was sent
                    self._send({"cancel": task.number})
            assert process.stdout is not None
            for line in process.stdout:
                event = json.loads(line)
                if event.pop("id") != task.number:
                    continue
                if event["event"] in FINAL_EVENTS:
                    return event
                task.publish(event)
            return self._exit_event(process)
        except (OSError, ValueError) as error:
            return {"event": "failed", "sentence": f"the worker cannot be reached ({error}): expected it to run."}

    def _running_process(self) -> subprocess.Popen[str]:
        """The process, started where there is none."""
        if self._process is None or self._process.poll() is not None:
            source = str(Path(sightline.__file__).parents[1])
            path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**_ENVIRONMENT, **os.environ, "PYTHONPATH": path},
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

    def _exit_event(self, process: subprocess.Popen[str]) -> Event:
        """The final event of a task whose process has ended without one."""
        code = process.wait()
        _close_pipes(process)
        if self._closed:
            return {"event": "cancelled"}
        how = f"signal {-code}, as when memory runs out" if code < 0 else f"exit code {code}"
        sentence = f"the process with the model ended ({how}): expected it to finish; the next task starts a new one."
        return {"event": "failed", "sentence": sentence}


def _close_pipes(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was still to be written to a process that has ended
                pipe.close()
