"""The folder of a run that writes into it until it ends: a training, a cache, an evaluation, a batch of jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sightline.files import remove_leftovers, require_writable
from sightline.locks import hold_lock

LOCK = ".sightline-lock"


@contextmanager
def locked(folder: str | Path, parts: tuple[str, ...] = (), expected: str = "a writable place") -> Iterator[None]:
    """Keep a folder for this command: a second one is refused in one sentence, before it has read or written anything.

    The folder is created, and removed again if it stays empty. Temporary files and folders of a killed run are deleted from
    it and from its `parts`. expected: what an error says the folder should be. Of the processes of a launcher, the first one
    holds the lock for all.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    folder = Path(folder)
    missing = [place for place in (folder, *folder.parents) if not place.exists()]  # nearest first
    require_writable(folder, expected)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder / LOCK, folder):
            for place in (folder, *(folder / part for part in parts)):
                remove_leftovers(place, files=True)
            yield
    finally:
        for place in missing:
            with suppress(OSError):
                place.rmdir()


def is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing but its lock."""
    return all(item.name == LOCK for item in folder.iterdir())
