"""Many clips of a style, a batch at a time, to be filmed on the device that wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from sightline.worlds.styles import WorldBatch, sample_batch

BATCH = 248  # clips that are filmed at once: eight times what the renderer casts in one go


def sample_batches(
    style: str, seeds: Sequence[int], frames: int = 33, width: int = 128, height: int = 128, batch: int = BATCH
) -> Iterator[WorldBatch]:
    """The clips of these seeds, in order."""
    for start in range(0, len(seeds), batch):
        with one_thread():
            sampled = sample_batch(style, seeds[start : start + batch], frames, width, height)
        yield sampled


@contextmanager
def one_thread() -> Iterator[None]:
    """Building a scene is thousands of operations on a few numbers: handing each to many cores takes 50 times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
