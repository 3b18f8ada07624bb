"""The split into training and held-out scenes, by a hash of the scene's name. It does not depend on the other scenes."""

from __future__ import annotations

import hashlib
from typing import Literal

from sightline.errors import SightlineError

Part = Literal["all", "train", "held-out"]
PARTS = ("all", "train", "held-out")


def is_held_out(source: str, scene: str, fraction: float) -> bool:
    """Whether a scene is held out. A larger fraction holds out every scene that a smaller one does."""
    digest = hashlib.sha256(f"{source}/{scene}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64


def in_part(part: Part, source: str, scene: str, fraction: float) -> bool:
    """Whether a scene belongs to a part of the split. fraction: of the scenes that are held out."""
    if part not in PARTS:
        raise SightlineError(f"part is {part!r}: expected one of {', '.join(PARTS)}.")
    if not 0 <= fraction <= 1:
        raise SightlineError(f"held_out is {fraction!r}: expected a fraction from 0 to 1.")
    return part == "all" or is_held_out(source, scene, fraction) == (part == "held-out")
