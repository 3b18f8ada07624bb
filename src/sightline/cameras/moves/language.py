"""Reads moves from one line of text.

orbit:30                                    one move and its first amount
arc:30:15:target_depth=3                    more amounts, in order or by name
dolly:0.5+pan:20                            both at the same time; also "and", "while"
truck:1, pan:-30                            one after the other; also "then"
zoom:28>70                                  from one focal length to another
slow push in then orbit right 45 over 3 s   in words; see phrase_reader.py
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

from typing_extensions import Unpack

from sightline.cameras import defaults, lens
from sightline.cameras.moves.phrase import Phrase, defaults_of
from sightline.cameras.moves.phrase_reader import read_name, read_phrase
from sightline.cameras.moves.shot import Shot, ShotOptions
from sightline.cameras.moves.spelled_numbers import with_digits
from sightline.cameras.moves.words import FORMS, MOVES, Move
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number
from sightline.errors import SightlineError

_IN_TURN = re.compile(
    r"[,;]\s*(?:and\s+)?then\b|[,;](?!\s*(?:while|as|with)\b)|\band\s+then\b|\bthen\b|\bfollowed\s+by\b", re.I
)
_AT_ONCE = re.compile(
    r"\+(?=\s*[A-Za-z])|&|[,;]?\s*\b(?:while|as|with)\b(?!\s+(?:an?\s+|the\s+)?radius\b)(?:\s+it\b)?|\b(?:and|plus)\b"
    rf"|\b(?:(?<=handheld)|(?<=hand[- ]held))\s+(?=(?:(?:slow|fast|quick)(?:ly)?\s+)?(?:{'|'.join(FORMS)})\b)",  # handheld pan
    re.I,
)
_GERUNDS = "|".join(one for one in FORMS if one.endswith("ing"))  # "crane up, tilting down": at once, or afterwards?
_UNCLEAR = re.compile(rf"[,;]\s*(?:and\b(?!\s+then\b)|(?:{_GERUNDS})\b(?!\s+shot))", re.I)
_DECIMAL_COMMA = re.compile(r"\d+,\d+")
# Seconds that miss the length of the shot by so few frames are stretched: models take 4 n + 1 frames.
_MAX_STRETCH = 2

DEFAULT_TARGET_DEPTH = defaults_of(MOVES["orbit"])[
    "target_depth"
]  # scene units; other moves about a subject have the same
_CRANE = defaults_of(MOVES["crane"])

_log = logging.getLogger("sightline")


def get_move(name: str) -> Move:
    """The move of this name, as it is written in a line: "orbit", "Orbit Left" and "orbit-left"."""
    reading = read_name(name)
    return MOVES[reading.move] if reading.sign > 0 else _opposite(MOVES[reading.move])


def parse(text: str, *, target_depth: float | None = None, **options: Unpack[ShotOptions]) -> Trajectory:
    """Read a line such as "dolly:0.5+pan:20, orbit:30": "+" joins simultaneous moves, a comma consecutive ones.

    Consecutive moves divide the frames evenly, apart from those that name their seconds; each starts with the pose and
    lens of the last frame before it. Without `focal_mm` the lens is the one that the first zoom starts from, if the line
    names it. Without `frames` there are as many as the seconds ask for, if every move names them.

    target_depth: distance of the subject for the moves that do not name it.
    """
    line = MoveLine.read(text)
    trajectory = line.trajectory(target_depth=target_depth, **options)
    line.log_notes()
    return trajectory


@dataclass(frozen=True)
class MoveLine:
    """A line of moves: those of one row happen at the same time, the rows one after the other."""

    rows: tuple[tuple[Phrase, ...], ...]

    @classmethod
    def read(cls, text: str) -> MoveLine:
        text = text.strip().removesuffix(".")  # of a sentence
        if unclear := _UNCLEAR.search(text):
            rest = text[unclear.start() :].strip()
            raise SightlineError(
                f"move is {rest!r}: expected ', then' (afterwards), or 'and' without a comma (at the same time)."
            )
        if comma := _DECIMAL_COMMA.search(text):
            raise SightlineError(
                f"move is {text!r}: found {comma[0]!r}, expected a number with a point, or a space after the comma."
            )
        rows = [
            _beside_tilts(tuple(read_phrase(one) for one in _AT_ONCE.split(row)))
            for row in _IN_TURN.split(with_digits(text))
        ]
        for row in rows:
            if len({one.seconds for one in row} - {None}) > 1 or len({one.share for one in row} - {1}) > 1:
                both = " and ".join(repr(one.text) for one in row)
                raise SightlineError(f"move is {both}: expected one time and one speed for moves at the same time.")
        return cls(tuple(rows))

    def __str__(self) -> str:
        """The moves as they were understood."""
        return ", then ".join(" and ".join(map(str, row)) for row in self.rows)

    @property
    def notes(self) -> list[str]:
        """Sentences on names that may mean something else to their writer, and on words without effect; each once."""
        notes = [one.note for row in self.rows for one in row if one.note]
        for row in self.rows:
            for one in row:
                if one.share != 1 and (len(self.rows) == 1 or one.seconds is not None):
                    more = "" if one.seconds is not None else " Name its seconds, such as over 1 s."
                    notes.append(f"the speed in {one.text!r} has no effect: its amount and its time decide it.{more}")
        return list(dict.fromkeys(notes))

    def log_notes(self) -> None:
        """Tell the notes to whoever reads the log, as the users of the command line do."""
        for note in self.notes:
            _log.info("%s", note)

    @property
    def needs_subject(self) -> bool:
        """Whether a move is about a subject whose distance the line does not name."""
        return any(one.needs_subject for row in self.rows for one in row)

    @property
    def target_depths(self) -> list[float]:
        """The distances of subjects that the line names."""
        return [one.target_depth for row in self.rows for one in row if one.target_depth is not None]

    @property
    def seconds(self) -> float | None:
        """The length of the shot, where every move names its seconds."""
        total = Fraction(0)
        for own, _ in map(_time, self.rows):
            if own is None:
                return None
            total += own
        return float(total)

    def num_frames(self, fps: float, nearest: Callable[[int], int] = int) -> int | None:
        """The frames of the shot, where every move names its seconds. nearest: the length that a model takes instead.

        Refused where the moves would be over within the first frame.
        """
        if self.seconds is None:
            return None
        frames = nearest(round(self.seconds * number("fps", fps, above=0.0)) + 1)
        if frames == 1:
            raise SightlineError(
                f"the moves last {self.seconds:g} s, one frame at {fps:g} fps: expected more, since one frame shows no move."
            )
        return frames

    def trajectory(self, *, target_depth: float | None = None, **options: Unpack[ShotOptions]) -> Trajectory:
        """The trajectory of these moves; see `parse`."""
        if target_depth is not None:
            number("target_depth", target_depth, above=0.0)
        num_frames = None if "frames" in options else self.num_frames(options.get("fps", defaults.FPS))
        if num_frames is not None:
            options["frames"] = num_frames
        shot = Shot.of(options)
        starts = [one.amounts["from_mm"] for row in self.rows for one in row if "from_mm" in one.amounts]
        options.setdefault("focal_mm", starts[0] if starts else shot.focal_mm)
        result = None
        ends = self._ends(shot)
        for start, end, row in zip([0, *ends], ends, self.rows, strict=False):
            options["frames"] = end - start + 1
            if result is not None:
                options["focal_mm"] = lens.FULL_FRAME_MM / shot.width * float(result.intrinsics[-1, 0, 0])
            part = functools.reduce(Trajectory.combine, [_make(one, target_depth, options) for one in row])
            result = part if result is None else result.concatenate(part)
        assert result is not None  # splitting a text gives at least one part
        return result

    def _ends(self, shot: Shot) -> list[int]:
        """The last frame of each row."""
        steps, fps, rows = shot.frames - 1, Fraction(shot.fps), len(self.rows)
        if rows > 1 and steps < rows:
            raise SightlineError(f"frames is {shot.frames}: expected at least {rows + 1} for {rows} moves in turn.")
        times = [_time(row) for row in self.rows]
        timed = sum((own * fps for own, _ in times if own is not None), Fraction(0))
        shares = sum((share for own, share in times if own is None), Fraction(0))
        self._require_length(shot, timed, bool(shares))
        if shares:
            lengths = [share * (steps - timed) / shares if own is None else own * fps for own, share in times]
        else:
            lengths = [own * fps * steps / timed for own, _ in times if own is not None]
        ends = [math.floor(end) for end in accumulate(lengths)]
        if rows > 1 and 0 in (end - start for start, end in zip([0, *ends], ends, strict=False)):
            raise SightlineError(f"frames is {shot.frames}: expected more, since one of the moves gets no frame.")
        return ends

    def _require_length(self, shot: Shot, timed: Fraction, rest: bool) -> None:
        steps = shot.frames - 1
        if not timed or (timed < steps if rest else abs(timed - steps) <= _MAX_STRETCH):
            return
        needed = math.ceil(timed) + 1
        raise SightlineError(
            f"frames is {shot.frames}, {steps / shot.fps:.4g} s at {shot.fps:g} fps: expected {'more than ' * rest}{needed}, "
            f"since the moves last {float(timed) / shot.fps:.4g} s."
        )


def _beside_tilts(row: tuple[Phrase, ...]) -> tuple[Phrase, ...]:
    """In "crane up 1 m while tilting down 20" the tilt says where the camera looks, so the crane only rises.

    Names and numbers, "crane:1+tilt:-20", and a crane that names its subject keep the crane's own tilt as well.
    """
    if not any(one.move == "tilt" and one.direction for one in row):
        return row
    note = "crane beside a tilt is read as pedestal: the tilt says where the camera looks."
    return tuple(
        dataclasses.replace(one, move="pedestal", amounts={"distance": {**_CRANE, **one.amounts}["rise"]}, note=note)
        if one.move == "crane" and ":" not in one.text and one.target_depth is None
        else one
        for one in row
    )


def _time(row: tuple[Phrase, ...]) -> tuple[Fraction | None, Fraction]:
    """The seconds of a row, and its share of the time that is left where it names none."""
    seconds = [one.seconds for one in row if one.seconds is not None]
    shares = [one.share for one in row if one.share != 1]
    return seconds[0] if seconds else None, shares[0] if shares else Fraction(1)


def _make(phrase: Phrase, target_depth: float | None, options: ShotOptions) -> Trajectory:
    amounts: dict[str, Any] = phrase.resolved(options["focal_mm"])
    if target_depth is not None and phrase.needs_subject:
        amounts = {**amounts, "target_depth": target_depth}
    return MOVES[phrase.move](**amounts, **options)


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
