"""The closed loops of the Revisit protocol: the camera leaves the first view, returns to it and stays.

The schedule is in twentieths of the shot: 9 out, 1 at the largest excursion, 9 back, 1 at the start. Of 81 frames
(0-based), 36..40 are spent at the largest excursion, which is the protocol's away window, and 76..80 exactly at the
first pose, its return window. Other lengths keep the proportions. The default easing is "ease".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import Unpack

from sightline.cameras.moves.shot import Shot, ShotOptions, around_subject, centres, look_at_subject
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number
from sightline.errors import SightlineError


def loop_truck(distance: float = 0.5, **options: Unpack[ShotOptions]) -> Trajectory:
    """Truck right (distance > 0, scene units), wait, and return along the same path."""
    shot, excursion, _ = _schedule(options)
    return shot.trajectory(position=centres(x=number("distance", distance) * excursion))


def loop_orbit(degrees: float = 30.0, target_depth: float = 2.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Orbit the subject to the right (degrees > 0), wait, and return along the same path."""
    shot, excursion, _ = _schedule(options)
    depth = number("target_depth", target_depth, above=0.0)
    azimuth = math.radians(number("degrees", degrees)) * excursion
    level, distance = torch.zeros_like(azimuth), torch.full_like(azimuth, depth)
    return shot.trajectory(*around_subject(azimuth, level, distance, depth))


def loop_dolly(distance: float = 0.5, **options: Unpack[ShotOptions]) -> Trajectory:
    """Dolly forward (distance > 0, scene units), wait, and return along the same path."""
    shot, excursion, _ = _schedule(options)
    return shot.trajectory(position=centres(z=number("distance", distance) * excursion))


def loop_nonpalindromic(distance: float = 0.5, target_depth: float = 2.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Go out in front and return behind: a level circle that reaches `distance` to the right (> 0) of the start.

    The camera looks at the subject throughout. The far side of the circle is its largest excursion. The first half runs
    in front of the start and the second half behind it, by half the distance, so no view of one is a view of the other.
    """
    shot, excursion, side = _schedule(options)
    diameter, depth = number("distance", distance), number("target_depth", target_depth, above=0.0)
    if abs(diameter) >= 2 * depth:
        raise SightlineError(f"distance is {distance!r}: expected less than twice target_depth = {depth:g}.")
    along = torch.pi * excursion  # angle on the circle, 0 at the start and pi at the far side
    position = centres(x=diameter / 2 * (1 - along.cos()), z=side * abs(diameter) / 2 * along.sin())
    return shot.trajectory(look_at_subject(position, depth), position)


REVISIT_LOOPS: dict[str, Callable[..., Trajectory]] = {
    loop.__name__: loop for loop in (loop_truck, loop_orbit, loop_dolly, loop_nonpalindromic)
}


def _schedule(options: ShotOptions) -> tuple[Shot, Tensor, Tensor]:  # -> shot, [T], [T]
    """Excursion from 0 to 1 and back to exactly 0, and the side it is on: +1 going out, -1 coming back."""
    options.setdefault("easing", "ease")
    shot = Shot.of(options)
    clock = 20 * shot.time
    out = shot.ease((clock / 9).clamp(0, 1))
    back = shot.ease(((clock - 10) / 9).clamp(0, 1))
    return shot, out - back, torch.where(back > 0, -1.0, 1.0).double()
