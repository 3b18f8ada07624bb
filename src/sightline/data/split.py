"""Which scenes are held out: decided by a hash of the name, so by neither the order nor the number of the others."""

from __future__ import annotations

import hashlib
from typing import Literal

from sightline.errors import SightlineError

Part = Literal["all", "train", "held-out"]
PARTS = ("all", "train", "held-out")


def is_held_out(source: str, scene: str, share: float) -> bool:
    """Whether a scene belongs to the held-out part. A larger share keeps every scene that a smaller one held out."""
    digest = hashlib.sha256(f"{source}/{scene}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def in_part(part: Part, source: str, scene: str, share: float) -> bool:
    if part not in PARTS:
        raise SightlineError(f"part is {part!r}: expected one of {', '.join(PARTS)}.")
    if not 0 <= share <= 1:
        raise SightlineError(f"held_out is {share!r}: expected a share from 0 to 1.")
    return part == "all" or is_held_out(source, scene, share) == (part == "held-out")
