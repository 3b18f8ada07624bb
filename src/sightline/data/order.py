"""The order in which clips are seen: shuffled epochs, a mixture by weight, or one group of clips per step. A function of a seed
and a position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import torch

from sightline.checks import number, whole_number
from sightline.errors import SightlineError

_BLOCK = 4096  # draws of a mixture that are made at once


class Order(Protocol):
    """An endless sequence of clip indices that can be started at any position."""

    def from_position(self, position: int) -> Iterator[int]:
        """The indices at position, position + 1, ..."""

    def epoch(self, position: int) -> int:
        """Number of passes over all clips (on average, for a mixture) before this position."""


class Shuffled:
    """Every clip once per epoch, in a different order in each epoch."""

    def __init__(self, length: int, seed: int = 0) -> None:
        if length < 1:
            raise SightlineError("there are no clips to shuffle: expected at least one.")
        self.length, self.seed = length, seed

    def from_position(self, position: int) -> Iterator[int]:
        while True:
            epoch, offset = divmod(position, self.length)
            order = _permutation(self.length, self.seed, epoch)
            yield from order[offset:]
            position += self.length - offset

    def epoch(self, position: int) -> int:
        return position // self.length


class Mixed:
    """Sources drawn by weight. Within a source, every clip is drawn once before any is repeated.

    groups: clip indices of each source. weights: relative probabilities of the sources, whatever their number of clips.
    """

    def __init__(self, groups: Mapping[str, Sequence[int]], weights: Mapping[str, float], seed: int = 0) -> None:
        if set(groups) != set(weights):
            raise SightlineError(
                f"the source weights name {', '.join(sorted(weights)) or 'nothing'}: expected the sources "
                f"{', '.join(sorted(groups))}."
            )
        for name, group in groups.items():
            if not len(group) and weights[name]:
                raise SightlineError(f"the source {name!r} has no clips: expected some, or a weight of 0.")
        values = [number(f"the weight of {name!r}", weights[name], at_least=0.0) for name in groups]
        if not sum(values) > 0:
            raise SightlineError("all weights are 0: expected at least one source to draw from.")
        self.seed, self.length = seed, sum(len(group) for group in groups.values())
        self._groups = [list(group) for group in groups.values()]
        self._weights = torch.tensor(values, dtype=torch.float64)

    def from_position(self, position: int) -> Iterator[int]:
        block, offset = divmod(position, _BLOCK)
        drawn = [0] * len(self._groups)  # draws from each source so far
        for earlier in range(block):
            for source, count in enumerate(self._draws(earlier).bincount(minlength=len(drawn)).tolist()):
                drawn[source] += count
        rounds: dict[int, tuple[int, list[int]]] = {}
        while True:
            for offset_in_block, source in enumerate(self._draws(block).tolist()):
                if offset_in_block >= offset:
                    yield self._pick(source, drawn[source], rounds)
                drawn[source] += 1
            block, offset = block + 1, 0

    def epoch(self, position: int) -> int:
        return position // self.length

    def _draws(self, block: int) -> torch.Tensor:  # -> [_BLOCK] source of each draw
        return torch.multinomial(self._weights, _BLOCK, replacement=True, generator=_generator(self.seed, 0, block))

    def _pick(self, source: int, draw: int, rounds: dict[int, tuple[int, list[int]]]) -> int:
        group = self._groups[source]
        round_number, position = divmod(draw, len(group))
        if source not in rounds or rounds[source][0] != round_number:
            rounds[source] = (round_number, _permutation(len(group), self.seed, source + 1, round_number))
        return group[rounds[source][1][position]]


class OneGroupPerStep:
    """Groups of clips of which each step takes one, drawn by weight, with the group's own order inside it.

    orders: of each group's clips, from 0. lengths: clips of each group; the clips of all groups are numbered one group after
    the other. weights: relative probabilities of the groups. batch_size: clips of a step.
    """

    def __init__(
        self, orders: Sequence[Order], lengths: Sequence[int], weights: Sequence[float], batch_size: int, seed: int = 0
    ) -> None:
        self.orders, self.batch_size, self.seed = orders, whole_number("batch_size", batch_size), seed
        self.length, self._starts = sum(lengths), [sum(lengths[:group]) for group in range(len(lengths))]
        self._weights = torch.tensor(weights, dtype=torch.float64)

    def from_position(self, position: int) -> Iterator[int]:
        step, offset = divmod(position, self.batch_size)
        block, step_in_block = divmod(step, _BLOCK)
        drawn = torch.zeros(len(self.orders), dtype=torch.int64)  # steps of each group so far
        for earlier in range(block):
            drawn += self._draws(earlier).bincount(minlength=len(drawn))
        drawn += self._draws(block)[:step_in_block].bincount(minlength=len(drawn))
        clips = [
            order.from_position(steps * self.batch_size)
            for order, steps in zip(self.orders, drawn.tolist(), strict=True)
        ]
        while True:
            for group in self._draws(block)[step_in_block:].tolist():
                indices = [self._starts[group] + index for index in islice(clips[group], self.batch_size)]
                yield from indices[offset:]
                offset = 0
            block, step_in_block = block + 1, 0

    def epoch(self, position: int) -> int:
        return position // self.length

    def _draws(self, block: int) -> torch.Tensor:  # -> [_BLOCK] group of each step
        return torch.multinomial(self._weights, _BLOCK, replacement=True, generator=_generator(self.seed, 0, block))


def group_by_name(names: Sequence[str]) -> dict[str, list[int]]:
    """Indices of each name, in the order of first appearance: the groups of a mixture."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name, []).append(index)
    return groups


def _permutation(length: int, *key: int) -> list[int]:
    return torch.randperm(length, generator=_generator(*key)).tolist()


def _generator(*key: int) -> torch.Generator:
    """A generator for each key. The key is mixed, so that neighbouring keys give unrelated streams."""
    seed = 0
    for part in key:
        seed = (seed * 0x9E3779B97F4A7C15 + part + 0x632BE59BD9B4E019) % 2**64
        seed ^= seed >> 29
    return torch.Generator().manual_seed(seed % 2**63)
