"""Reads moves from one line of text, and knows the names that other tools give them.

orbit:30                   one move and its first amount
arc:30:15:target_depth=3   more amounts, in order or by name
dolly:0.5+pan:20           both at the same time
truck:1, pan:-30           one after the other, each with an equal part of the frames
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
from sightline.cameras.moves import basic, loops
from sightline.cameras.moves.shot import Shot, ShotOptions
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

Move = Callable[..., Trajectory]

MOVES: dict[str, Move] = {
    move.__name__: move
    for move in (
        basic.static, basic.pan, basic.tilt, basic.roll, basic.truck, basic.pedestal, basic.dolly, basic.orbit, basic.arc,
        basic.crane, basic.spiral, basic.zoom, basic.dolly_zoom, basic.handheld,
    )
} | loops.REVISIT_LOOPS  # fmt: skip


class Alias(NamedTuple):
    """Another name for a move: which one, the sign of its first amount, and a hint where other tools mean something else."""

    move: str
    sign: int = 1
    hint: str = ""

    def __str__(self) -> str:
        more, less = _DIRECTIONS.get(self.move, ("", ""))
        direction = more if self.sign > 0 else less
        return self.move + (f" (the camera {direction})" if direction else "") + (self.hint and f"; {self.hint}")


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
_ZOOM_HINT = "for a change of focal length say zoom:28>70"
_PAN_HINT = "to turn the camera say pan:30 (right) or pan:-30 (left)"
_TILT_HINT = "to turn the camera say tilt:15 (up) or tilt:-15 (down)"

# Names that mean something else in film-making than in the tools they come from carry a hint.
_SYNONYMS = {
    "track": "truck", "crab": "truck", "boom": "pedestal", "jib": "crane", "push": "dolly", "yaw": "pan",
    "pitch": "tilt", "still": "static", "fixed": "static", "locked_off": "static", "shake": "handheld",
    "vertigo": "dolly_zoom", "zolly": "dolly_zoom",
}  # fmt: skip
_OPPOSITES = {
    ("zoom_in", "zoom_out"): ("dolly", _ZOOM_HINT),
    ("pan_right", "pan_left"): ("truck", _PAN_HINT),
    ("pan_up", "pan_down"): ("pedestal", _TILT_HINT),
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
ALIASES: dict[str, Alias] = {name: Alias(move) for name, move in _SYNONYMS.items()}
for (_more, _less), (_move, _hint) in _OPPOSITES.items():
    ALIASES[_more] = Alias(_move, 1, _hint)
    ALIASES[_less] = Alias(_move, -1, _hint)


def get_move(name: str) -> Move:
    """The move of this name or alias. "Zoom In", "zoom-in" and "zoom_in" are the same; an alias is logged once."""
    key = re.sub(r"[\s_-]+", "_", name.strip().lower())
    if key in MOVES:
        return MOVES[key]
    if key not in ALIASES:
        raise SightlineError(f"move is {name.strip()!r}: expected one of {', '.join(MOVES)}.")
    _log_alias(key)
    move, sign, _ = ALIASES[key]
    return MOVES[move] if sign > 0 else _opposite(MOVES[move])


def parse(text: str, **options: Unpack[ShotOptions]) -> Trajectory:
    """Read a line such as "dolly:0.5+pan:20, orbit:30": "+" joins simultaneous moves, a comma consecutive ones.

    Consecutive moves divide `frames` evenly; each starts with the pose and lens of the last frame before it. Without
    `focal_mm` the lens is the one that the first zoom starts from, if the line names it.
    """
    rows = [[_Call.read(move) for move in re.split(r"\+(?=\s*[A-Za-z])", row)] for row in text.split(",")]
    shot = Shot(**options)
    starts = [call.amounts["from_mm"] for row in rows for call in row if "from_mm" in call.amounts]
    options.setdefault("focal_mm", starts[0] if starts else shot.focal_mm)
    steps = shot.frames - 1
    if len(rows) > 1 and steps < len(rows):
        raise SightlineError(
            f"frames is {shot.frames}: expected at least {len(rows) + 1} for {len(rows)} moves in turn."
        )

    result = None
    for index, row in enumerate(rows):
        options["frames"] = steps * (index + 1) // len(rows) - steps * index // len(rows) + 1
        if result is not None:
            options["focal_mm"] = lens.FULL_FRAME_MM / shot.width * float(result.intrinsics[-1, 0, 0])
        part = functools.reduce(Trajectory.combine, [call.make(options) for call in row])
        result = part if result is None else result.concatenate(part)
    assert result is not None  # splitting a text gives at least one part
    return result


class _Call(NamedTuple):
    """One move of a line: the function and its amounts."""

    move: Move
    amounts: dict[str, float]

    @classmethod
    def read(cls, text: str) -> _Call:
        name, *words = (word.strip() for word in text.split(":"))
        if not name:
            raise SightlineError(f"move is {text.strip()!r}: expected a name and its amounts, such as orbit:30.")
        move = get_move(name)
        names = _amount_names(move)
        if move is basic.zoom:
            words = _from_and_to(words)
        amounts: dict[str, float] = {}
        for place, word in enumerate(words):
            key, equals, value = word.rpartition("=")
            key = key.strip() if equals else "".join(names[place : place + 1])
            if key not in names or key in amounts:
                raise SightlineError(f"{name} has the amount {word!r}: expected {_each_once(names)}.")
            amounts[key] = _amount(name, value)
        return cls(move, amounts)

    def make(self, options: ShotOptions) -> Trajectory:
        return self.move(**self.amounts, **options)


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
def _log_alias(key: str) -> None:
    alias = ALIASES[key]
    level = logging.WARNING if alias.hint else logging.INFO
    logging.getLogger("sightline").log(level, "%s is read as %s.", key.replace("_", " "), alias)
