"""The split into training and held-out scenes, by a hash of the scene's name. It does not depend on the other scenes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from sightline.errors import SightlineError

Part = Literal["all", "train", "held-out"]
PARTS = ("all", "train", "held-out")


def is_held_out(source: str, scene: str, fraction: float) -> bool:
    """Whether a scene is held out. A larger fraction holds out every scene that a smaller one does."""
    return _hash(f"{source}/{scene}") < fraction * 2**64


def share_of_scene(source: str, scene: str, weights: Sequence[float]) -> int:
    """Which of several shares of the data a scene belongs to. weights: relative sizes of the shares."""
    at = _hash(f"share of {source}/{scene}") / 2**64 * sum(weights)
    for share, end in enumerate(accumulate(weights)):
        if at < end:
            return share
    return len(weights) - 1


def _hash(text: str) -> int:  # -> 0 .. 2^64 - 1
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def in_part(part: Part, source: str, scene: str, fraction: float) -> bool:
    """Whether a scene belongs to a part of the split. fraction: of the scenes that are held out."""
    if part not in PARTS:
        raise SightlineError(f"part is {part!r}: expected one of {', '.join(PARTS)}.")
    if not 0 <= fraction <= 1:
        raise SightlineError(f"held_out is {fraction!r}: expected a fraction from 0 to 1.")
    return part == "all" or is_held_out(source, scene, fraction) == (part == "held-out")
