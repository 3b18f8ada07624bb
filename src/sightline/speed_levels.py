"""The speed levels of `--speed` and `sl.set_speed`: their names, and the one that is used where none is given."""

from __future__ import annotations

from typing import Literal, get_args

from sightline.errors import SightlineError

Speed = Literal["exact", "fast", "faster", "fastest"]
SPEEDS: tuple[Speed, ...] = get_args(Speed)

# The default of every command and function. It stays `exact` until the levels have been measured on a GPU.
DEFAULT_SPEED: Speed = "exact"


def check_speed(speed: str) -> Speed:
    """The level of this name; others are refused."""
    if speed not in SPEEDS:
        raise SightlineError(f"speed is {speed!r}: expected one of {', '.join(SPEEDS)}.")
    return speed
