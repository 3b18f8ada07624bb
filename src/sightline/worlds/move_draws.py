"""Random lines of the move language, such as "dolly:0.6+pan:-25" or "zoom:45, static", at the amounts that people type."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from sightline.cameras import defaults
from sightline.cameras.moves import Easing

EASINGS: tuple[Easing, ...] = ("linear", "linear", "linear", "ease", "ease", "ease_in", "ease_out")
_LONGEST_ARC = 2.5  # metres

_Draw = Callable[["_Pen"], str]


class _Pen:
    """Draws the amounts of a line. Distances and orbits are multiplied by `travel`; turns and lenses are not."""

    def __init__(self, pick: random.Random, depth: float, travel: float) -> None:
        self.pick, self.depth, self.travel = pick, depth, travel

    def turn(self, low: float, high: float) -> str:
        """Degrees of either sign."""
        return _text(self.pick.choice((-1, 1)) * self.pick.uniform(low, high))

    def distance(self, low: float, high: float) -> str:
        """Metres of either sign."""
        return _text(self.pick.choice((-1, 1)) * self.pick.uniform(low, high) * self.travel)

    def around(self, low: float, high: float) -> str:
        """Degrees of either sign around the subject; around a distant one fewer, so that the path stays short."""
        return self.distance(low, min(high, max(low, math.degrees(_LONGEST_ARC / self.depth))))

    @property
    def subject(self) -> str:
        return f"target_depth={_text(self.depth)}"


_TURNS: dict[str, _Draw] = {
    "pan": lambda pen: f"pan:{pen.turn(5, 60)}",
    "tilt": lambda pen: f"tilt:{pen.turn(4, 25)}",
    "roll": lambda pen: f"roll:{pen.turn(5, 45)}",
}
_TRAVELS: dict[str, _Draw] = {
    "truck": lambda pen: f"truck:{pen.distance(0.1, 1.2)}",
    "pedestal": lambda pen: f"pedestal:{pen.distance(0.1, 0.6)}",
    "dolly": lambda pen: f"dolly:{pen.distance(0.1, 1.5)}",
}
_AROUND: dict[str, _Draw] = {
    "orbit": lambda pen: f"orbit:{pen.around(5, 60)}:{pen.subject}",
    "arc": lambda pen: f"arc:{pen.around(5, 45)}:elevation={pen.around(3, 20)}:{pen.subject}",
    "crane": lambda pen: f"crane:{pen.distance(0.1, 0.7)}:{pen.subject}",
    "spiral": lambda pen: f"spiral:{pen.around(20, 90)}:approach={pen.distance(0.1, 0.6)}:{pen.subject}",
}
_LENS: dict[str, _Draw] = {
    "zoom": lambda pen: f"zoom:{_text(defaults.FOCAL_MM * 2 ** pen.pick.uniform(-0.5, 1.3))}",
    "dolly_zoom": lambda pen: f"dolly_zoom:{pen.distance(0.08 * pen.depth, 0.4 * pen.depth)}:{pen.subject}",
}
_SHAKE: dict[str, _Draw] = {
    "handheld": lambda pen: (
        f"handheld:{_text(pen.pick.uniform(0.2, 1.5))}:sway={_text(pen.pick.uniform(0.003, 0.02))}"
        f":seed={pen.pick.randrange(10_000)}"
    ),
}
_LOOPS: dict[str, _Draw] = {
    "loop_truck": lambda pen: f"loop_truck:{pen.distance(0.15, 0.9)}",
    "loop_orbit": lambda pen: f"loop_orbit:{pen.around(8, 45)}:{pen.subject}",
    "loop_dolly": lambda pen: f"loop_dolly:{pen.distance(0.15, 0.9)}",
    "loop_nonpalindromic": lambda pen: f"loop_nonpalindromic:{pen.distance(0.2, 0.9)}:{pen.subject}",
}
_SINGLES = _TURNS | _TRAVELS | _AROUND | _LENS | _SHAKE
_SINGLE_NAMES = (*_SINGLES, "orbit", "orbit", "dolly", "pan", "truck")  # the most common ones more often
_JOINED = _TURNS | _TRAVELS | _LENS | {name: _AROUND[name] for name in ("orbit", "crane")}


def draw_line(key: str, depth: float, travel: float = 1.0) -> tuple[str, Easing]:
    """A line of the move language and its easing. The key decides both; travel scales how far the camera goes.

    depth: metres to the subject, which moves around it use. Half of the lines are one move; the others are moves at the
    same time, moves in turn, loops that return to the start, most of them another way, or a camera that stands still.
    """
    pick = random.Random(f"move {key}")
    easing, kind = pick.choice(EASINGS), pick.random()
    pen = _Pen(pick, depth, travel)
    if kind < 0.06:
        return "static", easing
    if kind < 0.5:
        return _SINGLES[pick.choice(_SINGLE_NAMES)](pen), easing
    if kind < 0.7:
        names = pick.sample(tuple(_JOINED), 3 if pick.random() < 0.25 else 2)
        return "+".join(_JOINED[name](pen) for name in names), easing
    if kind < 0.83:
        pen.travel *= 0.7  # each has half of the time
        names = pick.sample((*_SINGLES, "static"), 2)
        return ", ".join("static" if name == "static" else _SINGLES[name](pen) for name in names), easing
    return _loop(pen), pick.choice(("ease", "ease", easing))  # loops ease by default


def _loop(pen: _Pen) -> str:
    """A line that ends at its start: a loop by name (a circle as often as the others together), a square, or a turn there and
    back."""
    kind = pen.pick.random()
    if kind < 0.7:
        name = "loop_nonpalindromic" if kind < 0.35 else pen.pick.choice(("loop_truck", "loop_orbit", "loop_dolly"))
        return _LOOPS[name](pen)
    if kind < 0.85:
        across, along = pen.distance(0.15, 0.6), pen.distance(0.15, 0.6)
        return f"truck:{across}, dolly:{along}, truck:{_negated(across)}, dolly:{_negated(along)}"
    name = pen.pick.choice(("pan", "tilt", "roll"))
    turn = _TURNS[name](pen)
    return f"{turn}, {name}:{_negated(turn.partition(':')[2])}"


def _text(amount: float) -> str:
    return f"{amount:.3g}"


def _negated(amount: str) -> str:
    return amount[1:] if amount.startswith("-") else f"-{amount}"
