"""How often camera moves occur in lines of the move language, and by which amounts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

OWN_MOTION = "the source's own motion"
TOGETHER, IN_TURN = "several at the same time", "several in turn"


@dataclass(frozen=True)
class MoveUse:
    """One move in some lines. fraction: of the lines that contain it. amounts: 5 %, median and 95 % of the absolute value of its
    first amount; None for what has none."""

    name: str
    fraction: float
    amounts: tuple[float, float, float] | None


def move_uses(lines: Sequence[str]) -> list[MoveUse]:
    """The moves of these lines, the most frequent first, after the fractions of lines of several moves and of empty lines."""
    found: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for line in lines:
        parts = [part.strip() for part in re.split(r"[,+](?=\s*[A-Za-z])", line)] if line else []
        names = {part.partition(":")[0] for part in parts}
        names |= {TOGETHER} if "+" in line else set()
        names |= {IN_TURN} if "," in line else set()
        for name in names or {OWN_MOTION}:
            counts[name] = counts.get(name, 0) + 1
        for part in parts:
            name, _, amounts = part.partition(":")
            if amounts:
                found.setdefault(name, []).append(abs(float(amounts.partition(":")[0])))
    uses = [MoveUse(name, count / len(lines), _quantiles(found.get(name))) for name, count in counts.items()]
    general = (OWN_MOTION, TOGETHER, IN_TURN)
    return sorted(uses, key=lambda use: (use.name not in general, -use.fraction))


def _quantiles(amounts: list[float] | None) -> tuple[float, float, float] | None:
    if not amounts:
        return None
    low, median, high = torch.tensor(amounts).quantile(torch.tensor([0.05, 0.5, 0.95])).tolist()
    return low, median, high
