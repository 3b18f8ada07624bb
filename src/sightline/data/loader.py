"""Batches of clips from worker processes, with a position from which to resume exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

from torch.utils.data import DataLoader

from sightline.checks import whole_number
from sightline.data.clip import Indexed
from sightline.data.order import Order
from sightline.errors import SightlineError

Item = TypeVar("Item")


class ClipLoader(Generic[Item], Iterable[list[Item]]):
    """Endless batches: lists of `batch_size` clips in the given order, the same for any number of workers.

    Of every `batch_size x processes` consecutive clips, process `rank` gets its `batch_size`. The state counts clips that
    were yielded, not those that workers have prefetched, so that a resumed run sees exactly the remaining clips.
    """

    def __init__(
        self,
        clips: Indexed[Item],
        order: Order,
        batch_size: int,
        *,
        workers: int = 0,
        rank: int = 0,
        processes: int = 1,
        **options: Any,
    ) -> None:
        """options: passed on to torch's DataLoader, such as pin_memory or prefetch_factor."""
        self.clips, self.order, self.batch_size = clips, order, whole_number("batch_size", batch_size)
        self.workers, self.rank, self.processes, self.options = (
            workers,
            rank,
            whole_number("processes", processes),
            options,
        )
        if not 0 <= rank < processes:
            raise SightlineError(f"rank is {rank}: expected one of {processes} processes, from 0.")
        self.position = 0  # clips yielded by all processes together

    def __iter__(self) -> Iterator[list[Item]]:
        loader: DataLoader[list[Item]] = DataLoader(
            self.clips,  # type: ignore[arg-type]  # torch declares its own class and only uses indexing
            batch_size=self.batch_size,
            sampler=_ShardSampler(self),
            num_workers=self.workers,
            collate_fn=list,
            **self.options,
        )
        for batch in loader:
            self.position += self.batch_size * self.processes
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.order.epoch(self.position), "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue after the clips of a saved state; takes effect on the next `iter`."""
        self.position = int(state["position"])


class _ShardSampler(Iterable[int]):
    """The indices that one process reads, starting at the loader's position."""

    def __init__(self, loader: ClipLoader[Any]) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[int]:
        loader = self.loader
        indices = loader.order.from_position(loader.position)
        while True:
            global_batch = list(islice(indices, loader.batch_size * loader.processes))
            yield from global_batch[loader.rank * loader.batch_size : (loader.rank + 1) * loader.batch_size]
