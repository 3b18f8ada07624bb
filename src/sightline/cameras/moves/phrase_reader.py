"""One move as people write it: "pan left 30", "slow push in", "orbit:30:target_depth=3", "truck left 2 m for 2 seconds".

A phrase holds a verb, perhaps a direction, amounts, a time and "slow" or "fast". Every word has to be understood: one that
is not is refused with the nearest word that would be.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sightline.cameras.moves.amounts import (
    NUMBER,
    QUANTITY,
    each_once,
    read_number,
    without_unit,
    zoom_by_name,
)
from sightline.cameras.moves.phrase import Phrase, amount_names, defaults_of
from sightline.cameras.moves.phrase_words import Words
from sightline.cameras.moves.reading import note_on, reading_of, refuse_verb
from sightline.cameras.moves.wording import AIMS, PACES, WHIPS, normalised
from sightline.cameras.moves.words import (
    FORMS,
    MORE_AND_LESS,
    MOVES,
    VERBS,
    Reading,
)
from sightline.errors import SightlineError

_AMOUNT = re.compile(rf"(?:\w+\s*=\s*{QUANTITY}|{NUMBER}\s*(?:mm)?\s*>\s*{NUMBER}(?:\s*mm)?|{QUANTITY})(?=\s|$)")
_WIDEST_MM = 10.0  # wider lenses are rare enough to be a factor instead
ZOOM_FACTOR = 2.0  # of "zoom in" without an amount


def read_phrase(text: str) -> Phrase:
    """The move that a text names. What is not understood completely is refused."""
    head, *places = normalised(text).split(":")
    words = Words(text.strip(), in_words=not places)
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
    return _phrase(words)


def read_name(name: str) -> Reading:
    """The move and the sign that a verb with a direction means: "Orbit Left" is orbit, -1."""
    words = Words(name.strip())
    words.add(normalised(name))
    verb, direction = _verb_and_direction(words)
    return reading_of(verb, direction, words.verb, words.error)


def _phrase(words: Words) -> Phrase:
    verb, direction = _verb_and_direction(words)
    if not direction and "" not in VERBS.get(FORMS.get(verb, ""), ("",)) and any(aim.nears for _, aim in words.aims):
        direction = "in"  # "move towards the subject"
    reading = reading_of(verb, direction, words.verb, words.error)
    if words.inches:
        raise words.error(f"found {words.inches!r}, expected 'in' before the amount, or {words.inches}ches")
    for aimed, aim in words.aims:
        if reading.move not in aim.moves:
            raise words.error(f"found {aimed!r}, expected {aim.expected}")
        if reading.move == "zoom" and aim.nears:
            direction = direction or "in"
    for what, found in (("speed", words.paces), ("time", words.seconds)):
        if len(found) > 1:
            raise words.error(f"found more than one {what}, expected at most one")
    if words.paces and words.paces[0] in WHIPS and reading.move not in ("pan", "tilt"):
        raise words.error(f"found {words.paces[0]!r}, expected a pan or tilt with it, or 'fast'")
    if words.goal and reading.move != "zoom":
        raise words.error(f"found {words.goal!r}, expected how far to go, such as pan left 30")
    amounts, factor = _read_amounts(words, reading, direction)
    if reading.move == "arc" and words.in_words and (direction or amounts or words.aims):
        amounts.setdefault("elevation", 0.0)  # "arc left 45" is level, "arc:45" climbs by its default
    pace = PACES[words.paces[0]] if words.paces else 1.0
    first = MORE_AND_LESS.get(reading.move) and amount_names(MOVES[reading.move])[0]
    has_amount = first in amounts or "to_mm" in amounts or factor is not None
    if first and (has_amount or reading.sign < 0 or words.paces):
        amounts = _signed(words, first, amounts, reading, direction, pace)
    elif reading.move == "zoom" and direction and not has_amount:
        factor = ZOOM_FACTOR ** (pace if direction == "in" else -pace)
    _check_aims(words, reading, direction == "out" or (first is not None and amounts.get(first, 0.0) < 0))
    # The pace of a move without an amount has changed the default amount; otherwise it changes the time.
    changes_time = has_amount or not (first or direction)
    share = 1 / Fraction(pace) if changes_time else Fraction(1)
    seconds = words.seconds[0] if words.seconds else None
    note = note_on(FORMS[verb], direction, reading)
    return Phrase(words.text, reading.move, amounts, direction, factor, seconds, share, note)


def _check_aims(words: Words, reading: Reading, backs_off: bool) -> None:
    """Refuse "pull back towards the subject" and "push in from the subject". A dolly zoom changes its size either way, and
    stays on it.
    """
    for aimed, aim in words.aims:
        if aim.nears and backs_off and reading.move != "dolly_zoom":
            raise words.error(f"found {aimed!r} with a move away from it, expected {aim.expected}")
        if aim.leaves and not backs_off:
            raise words.error(f"found {aimed!r} with a move towards it, expected {aim.expected}")


def _signed(
    words: Words, first: str, amounts: dict[str, float], reading: Reading, direction: str, pace: float
) -> dict[str, float]:
    """The amounts with the first one, or its default at this pace, in the given direction."""
    if first not in amounts:
        return {first: reading.sign * pace * defaults_of(MOVES[reading.move])[first], **amounts}
    if direction and amounts[first] < 0:
        raise words.error(f"found {amounts[first]:g} with {direction!r}, expected an amount above 0 with a direction")
    return {name: reading.sign * value if name == first else value for name, value in amounts.items()}


def _verb_and_direction(words: Words) -> tuple[str, str]:
    verb = "_".join(words.verb)
    carried = "in" in VERBS.get(FORMS.get(verb, ""), ()) and "" not in VERBS[FORMS[verb]]
    if (not verb or carried) and any(found.startswith("around ") for found, _ in words.aims):
        verb = "orbit"  # "360 around the subject", "move left around it"
    if len(set(words.directions)) > 1:
        if words.verb and verb not in FORMS:
            refuse_verb(words.verb, words.error)  # "truck left panning right": two verbs, and therefore two directions
        if words.inches and words.text.lower().endswith(words.inches):
            raise words.error(f"found {words.inches!r}, expected {words.inches}ches")
        found = " and ".join(map(repr, words.direction_words))
        raise words.error(f"found the directions {found}, expected at most one (a time is written over 2 s)")
    direction = words.directions[0] if words.directions else ""
    if not verb and direction in VERBS:
        return direction, ""  # "clockwise" alone
    if not verb and direction:
        verbs = [name for name in ("pan", "tilt", "truck", "pedestal", "dolly") if direction in MORE_AND_LESS[name]]
        examples = " or ".join(f"{name} {direction}" for name in verbs) or f"roll {direction}"
        examples += " (to return: a loop, such as loop truck)" if words.direction_words[0] == "back" else ""
        found = words.direction_words[0]
        raise words.error(f"found the direction {found!r} alone, expected a verb with it, such as {examples}")
    if not verb:
        raise words.error("expected a name and its amounts, such as orbit:30")
    return verb, direction


def _read_amounts(words: Words, reading: Reading, direction: str) -> tuple[dict[str, float], float | None]:
    """The amounts by name, with the sign they were written with, and the factor of a zoom."""
    name = "_".join([*words.verb, *([direction] if direction else [])]).replace("_", " ")
    names = amount_names(MOVES[reading.move])
    amounts: dict[str, float] = {}
    factor = None
    if reading.move == "zoom":
        _require_clear_focal(words)
    for place, word in enumerate(zoom_by_name(words.amounts) if reading.move == "zoom" else words.amounts):
        key, equals, value = word.rpartition("=")
        key = key.strip() if equals else "".join(names[place : place + 1])
        if key == "to_mm" and (times := re.fullmatch(rf"({NUMBER})\s*(?:x|times)", value)):
            factor = read_number(name, times[1])
            continue
        if key not in names or key in amounts:
            raise SightlineError(f"{name} has the amount {word!r}: expected {each_once(names)}.")
        if place and word in words.spoken[1:] and not (key == "target_depth" and amounts.keys() == {"degrees"}):
            raise words.error(
                f"found {words.spoken[0]!r} and {word!r}, expected one amount, or a name with the second ({key}=)"
            )
        amounts[key] = read_number(name, without_unit(name, key, value))
    if factor is not None and factor <= 0:
        raise words.error(f"found the factor {factor:g}, expected one above 0")
    if factor is not None and direction == "out" and factor > 1:
        factor = 1 / factor  # "zoom out 2x" is half the focal length
    return amounts, factor


def _require_clear_focal(words: Words) -> None:
    """Refuse "zoom 2": twice, or to 2 mm? Below the widest lenses a number alone says neither."""
    word = words.amounts[0].strip() if words.amounts else ""
    if re.fullmatch(NUMBER, word) and 0 < float(word) < _WIDEST_MM:
        raise words.error(f"found {word!r}, expected a unit: {word}x or {word} mm")
