"""Errors that are no fault of a row: the device has no memory left beside other processes, or it takes no more work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex

import torch

from sightline.files import failure
from sightline.locks import LockHeldError, hold_lock

MEMORY_FULL = "the GPU's memory is full: expected fewer --jobs, or a smaller micro_batch_size."
_SHORT = (MEMORY_FULL, "GiB per device", "GiB of memory beside its weights")  # of training/memory.py, the last two
_SHORT_ON_CUDA = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory")


class NoRoom(Exception):
    """The device has no memory for another training beside those of other processes, to which the task is left."""


class DeviceLost(Exception):
    """CUDA has reported an error after which it does nothing more in this process."""


def lack_of_memory(sentence: str) -> bool:
    """Whether a run failed because other processes had taken the memory of the device."""
    return any(words in sentence for words in _SHORT)


def explain(error: Exception) -> str:
    """One sentence on why a task failed, whatever the error."""
    if isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in _SHORT_ON_CUDA):
        return MEMORY_FULL
    return failure(error)


def is_device_lost(error: Exception) -> bool:
    """Whether no further task can run in this process."""
    return isinstance(error, RuntimeError) and str(error).startswith("CUDA error") and explain(error) != MEMORY_FULL


class Presence:
    """That this process works on the tasks of a folder, for the other ones to see."""

    def __init__(self, locks: Path) -> None:
        self._locks, self._held = locks, ExitStack()
        self._file = locks / f"working-{token_hex(8)}.lock"

    @contextmanager
    def __call__(self) -> Iterator[Presence]:
        with self._held:
            self._held.enter_context(hold_lock(self._file, self._locks))
            yield self

    def leave(self) -> bool:
        """Stop working if another process goes on; False for the last one, which stays. Two never leave to each other."""
        with hold_lock(self._locks / "leaving.lock", self._locks, patience=math.inf):
            if has_others := self.has_others():
                self._held.close()
            return has_others

    def has_others(self) -> bool:
        """Whether other processes are at work."""
        return any(_is_held(file) for file in self._locks.glob("working-*.lock") if file != self._file)


def remove_left_locks(locks: Path) -> None:
    """Delete the lock files of processes that were killed."""
    for file in locks.glob("*.lock"):
        _is_held(file)


def _is_held(file: Path) -> bool:
    try:
        with hold_lock(file, file, patience=0.0):
            return False  # left by a killed process
    except LockHeldError:
        return True
