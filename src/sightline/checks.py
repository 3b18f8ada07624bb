"""Checks of single values. A value that fails is refused in one sentence that names the argument."""

from __future__ import annotations

import math
import operator
from typing import Any

from sightline.errors import SightlineError


def number(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None, at_most: float | None = None
) -> float:
    """`value` as a finite float within the bounds."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    too_low = (above is not None and result <= above) or (at_least is not None and result < at_least)
    too_high = at_most is not None and result > at_most
    if not math.isfinite(result) or too_low or too_high:
        bounds = {"above": above, "of at least": at_least, "of at most": at_most}
        stated = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
        raise SightlineError(f"{name} is {shown(value)}: expected a finite number{f' {stated}' if stated else ''}.")
    return result


def whole_number(name: str, value: Any) -> int:
    """`value` as an int of at least 1. True is refused."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 1:
        raise SightlineError(f"{name} is {shown(value)}: expected a whole number of at least 1.")
    return value.__index__()


def frame_number(name: str, value: Any, frames: int) -> int:
    """`value` as the number of one of so many frames; negative ones count from the end. True is refused."""
    whole = not isinstance(value, bool) and hasattr(value, "__index__") and not getattr(value, "shape", ())
    try:
        frame = operator.index(value) if whole else frames
    except TypeError:  # a tensor or array of another kind of number
        frame = frames
    if not -frames <= frame < frames:
        raise SightlineError(f"{name} is {shown(value)}: expected a frame of this trajectory, which has {frames}.")
    return frame


def check_seed(seed: Any, name: str = "seed") -> int:
    """A seed that torch's generators accept."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= seed.__index__() < 2**63:
        raise SightlineError(f"{name} is {shown(seed)}: expected a whole number from 0 to 2^63 - 1.")
    return int(seed.__index__())


def check_fps(fps: Any) -> float:
    """A frame rate that a video file can state."""
    return number("fps", fps, at_least=0.001, at_most=1000.0)


def plain_number(value: float, digits: int = 4) -> str:
    """A number for a sentence, with so many digits; a large one is written out, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:.{digits}g}"


def shown(value: Any) -> str:
    """A value shortened for an error: containers by their size, text and numbers as written, on one line."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "an integer of more than 30 digits"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
