"""Camera moves by the names of film-making. Amounts are degrees, scene units and millimetres; every trajectory starts at the
identity.

Pan, tilt and roll turn the camera; truck, pedestal and dolly move it; zoom changes the lens. `Trajectory.combine` performs
two moves at the same time, `Trajectory.concatenate` one after the other, and `parse` reads both from a line:
"dolly:0.5+pan:20, static" or "slow push in, then orbit right 45 over 3 s".
"""

from __future__ import annotations

from sightline.cameras.moves.basic import (
    arc,
    crane,
    dolly,
    dolly_zoom,
    handheld,
    orbit,
    pan,
    pedestal,
    roll,
    spiral,
    static,
    tilt,
    truck,
    zoom,
)
from sightline.cameras.moves.language import DEFAULT_TARGET_DEPTH, MoveLine, get_move, parse
from sightline.cameras.moves.loops import REVISIT_LOOPS, loop_dolly, loop_nonpalindromic, loop_orbit, loop_truck
from sightline.cameras.moves.shot import Easing, ShotOptions
from sightline.cameras.moves.words import GRAMMAR, MOVES, VERBS

__all__ = [
    "DEFAULT_TARGET_DEPTH",
    "GRAMMAR",
    "MOVES",
    "REVISIT_LOOPS",
    "VERBS",
    "Easing",
    "MoveLine",
    "ShotOptions",
    "arc",
    "crane",
    "dolly",
    "dolly_zoom",
    "get_move",
    "handheld",
    "loop_dolly",
    "loop_nonpalindromic",
    "loop_orbit",
    "loop_truck",
    "orbit",
    "pan",
    "parse",
    "pedestal",
    "roll",
    "spiral",
    "static",
    "tilt",
    "truck",
    "zoom",
]
