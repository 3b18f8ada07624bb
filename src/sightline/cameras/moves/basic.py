"""The basic camera moves of film-making. Each docstring says which way a positive amount goes; a negative one reverses it.

"The subject" is the point `target_depth` scene units in front of the first camera.
"""

from __future__ import annotations

import math
import operator
import random

import torch
from torch import Tensor
from typing_extensions import Unpack

from sightline.cameras import se3
from sightline.cameras.moves.shot import Shot, ShotOptions, around_subject, centres, look_at_subject
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number
from sightline.errors import SightlineError

# Breathing, sway and the operator's corrections, in Hz. Faster tremor of a hand is too small to see.
_SHAKE_HZ = (0.25, 0.45, 0.8, 1.4, 2.4)


def static(**options: Unpack[ShotOptions]) -> Trajectory:
    """The camera stays where it is."""
    return Shot.of(options).trajectory()


# -- the camera turns in place ---------------- --------------------------------------------------------------------


def pan(degrees: float = 30.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Turn right (degrees > 0) or left on the spot."""
    shot = Shot.of(options)
    return shot.trajectory(se3.axis_rotation("y", shot.sweep_angle("degrees", degrees)))


def tilt(degrees: float = 15.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Turn up (degrees > 0) or down on the spot."""
    shot = Shot.of(options)
    return shot.trajectory(se3.axis_rotation("x", shot.sweep_angle("degrees", degrees)))


def roll(degrees: float = 15.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Turn about the viewing axis, clockwise (degrees > 0) as seen from behind the camera.

    The picture's contents turn the other way: after a clockwise roll the right end of the horizon is the higher one.
    """
    shot = Shot.of(options)
    return shot.trajectory(se3.axis_rotation("z", shot.sweep_angle("degrees", degrees)))


# -- the camera moves and keeps its orientation --- ---------------------------------------------------------------


def truck(distance: float = 0.5, **options: Unpack[ShotOptions]) -> Trajectory:
    """Move right (distance > 0) or left, in scene units."""
    shot = Shot.of(options)
    return shot.trajectory(position=centres(x=shot.sweep("distance", distance)))


def pedestal(distance: float = 0.3, **options: Unpack[ShotOptions]) -> Trajectory:
    """Move up (distance > 0) or down, in scene units."""
    shot = Shot.of(options)
    return shot.trajectory(position=centres(y=-shot.sweep("distance", distance)))


def dolly(distance: float = 0.5, **options: Unpack[ShotOptions]) -> Trajectory:
    """Move forward (distance > 0) or back, in scene units."""
    shot = Shot.of(options)
    return shot.trajectory(position=centres(z=shot.sweep("distance", distance)))


# -- the camera moves and keeps looking at the subject --------------------------------------------------------------


def orbit(degrees: float = 30.0, target_depth: float = 2.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Circle the subject to the right (degrees > 0), counter-clockwise seen from above, always looking at it."""
    return arc(degrees, 0.0, target_depth, **options)


def arc(
    degrees: float = 30.0, elevation: float = 15.0, target_depth: float = 2.0, **options: Unpack[ShotOptions]
) -> Trajectory:
    """Orbit to the right (degrees > 0) while climbing (elevation > 0, degrees), at one distance from the subject.

    Both angles are swept at once, as longitude and latitude on a sphere about the subject. |elevation| < 90.
    """
    if abs(number("elevation", elevation)) >= 90:
        raise SightlineError(f"elevation is {elevation!r}: expected degrees between -90 and 90.")
    shot, depth = Shot.of(options), number("target_depth", target_depth, above=0.0)
    azimuth, height = shot.sweep_angle("degrees", degrees), shot.sweep_angle("elevation", elevation)
    return shot.trajectory(*around_subject(azimuth, height, torch.full_like(azimuth, depth), depth))


def spiral(
    degrees: float = 180.0, approach: float = 0.5, target_depth: float = 2.0, **options: Unpack[ShotOptions]
) -> Trajectory:
    """Orbit to the right (degrees > 0) while closing in on the subject (approach > 0, scene units) or backing off."""
    shot, depth = Shot.of(options), number("target_depth", target_depth, above=0.0)
    _require_short_of_subject("approach", approach, depth)
    azimuth, nearer = shot.sweep_angle("degrees", degrees), shot.sweep("approach", approach)
    return shot.trajectory(*around_subject(azimuth, torch.zeros_like(azimuth), depth - nearer, depth))


def crane(rise: float = 0.5, target_depth: float = 2.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Lift straight up (rise > 0, scene units) or lower, tilting so that the subject stays in the middle."""
    shot, depth = Shot.of(options), number("target_depth", target_depth, above=0.0)
    position = centres(y=-shot.sweep("rise", rise))
    return shot.trajectory(look_at_subject(position, depth), position)


# -- the lens ------------------------------------------------------------------------------------------------------


def zoom(from_mm: float | None = None, to_mm: float = 50.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Change the focal length, in millimetres; the camera stays.

    `from_mm` is another name for `focal_mm`. The picture grows by the same factor from each frame to the next.
    """
    if from_mm is not None:
        start = number("from_mm", from_mm, above=0.0)
        if not math.isclose(options.get("focal_mm", start), start):
            raise SightlineError(
                f"from_mm is {from_mm:g} but focal_mm is {options['focal_mm']:g}: expected one of the two."
            )
        options["focal_mm"] = start
    shot = Shot.of(options)
    ratio = number("to_mm", to_mm, above=0.0) / shot.focal_mm
    return shot.trajectory(focal_mm=shot.focal_mm * ratio ** shot.ease(shot.time))


def dolly_zoom(distance: float = 0.5, target_depth: float = 2.0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Move forward (distance > 0, scene units) while the lens widens so that the subject keeps its size."""
    shot, depth = Shot.of(options), number("target_depth", target_depth, above=0.0)
    _require_short_of_subject("distance", distance, depth)
    forward = shot.sweep("distance", distance)
    return shot.trajectory(position=centres(z=forward), focal_mm=shot.focal_mm * (1 - forward / depth))


# -- the operator ----------------------------------------------------------------------------------------------------


def handheld(degrees: float = 0.5, sway: float = 0.01, seed: int = 0, **options: Unpack[ShotOptions]) -> Trajectory:
    """Shake smoothly like a camera on a shoulder. The same seed gives the same shake on every machine.

    degrees, sway: root mean square of pan and tilt, and of the position along each axis in scene units, over a long
    shot; roll is half of pan. Frequencies lie between 0.2 and 2.6 Hz. The shake is a function of time in seconds, so
    easing does not affect it, and a longer shot of the same seed starts like the shorter one.
    """
    shot = Shot.of(options)
    try:
        # Python's own generator: its sequence is promised to be the same in every version and on every machine.
        rng = random.Random(operator.index(seed))
    except TypeError:
        raise SightlineError(f"seed is {seed!r}: expected a whole number.") from None
    angle, sway = math.radians(number("degrees", degrees)), number("sway", sway)
    seconds = torch.arange(shot.frames, dtype=torch.float64) / shot.fps
    pan, tilt, roll, x, y, z = (_shake(rng, seconds) for _ in range(6))
    rotation = se3.axis_rotation("y", angle * pan) @ se3.axis_rotation("x", angle * tilt)
    rotation = rotation @ se3.axis_rotation("z", 0.5 * angle * roll)
    return shot.trajectory(rotation, sway * centres(x, y, z))


def _shake(rng: random.Random, seconds: Tensor) -> Tensor:  # [T] -> [T]
    """A sum of sines of unit root mean square in the long run, the slow ones larger, shifted to start at 0."""
    total = torch.zeros_like(seconds)
    norm = math.sqrt(sum(0.5 / hz**2 for hz in _SHAKE_HZ))
    for hz in _SHAKE_HZ:
        omega, phase = math.tau * hz * rng.uniform(0.92, 1.08), rng.uniform(0.0, math.tau)
        total += torch.sin(omega * seconds + phase) / (hz * norm)
    return total - total[0]


def _require_short_of_subject(name: str, distance: float, depth: float) -> None:
    if number(name, distance) >= depth:
        raise SightlineError(
            f"{name} is {distance!r}, but the subject is at target_depth = {depth:g}: expected a move that stops short of it."
        )
