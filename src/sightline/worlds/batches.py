"""Rendering many clips: batches of several styles in one call, and sampling of scenes in several processes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

import torch
from torch import Tensor

from sightline.devices import cpu_threads
from sightline.parents import end_with_parent
from sightline.worlds.render import render_frames
from sightline.worlds.scene import stack
from sightline.worlds.styles import WorldBatch

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH = 248  # clips that are rendered together: eight times what the renderer casts at once
_MIN_GROUPS = 8  # with fewer groups, starting processes takes longer than they save
_MAX_PROCESSES = 32  # more would build scenes faster than a device renders them
_shared: list[ProcessPoolExecutor] = []  # the pool of `shared_processes`, while one is open


def render_batches(batches: Sequence[WorldBatch], device: torch.device | str) -> Tensor:  # -> [B, T, H, W, 3] uint8
    """Render batches of several styles, of clips of one size and length, as one."""
    first = batches[0]
    scenes = stack([batch.scenes for batch in batches]).to(device)
    poses, lenses = (
        torch.cat([getattr(batch, name) for batch in batches]) for name in ("camera_to_world", "intrinsics")
    )
    xi, seconds = torch.cat([batch.xi for batch in batches]), torch.cat([batch.seconds for batch in batches])
    return render_frames(scenes, poses, lenses, xi, first.width, first.height, seconds=seconds)


def map_in_processes(function: Callable[[Item], Result], items: Sequence[Item]) -> Generator[Result, None, None]:
    """function(item) of each item, in order; with many items, in several processes of one thread each.

    Building a scene is thousands of operations on a few numbers, which is 50 times slower on many threads.
    """
    processes = min(_num_processes(), len(items))
    if not _shared and (len(items) < _MIN_GROUPS or processes < 2):
        for item in items:
            with cpu_threads(1):
                result = function(item)
            yield result
        return
    with nullcontext(_shared[0]) if _shared else _pool(processes) as pool:
        for pickled in pool.map(partial(_pickled_result, function), items):
            yield pickle.loads(pickled)


@contextmanager
def shared_processes(num_items: int) -> Iterator[None]:
    """All calls of map_in_processes within share one set of processes, whose start takes seconds.

    num_items: of all calls together; for few, no process is started.
    """
    if _shared or num_items < _MIN_GROUPS or _num_processes() < 2:
        yield
        return
    with _pool(_num_processes()) as pool:
        _shared.append(pool)
        try:
            yield
        finally:
            _shared.clear()


def _num_processes() -> int:
    return min(_MAX_PROCESSES, available_cores() - 1)  # one core is left to this process


def _pool(processes: int) -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_process)
    for _ in range(processes):  # each starts one process now, which takes seconds, while the caller does something else
        pool.submit(int)
    return pool


def _start_process() -> None:
    end_with_parent()
    torch.set_num_threads(1)


def available_cores() -> int:
    """The cores that this process may use; an equal part of them where a launcher started several processes here."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _pickled_result(function: Callable[[Item], Result], item: Item) -> bytes:
    """The result as bytes. Tensors sent between processes otherwise use shared memory, which a container may lack."""
    return pickle.dumps(function(item))
