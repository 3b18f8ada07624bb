"""Moves in one line of text, and the names that other tools give them.

orbit:30                   one move and its first amount
arc:30:15:target_depth=3   more amounts, in order or by name
dolly:0.5+pan:20           at once
truck:1, pan:-30           one after the other; the frames are shared out evenly
zoom:28>70                 from one focal length to another
zoom:70                    from the present focal length
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from typing_extensions import Unpack

from sightline.cameras import lens
from sightline.cameras.moves import film, loops
from sightline.cameras.moves.setup import Setup, Shot
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

Move = Callable[..., Trajectory]

MOVES: dict[str, Move] = {
    move.__name__: move
    for move in (
        film.static, film.pan, film.tilt, film.roll, film.truck, film.pedestal, film.dolly, film.orbit, film.arc,
        film.crane, film.spiral, film.zoom, film.dolly_zoom, film.handheld,
    )
} | loops.REVISIT_LOOPS  # fmt: skip


class Alias(NamedTuple):
    """Another name for a move: which one, whether its first amount changes sign, and what to say if more is meant."""

    move: str
    sign: int = 1
    instead: str = ""

    def __str__(self) -> str:
        more, less = _DIRECTIONS.get(self.move, ("", ""))
        direction = more if self.sign > 0 else less
        return self.move + (f" (the camera {direction})" if direction else "") + (self.instead and f"; {self.instead}")


_DIRECTIONS = {
    "pan": ("turns right", "turns left"),
    "tilt": ("turns up", "turns down"),
    "roll": ("rolls clockwise", "rolls counter-clockwise"),
    "truck": ("moves right", "moves left"),
    "pedestal": ("moves up", "moves down"),
    "dolly": ("moves forward", "moves back"),
    "orbit": ("circles to the right", "circles to the left"),
    "arc": ("circles to the right", "circles to the left"),
    "crane": ("rises", "sinks"),
}
_FOR_A_LENS = "for a change of focal length say zoom:28>70"
_FOR_A_PAN = "to turn the camera say pan:30 (right) or pan:-30 (left)"
_FOR_A_TILT = "to turn the camera say tilt:15 (up) or tilt:-15 (down)"

# Names that mean something else on a film set than in the tools they come from carry what to say instead.
_PLAIN = {
    "track": "truck", "crab": "truck", "boom": "pedestal", "jib": "crane", "push": "dolly", "yaw": "pan",
    "pitch": "tilt", "still": "static", "fixed": "static", "locked_off": "static", "shake": "handheld",
    "vertigo": "dolly_zoom", "zolly": "dolly_zoom",
}  # fmt: skip
_OPPOSITES = {
    ("zoom_in", "zoom_out"): ("dolly", _FOR_A_LENS),
    ("pan_right", "pan_left"): ("truck", _FOR_A_PAN),
    ("pan_up", "pan_down"): ("pedestal", _FOR_A_TILT),
    ("move_forward", "move_backward"): ("dolly", ""),
    ("move_in", "move_out"): ("dolly", ""),
    ("dolly_in", "dolly_out"): ("dolly", ""),
    ("push_in", "pull_out"): ("dolly", ""),
    ("push_forward", "pull_back"): ("dolly", ""),
    ("move_right", "move_left"): ("truck", ""),
    ("truck_right", "truck_left"): ("truck", ""),
    ("track_right", "track_left"): ("truck", ""),
    ("move_up", "move_down"): ("pedestal", ""),
    ("pedestal_up", "pedestal_down"): ("pedestal", ""),
    ("boom_up", "boom_down"): ("pedestal", ""),
    ("crane_up", "crane_down"): ("crane", ""),
    ("turn_right", "turn_left"): ("pan", ""),
    ("yaw_right", "yaw_left"): ("pan", ""),
    ("look_up", "look_down"): ("tilt", ""),
    ("tilt_up", "tilt_down"): ("tilt", ""),
    ("pitch_up", "pitch_down"): ("tilt", ""),
    ("clockwise", "anticlockwise"): ("roll", ""),
    ("roll_right", "roll_left"): ("roll", ""),
    ("orbit_right", "orbit_left"): ("orbit", ""),
    ("arc_right", "arc_left"): ("arc", ""),
}
ALIASES: dict[str, Alias] = {name: Alias(move) for name, move in _PLAIN.items()}
for (_more, _less), (_move, _instead) in _OPPOSITES.items():
    ALIASES[_more] = Alias(_move, 1, _instead)
    ALIASES[_less] = Alias(_move, -1, _instead)


def get(name: str) -> Move:
    """The move of this name or alias; "Zoom In", "zoom-in" and "zoom_in" are one. An alias is said to the log once."""
    key = re.sub(r"[\s_-]+", "_", name.strip().lower())
    if key in MOVES:
        return MOVES[key]
    if key not in ALIASES:
        raise SightlineError(f"move is {name.strip()!r}: expected one of {', '.join(MOVES)}.")
    _say(key)
    move, sign, _ = ALIASES[key]
    return MOVES[move] if sign > 0 else _opposite(MOVES[move])


def parse(text: str, **shot: Unpack[Shot]) -> Trajectory:
    """Read a line such as "dolly:0.5+pan:20, orbit:30": "+" is at once, a comma is then.

    Moves in a row share `frames` evenly, each starting on the last frame of the one before, pose and lens. Without
    `focal_mm` the lens is the one that the first zoom starts from, if it says so.
    """
    rows = [[_Call.read(move) for move in re.split(r"\+(?=\s*[A-Za-z])", row)] for row in text.split(",")]
    setup = Setup(**shot)
    starts = [call.amounts["from_mm"] for row in rows for call in row if "from_mm" in call.amounts]
    shot.setdefault("focal_mm", starts[0] if starts else setup.focal_mm)
    steps = setup.frames - 1
    if len(rows) > 1 and steps < len(rows):
        raise SightlineError(
            f"frames is {setup.frames}: expected at least {len(rows) + 1} for {len(rows)} moves in turn."
        )

    whole = None
    for index, row in enumerate(rows):
        shot["frames"] = steps * (index + 1) // len(rows) - steps * index // len(rows) + 1
        if whole is not None:
            shot["focal_mm"] = lens.FULL_FRAME_MM / setup.width * float(whole.intrinsics[-1, 0, 0])
        path = functools.reduce(Trajectory.combine, [call.make(shot) for call in row])
        whole = path if whole is None else whole.concatenate(path)
    assert whole is not None  # splitting a text gives at least one part
    return whole


class _Call(NamedTuple):
    """One move of a line, read but not yet made."""

    move: Move
    amounts: dict[str, float]

    @classmethod
    def read(cls, text: str) -> _Call:
        name, *words = (word.strip() for word in text.split(":"))
        if not name:
            raise SightlineError(f"move is {text.strip()!r}: expected a name and its amounts, such as orbit:30.")
        move = get(name)
        names = _amount_names(move)
        if move is film.zoom:
            words = _from_and_to(words)
        amounts: dict[str, float] = {}
        for place, word in enumerate(words):
            key, equals, value = word.rpartition("=")
            key = key.strip() if equals else "".join(names[place : place + 1])
            if key not in names or key in amounts:
                raise SightlineError(f"{name} has the amount {word!r}: expected {_each_once(names)}.")
            amounts[key] = _amount(name, value)
        return cls(move, amounts)

    def make(self, shot: Shot) -> Trajectory:
        return self.move(**self.amounts, **shot)


def _from_and_to(words: list[str]) -> list[str]:
    """The first amount of a zoom, "28>70" or "70", by name."""
    if not words or "=" in words[0]:
        return words
    start, _, end = words[0].rpartition(">")
    return [*([f"from_mm={start}"] if start else []), f"to_mm={end}", *words[1:]]


def _each_once(names: list[str]) -> str:
    return f"{', '.join(names)}, each at most once" if names else "none"


def _amount(name: str, word: str) -> float:
    try:
        return int(word) if re.fullmatch(r"[+-]?\d+", word.strip()) else float(word)
    except ValueError:
        raise SightlineError(f"{name} has the amount {word!r}: expected a number.") from None


def _amount_names(move: Move) -> list[str]:
    parameters = inspect.signature(move).parameters.values()
    return [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]


def _opposite(move: Move) -> Move:
    """The move with its first amount negated."""

    @functools.wraps(move)
    def opposite(*amounts: Any, **named: Any) -> Trajectory:
        bound = inspect.signature(move).bind(*amounts, **named)
        bound.apply_defaults()
        first = next(iter(bound.arguments))
        bound.arguments[first] = -bound.arguments[first]
        return move(*bound.args, **bound.kwargs)

    return opposite


@functools.cache
def _say(key: str) -> None:
    alias = ALIASES[key]
    level = logging.WARNING if alias.instead else logging.INFO
    logging.getLogger("sightline").log(level, "%s is read as %s.", key.replace("_", " "), alias)
