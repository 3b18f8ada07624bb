"""Locks on what a command writes. A lock ends with the process that holds it, however that process ends."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sightline.errors import SightlineError

try:
    import fcntl
except ImportError:  # on Windows: commands run without locks there
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger("sightline")
_PATIENCE = 0.5  # seconds: another command holds a lock for a moment while it removes left-overs
_held: set[int] = set()  # open lock files of this process


def _close_in_child() -> None:
    """A forked worker would keep the lock of a process that was killed."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class LockHeldError(SightlineError):
    """Another command holds the lock."""


@contextmanager
def hold_lock(file: Path, subject: Path, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold a lock file, which names the process that holds it, and delete it in the end.

    subject: what is written under the lock. A second command for it is refused in one sentence (LockHeldError), after it has
    waited for `patience` seconds; math.inf waits for the first one to end.
    """
    if fcntl is None:
        yield
        return
    descriptor = _acquire(file, subject, patience)
    _held.add(descriptor)
    try:
        yield
    finally:
        if descriptor in _held:  # not in a forked child
            _held.discard(descriptor)
            file.unlink(missing_ok=True)  # while it is held: nobody can have taken it
            os.close(descriptor)


def _acquire(file: Path, subject: Path, patience: float) -> int:
    last_try = time.monotonic() + patience
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SightlineError(
                f"{subject}: cannot be written ({error.strerror}), expected a writable place."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 1000).decode(errors="replace")
            os.close(descriptor)
            if time.monotonic() > last_try:
                raise LockHeldError(
                    f"{subject} is being written by another command ({owner or 'which has just started'}): expected it to "
                    "finish first, or another output."
                ) from None
            time.sleep(0.05)
            continue
        except OSError:  # a file system without locks
            _log.warning("%s lies on a disk without locks: make sure that no other command writes to it.", subject)
        if _is_at(file, descriptor):  # the one who held it before may have deleted it
            break
        os.close(descriptor)
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()}: {' '.join(command.split())[:200]}".encode(), 0)
    return descriptor


def _is_at(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False
