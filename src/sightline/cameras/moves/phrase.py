"""Phrase: one move of a line, understood. phrase_reader.py reads it from text."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from fractions import Fraction

from sightline.cameras.moves.words import MORE_AND_LESS, MOVES, Move
from sightline.errors import SightlineError


@dataclass(frozen=True)
class Phrase:
    """One move of a line: its name, its amounts with their signs, and how long it takes."""

    text: str
    move: str
    amounts: dict[str, float]
    direction: str = ""
    factor: float | None = None  # of a zoom that is not given in millimetres
    seconds: Fraction | None = None
    share: Fraction = Fraction(1)  # of the time that is left to the moves without seconds
    note: str = ""  # where the name may mean something else to its writer: how it was understood

    @property
    def target_depth(self) -> float | None:
        """The distance of the subject, where the phrase names it."""
        return self.amounts.get("target_depth")

    @property
    def needs_subject(self) -> bool:
        """Whether the move is about a subject whose distance the phrase leaves open."""
        return "target_depth" in amount_names(MOVES[self.move]) and self.target_depth is None

    def resolved(self, focal_mm: float) -> dict[str, float]:
        """The amounts for a shot with this lens: what a zoom ends at depends on where it starts."""
        if self.move != "zoom":
            return self.amounts
        start = self.amounts.get("from_mm", focal_mm)
        amounts = self.amounts if self.factor is None else {**self.amounts, "to_mm": start * self.factor}
        end = amounts.get("to_mm", start)
        if (self.direction == "in" and end <= start) or (self.direction == "out" and end >= start):
            more = "more" if self.direction == "in" else "less"
            raise SightlineError(
                f"move is {self.text!r}, from {start:g} to {end:g} mm: expected {more} than {start:g} mm, or a factor such as "
                f"2x; to move the camera say dolly {self.direction}."
            )
        return amounts

    def __str__(self) -> str:
        """The move as it was understood, in words."""
        names = amount_names(MOVES[self.move])
        amounts = {**defaults_of(MOVES[self.move]), **self.amounts}
        words = [self.move.replace("_", " ")]
        if self.move == "zoom":
            words += [self.direction] if self.direction else []
            words += [f"{amounts['from_mm']:g} to"] if "from_mm" in self.amounts else [] if self.factor else ["to"]
            words += [f"{self.factor:.4g}x"] if self.factor else [f"{amounts['to_mm']:g} mm"]
        elif names:
            first, rest = amounts[names[0]], [name for name in names[1:] if name in (*self.amounts, "elevation")]
            if self.move in MORE_AND_LESS:
                words.append(MORE_AND_LESS[self.move][first < 0])
            words.append(f"{abs(first):g}" + (" degrees" if names[0] == "degrees" else ""))
            words += [f"{name.replace('_', ' ')} {amounts[name]:g}" for name in rest]
        words += [] if self.seconds is None else [f"over {float(self.seconds):g} s"]
        return " ".join(words)


def amount_names(move: Move) -> list[str]:
    """The names of a move's amounts, in their order."""
    parameters = inspect.signature(move).parameters.values()
    return [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]


def defaults_of(move: Move) -> dict[str, float]:
    """The default of each amount."""
    return {name: inspect.signature(move).parameters[name].default for name in amount_names(move)}
