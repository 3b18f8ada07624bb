"""Amounts that are written in words: "half a meter", "two feet", "forty-five degrees", "6 ft 2 in" become digits with a unit."""

from __future__ import annotations

import re

from sightline.cameras.moves.amounts import INCHES_IN_A_FOOT, NUMBER, UNIT

_DIGITS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_TEENS = {
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip


def _one_of(words: dict[str, int]) -> str:
    return "|".join(words)


_BELOW_100 = rf"(?:{_one_of(_TENS)})(?:[\s-]+(?:{_one_of(_DIGITS)}))?|{_one_of(_TEENS)}|{_one_of(_DIGITS)}"
_WHOLE = re.compile(
    rf"(?<![:=])\b(?:(?:(?P<hundreds>{_one_of(_DIGITS)}|a)[\s-]+)?(?P<hundred>hundred)(?:\s+(?:and\s+)?(?P<over>{_BELOW_100}))?"
    rf"|(?P<said>{_one_of(_DIGITS)})[\s-]+(?P<rest>(?:{_one_of(_TENS)})(?:[\s-]+(?:{_one_of(_DIGITS)}))?)"  # three sixty
    rf"|(?P<below>{_BELOW_100}))\b(?![\s-]*shots?\b)",  # "two shot" is a picture of two people
    re.I,
)
_PARTS = {"half": 0.5, "quarter": 0.25, "quarters": 0.25}
_PART = "half|quarter"
_WORDY_UNIT = rf"(?:{UNIT})(?![\w.])"
# The patterns that follow are read in this order, after the whole numbers.
_AND_A_PART = re.compile(rf"(?P<whole>\d+)\s+and\s+a\s+(?P<part>{_PART})\b", re.I)  # two and a half feet
_UNIT_AND_A_PART = re.compile(  # a foot and a half
    rf"\b(?P<whole>an?|\d+)\s+(?P<unit>{_WORDY_UNIT})\s+and\s+a\s+(?P<part>{_PART})\b", re.I
)
_PART_OF = re.compile(  # half a metre, a half metre, a quarter of a metre, three quarters of a metre
    rf"\b(?:(?:an?|(?P<times>\d+))[\s-]+)?(?P<part>half|quarters?)[\s-]+(?:of[\s-]+)?(?:an?[\s-]+)?(?P<unit>{_WORDY_UNIT})",
    re.I,
)
_ONE_LENGTH = re.compile(r"\ban?\s+(?=(?:met(?:er|re)|foot|inch|yard|centimet(?:er|re)|degree)\b)", re.I)
_ONE_SECOND = re.compile(r"\b(?P<before>for|over|in|within|during|lasting)\s+a\s+(?=second\b)", re.I)
_FRACTION = re.compile(
    rf"(?<![\w./])(\d{{1,3}})/([1-9]\d{{0,2}})(?=\s*{_WORDY_UNIT})", re.I
)  # of a unit, not of a turn
_SIGNS = str.maketrans(
    {"\u00bd": ".5", "\u00bc": ".25", "\u00be": ".75", "\u2032": "'", "\u2019": "'", "\u2033": '"', "\u201d": '"'}
)
_FEET_AND_INCHES = re.compile(
    rf"(?P<feet>{NUMBER})\s*(?:'|ft\b|foot\b|feet\b)\s*(?:and\s+)?(?P<inches>{NUMBER})\s*(?:\"|inches\b|inch\b|in\b)",
    re.I,
)
_FEET, _INCHES = re.compile(r"(?<=\d)\s*'(?!\w)"), re.compile(r"(?<=\d)\s*\"(?!\w)")
_HYPHEN = re.compile(rf"(?<=\d)-(?={_WORDY_UNIT})", re.I)  # a 2-second push
_ROUGHLY = re.compile(rf"(?:\b(?:about|around|roughly|approximately)\s+|~\s*)(?={NUMBER})", re.I)


def with_digits(text: str) -> str:
    """The text with the amounts that are written in words as digits; everything else stays as it is."""
    text = _WHOLE.sub(lambda found: str(_whole(found)), text.translate(_SIGNS))
    text = _FRACTION.sub(lambda found: f"{int(found[1]) / int(found[2]):.6g}", text)
    text = _AND_A_PART.sub(lambda found: f"{int(found['whole']) + _PARTS[found['part'].lower()]:g}", text)
    text = _UNIT_AND_A_PART.sub(
        lambda found: f"{_count(found['whole']) + _PARTS[found['part'].lower()]:g} {found['unit']}", text
    )
    text = _PART_OF.sub(
        lambda found: f"{_count(found['times']) * _PARTS[found['part'].lower()]:g} {found['unit']}", text
    )
    text = _ONE_SECOND.sub(r"\g<before> 1 ", _ONE_LENGTH.sub("1 ", text))
    text = _FEET_AND_INCHES.sub(
        lambda found: f"{float(found['feet']) * INCHES_IN_A_FOOT + float(found['inches']):g} inches", text
    )
    text = _INCHES.sub(" inches", _FEET.sub(" feet", text))
    return _ROUGHLY.sub("", _HYPHEN.sub(" ", text))


def _whole(found: re.Match[str]) -> int:
    if found["said"]:
        return 100 * _DIGITS[found["said"].lower()] + _below_100(found["rest"])
    if not found["hundred"]:
        return _below_100(found["below"])
    hundreds = _DIGITS.get((found["hundreds"] or "a").lower(), 1)
    return 100 * hundreds + (_below_100(found["over"]) if found["over"] else 0)


def _below_100(words: str) -> int:
    return sum((_DIGITS | _TEENS | _TENS)[word] for word in re.split(r"[\s-]+", words.lower()))


def _count(word: str | None) -> int:
    """How many a number, "a" or nothing stands for."""
    return int(word) if word and word.isdigit() else 1
