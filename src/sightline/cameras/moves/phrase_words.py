"""The words of one move, sorted into verb, directions, amounts, times and speeds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from sightline.cameras.moves.amounts import NUMBER, QUANTITY, UNIT, UNITS
from sightline.cameras.moves.wording import PACES, TIMES, Aim
from sightline.cameras.moves.words import DIRECTIONS, FORMS, VERBS
from sightline.errors import SightlineError

_TOKEN = re.compile(
    rf"\s*(?:(?P<named>\w+\s*=\s*\S+)|(?P<range>(?:from\s+)?{NUMBER}\s*(?:mm)?\s*(?:>|to)\s*{NUMBER}(?:\s*mm)?(?!\w))"
    rf"|(?P<goal>to\s+{NUMBER}\s*(?:{UNIT})?(?![\w.]))"
    rf"|(?P<quantity>{NUMBER}\s*(?:{UNIT})?(?![\w.]))|(?P<word>[^\W\d_]+)|(?P<other>\S+))"
)
_FILLERS = {"the", "camera", "shot", "effect", "a", "an", "to", "by", "of", "at", "first", "finally"}
_RADIUS = "radius"  # introduces target_depth
_MAX_SECONDS = 1e5


@dataclass
class Words:
    """The words of a phrase as they are collected."""

    text: str
    in_words: bool = True  # no colons
    amounts: list[str] = field(default_factory=list)
    verb: list[str] = field(default_factory=list)
    directions: list[str] = field(default_factory=list)
    direction_words: list[str] = field(default_factory=list)  # as they are written
    paces: list[str] = field(default_factory=list)
    seconds: list[Fraction] = field(default_factory=list)
    aims: list[tuple[str, Aim]] = field(default_factory=list)  # "around the subject"
    spoken: list[str] = field(default_factory=list)  # the amounts that stand between words, without a colon or a name
    goal: str = ""  # "to 70 mm"
    last: str = ""  # the word before this one
    inches: str = ""  # "6 in", where nothing says whether "in" is the direction
    expects: str = ""  # a word that introduces a number, until the number comes

    def error(self, problem: str) -> SightlineError:
        return SightlineError(f"move is {self.text!r}: {problem}.")

    def add(self, text: str) -> None:
        """Sort the words of a text into verb, directions, amounts and times."""
        for token in _TOKEN.finditer(text.strip()):
            kind, value = str(token.lastgroup), token[0].strip()
            if self.expects and kind != "quantity":
                raise self.error(f"found {value!r} after {self.expects!r}, expected a number")
            if kind in ("named", "range"):
                self.amounts.append(value.removeprefix("from "))
            elif kind == "goal":
                self.goal = value
                self.amounts.append(value.removeprefix("to").strip())
            elif kind == "quantity":
                self._add_quantity(value)
            elif kind == "word":
                self._add_word(value)
            else:
                raise self.error(f"found {value!r}, expected words and numbers such as pan left 30")
            self.last = value
        if self.expects:
            raise self.error(f"found nothing after {self.expects!r}, expected a number")

    def _add_quantity(self, text: str) -> None:
        number, unit = re.fullmatch(QUANTITY, text).groups()  # type: ignore[union-attr]
        if self.last == "at" and UNITS.get(unit) == "mm":
            raise self.error(f"found 'at {text}', expected to {text}, or the option --focal-mm")
        if self.last == "at" and UNITS.get(unit) == "s":
            raise self.error(
                f"found 'at {text}', expected over {text}, or a move before it, such as hold for {text}, then"
            )
        introduced, self.expects = self.expects, ""
        if introduced == _RADIUS or (not introduced and self.last == "at" and UNITS.get(unit) == "scene units"):
            self.amounts.append(f"target_depth={text}")
        elif UNITS.get(unit) == "s":
            value = float(number)
            if not 0 < value <= _MAX_SECONDS:
                raise self.error(f"found {text!r}, expected seconds above 0 and up to {_MAX_SECONDS:g}")
            if self.last == "in" and (self.amounts or len(self.directions) > 1 or not self._goes_in()):
                self.directions.pop()  # "left 45 in 3 seconds", but not "push in 3 seconds"
                self.inches = ""
            self.seconds.append(Fraction(number))
        elif introduced:
            raise self.error(f"found {text!r} after {introduced!r}, expected seconds, such as {introduced} 3 s")
        else:
            self.amounts.append(text)
            self.spoken.append(text)

    def _goes_in(self) -> bool:
        """Whether "in" is a direction of the verb."""
        return "in" in VERBS[FORMS.get("_".join(self.verb), "dolly")]

    def _add_word(self, word: str) -> None:
        if word in PACES:
            self.paces.append(word)
        elif word in DIRECTIONS:
            if word in self.direction_words and word != "in":  # "from right to left to right", but "push in 3 m in 2 s"
                raise self.error(f"found {word!r} twice, expected one direction, or 'then' between two moves")
            self.direction_words.append(word)
            self.directions.append(DIRECTIONS[word])
            if word == "in" and re.fullmatch(NUMBER, self.last):
                self.inches = f"{self.last} {word}"
        elif word in TIMES or word == _RADIUS:
            self.expects = word
        elif word not in _FILLERS:
            self.verb.append(word)
