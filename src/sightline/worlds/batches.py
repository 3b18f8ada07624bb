"""Many clips of the worlds, a batch at a time, to be filmed on the device that wants them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

import torch
from torch import Tensor

from sightline.worlds.render import render_frames
from sightline.worlds.scene import stack
from sightline.worlds.styles import WorldBatch

Given = TypeVar("Given")
Made = TypeVar("Made")

BATCH = 248  # clips that are filmed at once: eight times what the renderer casts in one go
_WORTH_PROCESSES = 8  # batches below which starting processes takes longer than they save
_MOST_PROCESSES = 8


def render_batches(batches: Sequence[WorldBatch], device: torch.device | str) -> Tensor:  # -> [B, T, H, W, 3] uint8
    """Batches of several styles filmed as one. Scenes that move and scenes that do not compile to different code, so
    apart they would take a minute more to compile."""
    first = batches[0]
    scenes = stack([batch.scenes for batch in batches]).to(device)
    poses, lenses = (torch.cat([getattr(one, name) for one in batches]) for name in ("camera_to_world", "intrinsics"))
    xi, seconds = torch.cat([one.xi for one in batches]), torch.cat([one.seconds for one in batches])
    return render_frames(scenes, poses, lenses, xi, first.width, first.height, seconds=seconds)


def map_in_processes(make: Callable[[Given], Made], groups: Sequence[Given]) -> Iterator[Made]:
    """make(group) of each, in order; by several processes where there are many, each of one thread.

    Building a scene is thousands of operations on a few numbers: handing each to many cores takes 50 times as long.
    """
    processes = min(_MOST_PROCESSES, (os.cpu_count() or 1) // 2)
    if len(groups) < _WORTH_PROCESSES or processes < 2:
        for group in groups:
            with _one_thread():
                result = make(group)
            yield result
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for packed in pool.map(partial(_packed, make), groups):
            yield pickle.loads(packed)


def _packed(make: Callable[[Given], Made], group: Given) -> bytes:
    """As plain bytes: tensors sent between processes otherwise take shared memory, which a container may lack."""
    return pickle.dumps(make(group))


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
