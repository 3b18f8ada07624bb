"""Film moves by name. Amounts are degrees, scene units and millimetres; every path starts at the identity.

Pan, tilt and roll turn the camera; truck, pedestal and dolly move it; zoom changes the lens. Moves compose at once
(`Trajectory.combine`) and in sequence (`Trajectory.concatenate`); `parse` reads both from a line: "dolly:0.5+pan:20, static".
"""

from __future__ import annotations

from sightline.cameras.moves.film import (
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
from sightline.cameras.moves.language import ALIASES, MOVES, get, parse
from sightline.cameras.moves.loops import REVISIT_LOOPS, loop_dolly, loop_nonpalindromic, loop_orbit, loop_truck
from sightline.cameras.moves.setup import Easing, Shot

__all__ = [
    "ALIASES",
    "MOVES",
    "REVISIT_LOOPS",
    "Easing",
    "Shot",
    "arc",
    "crane",
    "dolly",
    "dolly_zoom",
    "get",
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
