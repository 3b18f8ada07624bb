"""The amounts of a move as they are written: numbers, their units, and the two ends of a zoom."""

from __future__ import annotations

import re

from sightline.errors import SightlineError

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
UNITS = {
    **dict.fromkeys(("\N{DEGREE SIGN}", "deg", "degs", "degree", "degrees"), "degrees"),
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters", "unit", "units"), "scene units"),
    **dict.fromkeys(("ft", "foot", "feet", "cm", "cms", "centimetre", "centimetres"), "scene units"),
    **dict.fromkeys(("centimeter", "centimeters", "inch", "inches", "yd", "yard", "yards"), "scene units"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("x", "times"), "x"),
    "mm": "mm",
}
INCHES_IN_A_FOOT = 12
_METRES = {  # a scene unit is read as a metre
    **dict.fromkeys(("ft", "foot", "feet"), 0.3048),
    **dict.fromkeys(("inch", "inches"), 0.0254),
    **dict.fromkeys(("yd", "yard", "yards"), 0.9144),
    **dict.fromkeys(("cm", "cms", "centimetre", "centimetres", "centimeter", "centimeters"), 0.01),
}
UNIT = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
QUANTITY = rf"({NUMBER})\s*({UNIT})?(?![\w.])"


def zoom_by_name(words: list[str]) -> list[str]:
    """The first amount of a zoom, "28>70", "28 to 70 mm" or "70", by name."""
    if not words or "=" in words[0]:
        return words
    start, separator, end = re.sub(r"(?<=[\d.m\s])to(?=\s*[\d.+-])", ">", words[0]).rpartition(">")
    return [*([f"from_mm={start}"] if separator and start else []), f"to_mm={end}", *words[1:]]


def without_unit(name: str, key: str, value: str) -> str:
    """The number of an amount whose unit fits; another unit is refused."""
    quantity = re.fullmatch(QUANTITY, value.strip())
    if quantity is None or quantity[2] is None:
        return value
    expected = "degrees" if key in ("degrees", "elevation") else "mm" if key.endswith("_mm") else "scene units"
    expected = "a number without a unit" if key == "seed" else expected
    if UNITS[quantity[2]] != expected:
        raise SightlineError(f"{name} has the amount {value!r}: expected {expected}.")
    metres = _METRES.get(quantity[2])
    return quantity[1] if metres is None else f"{float(quantity[1]) * metres:.10g}"


def read_number(name: str, word: str) -> float:
    try:
        return int(word) if re.fullmatch(r"[+-]?\d+", word.strip()) else float(word)
    except ValueError:
        raise SightlineError(f"{name} has the amount {word!r}: expected a number.") from None


def each_once(names: list[str]) -> str:
    return f"{', '.join(names)}, each at most once" if names else "none"
