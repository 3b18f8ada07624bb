"""The closed loops of the Revisit protocol: leave the first view, come back to it, and stay.

The timetable is in twentieths of the take: 9 out, 1 at the largest excursion, 9 back, 1 at home. Of 81 frames
(0-based), 36..40 are spent at the largest excursion, which is the protocol's away window, and 76..80 exactly at the
first pose, its return window. Other lengths keep the proportions. Out and back are eased unless told otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import Unpack

from sightline.cameras.moves.setup import Setup, Shot, around_subject, look_at_subject, point
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number
from sightline.errors import SightlineError


def loop_truck(distance: float = 0.5, **shot: Unpack[Shot]) -> Trajectory:
    """Truck right (distance > 0, scene units), wait, and return by the same way."""
    setup, excursion, _ = _timetable(shot)
    return setup.film(position=point(x=number("distance", distance) * excursion))


def loop_orbit(degrees: float = 30.0, target_depth: float = 2.0, **shot: Unpack[Shot]) -> Trajectory:
    """Orbit the subject to the right (degrees > 0), wait, and return by the same way."""
    setup, excursion, _ = _timetable(shot)
    depth = number("target_depth", target_depth, above=0.0)
    azimuth = math.radians(number("degrees", degrees)) * excursion
    level, distance = torch.zeros_like(azimuth), torch.full_like(azimuth, depth)
    return setup.film(*around_subject(azimuth, level, distance, depth))


def loop_dolly(distance: float = 0.5, **shot: Unpack[Shot]) -> Trajectory:
    """Dolly forward (distance > 0, scene units), wait, and return by the same way."""
    setup, excursion, _ = _timetable(shot)
    return setup.film(position=point(z=number("distance", distance) * excursion))


def loop_nonpalindromic(distance: float = 0.5, target_depth: float = 2.0, **shot: Unpack[Shot]) -> Trajectory:
    """Go out in front and return behind: a level circle that reaches `distance` to the right (> 0) of the start.

    The camera looks at the subject throughout. The circle's far side is its largest excursion; the way out bulges
    forward by half the distance and the way back bulges backward by as much, so no view of one is a view of the other.
    """
    setup, excursion, side = _timetable(shot)
    diameter, depth = number("distance", distance), number("target_depth", target_depth, above=0.0)
    if abs(diameter) >= 2 * depth:
        raise SightlineError(f"distance is {distance!r}: expected less than twice target_depth = {depth:g}.")
    along = torch.pi * excursion  # angle on the circle, 0 at home and pi at the far side
    position = point(x=diameter / 2 * (1 - along.cos()), z=side * abs(diameter) / 2 * along.sin())
    return setup.film(look_at_subject(position, depth), position)


REVISIT_LOOPS: dict[str, Callable[..., Trajectory]] = {
    loop.__name__: loop for loop in (loop_truck, loop_orbit, loop_dolly, loop_nonpalindromic)
}


def _timetable(shot: Shot) -> tuple[Setup, Tensor, Tensor]:  # -> setup, [T], [T]
    """Excursion from 0 to 1 and back to exactly 0, and the side it is on: +1 going out, -1 coming back."""
    shot.setdefault("easing", "ease")
    setup = Setup(**shot)
    clock = 20 * setup.time
    out = setup.eased((clock / 9).clamp(0, 1))
    back = setup.eased(((clock - 10) / 9).clamp(0, 1))
    return setup, out - back, torch.where(back > 0, -1.0, 1.0).double()
