"""One move as people write it: "pan left 30", "slow push in", "orbit:30:target_depth=3", "truck left 2 m for 2 seconds".

A phrase holds a verb, perhaps a direction, amounts, a time and "slow" or "fast". Every word has to be understood: one that
is not is refused with the nearest word that would be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from sightline.cameras.moves.amounts import (
    NUMBER,
    QUANTITY,
    UNIT,
    UNITS,
    each_once,
    read_number,
    without_unit,
    zoom_by_name,
)
from sightline.cameras.moves.phrase import Phrase, amount_names, defaults_of
from sightline.cameras.moves.reading import note_on, reading_of, refuse_verb
from sightline.cameras.moves.wording import AIMS, PACES, TIMES, WHIPS, Aim, normalised
from sightline.cameras.moves.words import (
    DIRECTIONS,
    FORMS,
    MORE_AND_LESS,
    MOVES,
    VERBS,
    Reading,
)
from sightline.errors import SightlineError

_AMOUNT = re.compile(rf"(?:\w+\s*=\s*{QUANTITY}|{NUMBER}\s*(?:mm)?\s*>\s*{NUMBER}(?:\s*mm)?|{QUANTITY})(?=\s|$)")
_TOKEN = re.compile(
    rf"\s*(?:(?P<named>\w+\s*=\s*\S+)|(?P<range>(?:from\s+)?{NUMBER}\s*(?:mm)?\s*(?:>|to)\s*{NUMBER}(?:\s*mm)?(?!\w))"
    rf"|(?P<goal>to\s+{NUMBER}\s*(?:{UNIT})?(?![\w.]))"
    rf"|(?P<quantity>{NUMBER}\s*(?:{UNIT})?(?![\w.]))|(?P<word>[^\W\d_]+)|(?P<other>\S+))"
)
_FILLERS = {"the", "camera", "shot", "effect", "a", "an", "to", "by", "of", "at", "first", "finally"}
_RADIUS = "radius"  # introduces target_depth
_MAX_SECONDS = 1e5
_WIDEST_MM = 10.0  # wider lenses are rare enough to be a factor instead
ZOOM_FACTOR = 2.0  # of "zoom in" without an amount


def read_phrase(text: str) -> Phrase:
    """The move that a text names. What is not understood completely is refused."""
    head, *places = normalised(text).split(":")
    words = _Words(text.strip(), in_words=not places)
    for aim in AIMS:
        if found := aim.words.search(head):
            words.aims.append((found[0], aim))
            head = head[: found.start()] + head[found.end() :]
    words.add(head)
    for place in places:
        # What follows an amount may be a time or a direction: "pan:30 left over 2 s".
        amount = _AMOUNT.match(place.strip())
        words.amounts.append(place.strip() if amount is None else amount[0])
        words.last = words.amounts[-1]
        words.add("" if amount is None else place.strip()[amount.end() :])
    return words.phrase()


def read_name(name: str) -> Reading:
    """The move and the sign that a verb with a direction means: "Orbit Left" is orbit, -1."""
    words = _Words(name.strip())
    words.add(normalised(name))
    verb, direction = words._verb_and_direction()
    return reading_of(verb, direction, words.verb, words.error)


@dataclass
class _Words:
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

    def phrase(self) -> Phrase:
        verb, direction = self._verb_and_direction()
        if not direction and "" not in VERBS.get(FORMS.get(verb, ""), ("",)) and any(aim.nears for _, aim in self.aims):
            direction = "in"  # "move towards the subject"
        reading = reading_of(verb, direction, self.verb, self.error)
        if self.inches:
            raise self.error(f"found {self.inches!r}, expected 'in' before the amount, or {self.inches}ches")
        for aimed, aim in self.aims:
            if reading.move not in aim.moves:
                raise self.error(f"found {aimed!r}, expected {aim.expected}")
            if reading.move == "zoom" and aim.nears:
                direction = direction or "in"
        for what, found in (("speed", self.paces), ("time", self.seconds)):
            if len(found) > 1:
                raise self.error(f"found more than one {what}, expected at most one")
        if self.paces and self.paces[0] in WHIPS and reading.move not in ("pan", "tilt"):
            raise self.error(f"found {self.paces[0]!r}, expected a pan or tilt with it, or 'fast'")
        if self.goal and reading.move != "zoom":
            raise self.error(f"found {self.goal!r}, expected how far to go, such as pan left 30")
        amounts, factor = self._read_amounts(reading, direction)
        if reading.move == "arc" and self.in_words and (direction or amounts or self.aims):
            amounts.setdefault("elevation", 0.0)  # "arc left 45" is level, "arc:45" climbs by its default
        pace = PACES[self.paces[0]] if self.paces else 1.0
        first = MORE_AND_LESS.get(reading.move) and amount_names(MOVES[reading.move])[0]
        has_amount = first in amounts or "to_mm" in amounts or factor is not None
        if first and (has_amount or reading.sign < 0 or self.paces):
            amounts = self._signed(first, amounts, reading, direction, pace)
        elif reading.move == "zoom" and direction and not has_amount:
            factor = ZOOM_FACTOR ** (pace if direction == "in" else -pace)
        self._check_aims(reading, direction == "out" or (first is not None and amounts.get(first, 0.0) < 0))
        # The pace of a move without an amount has changed the default amount; otherwise it changes the time.
        changes_time = has_amount or not (first or direction)
        share = 1 / Fraction(pace) if changes_time else Fraction(1)
        seconds = self.seconds[0] if self.seconds else None
        note = note_on(FORMS[verb], direction, reading)
        return Phrase(self.text, reading.move, amounts, direction, factor, seconds, share, note)

    def _check_aims(self, reading: Reading, backs_off: bool) -> None:
        """Refuse "pull back towards the subject" and "push in from the subject". A dolly zoom changes its size either way, and
        stays on it.
        """
        for aimed, aim in self.aims:
            if aim.nears and backs_off and reading.move != "dolly_zoom":
                raise self.error(f"found {aimed!r} with a move away from it, expected {aim.expected}")
            if aim.leaves and not backs_off:
                raise self.error(f"found {aimed!r} with a move towards it, expected {aim.expected}")

    def _signed(
        self, first: str, amounts: dict[str, float], reading: Reading, direction: str, pace: float
    ) -> dict[str, float]:
        """The amounts with the first one, or its default at this pace, in the given direction."""
        if first not in amounts:
            return {first: reading.sign * pace * defaults_of(MOVES[reading.move])[first], **amounts}
        if direction and amounts[first] < 0:
            raise self.error(
                f"found {amounts[first]:g} with {direction!r}, expected an amount above 0 with a direction"
            )
        return {name: reading.sign * value if name == first else value for name, value in amounts.items()}

    def _verb_and_direction(self) -> tuple[str, str]:
        verb = "_".join(self.verb)
        carried = "in" in VERBS.get(FORMS.get(verb, ""), ()) and "" not in VERBS[FORMS[verb]]
        if (not verb or carried) and any(found.startswith("around ") for found, _ in self.aims):
            verb = "orbit"  # "360 around the subject", "move left around it"
        if len(set(self.directions)) > 1:
            if self.verb and verb not in FORMS:
                refuse_verb(
                    self.verb, self.error
                )  # "push in as the camera pans left": two verbs, and therefore two directions
            if self.inches and self.text.lower().endswith(self.inches):
                raise self.error(f"found {self.inches!r}, expected {self.inches}ches")
            found = " and ".join(map(repr, self.direction_words))
            raise self.error(f"found the directions {found}, expected at most one (a time is written over 2 s)")
        direction = self.directions[0] if self.directions else ""
        if not verb and direction in VERBS:
            return direction, ""  # "clockwise" alone
        if not verb and direction:
            verbs = [name for name in ("pan", "tilt", "truck", "pedestal", "dolly") if direction in MORE_AND_LESS[name]]
            examples = " or ".join(f"{name} {direction}" for name in verbs) or f"roll {direction}"
            examples += " (to return: a loop, such as loop truck)" if self.direction_words[0] == "back" else ""
            found = self.direction_words[0]
            raise self.error(f"found the direction {found!r} alone, expected a verb with it, such as {examples}")
        if not verb:
            raise self.error("expected a name and its amounts, such as orbit:30")
        return verb, direction

    def _read_amounts(self, reading: Reading, direction: str) -> tuple[dict[str, float], float | None]:
        """The amounts by name, with the sign they were written with, and the factor of a zoom."""
        name = "_".join([*self.verb, *([direction] if direction else [])]).replace("_", " ")
        names = amount_names(MOVES[reading.move])
        amounts: dict[str, float] = {}
        factor = None
        if reading.move == "zoom":
            self._require_clear_focal()
        for place, word in enumerate(zoom_by_name(self.amounts) if reading.move == "zoom" else self.amounts):
            key, equals, value = word.rpartition("=")
            key = key.strip() if equals else "".join(names[place : place + 1])
            if key == "to_mm" and (times := re.fullmatch(rf"({NUMBER})\s*(?:x|times)", value)):
                factor = read_number(name, times[1])
                continue
            if key not in names or key in amounts:
                raise SightlineError(f"{name} has the amount {word!r}: expected {each_once(names)}.")
            if place and word in self.spoken[1:] and not (key == "target_depth" and amounts.keys() == {"degrees"}):
                raise self.error(
                    f"found {self.spoken[0]!r} and {word!r}, expected one amount, or a name with the second ({key}=)"
                )
            amounts[key] = read_number(name, without_unit(name, key, value))
        if factor is not None and factor <= 0:
            raise self.error(f"found the factor {factor:g}, expected one above 0")
        if factor is not None and direction == "out" and factor > 1:
            factor = 1 / factor  # "zoom out 2x" is half the focal length
        return amounts, factor

    def _require_clear_focal(self) -> None:
        """Refuse "zoom 2": twice, or to 2 mm? Below the widest lenses a number alone says neither."""
        word = self.amounts[0].strip() if self.amounts else ""
        if re.fullmatch(NUMBER, word) and 0 < float(word) < _WIDEST_MM:
            raise self.error(f"found {word!r}, expected a unit: {word}x or {word} mm")
