"""Damage to files, from a seed: bytes, lines, numbers and JSON values."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
NASTY_TOKENS = [
    b"nan", b"inf", b"-inf", b"NaN", b"Infinity", b"1e999", b"-1e999", b"1e308", b"-1e200", b"0", b"-1", b"1e-320",
    b"99999999999999999999", b"9" * 400, b"9" * 5000, b"text", b"", b"0x10", b"1_0", b"null", b"true", b'"x"', b"[]",
    b"{}", b"[[", b"\xff", b"\x00", b"\n", b" ", b"#",
]  # fmt: skip
NASTY_VALUES: list[Any] = [
    None, True, False, 0, -1, 0.5, 1e308, -1e200, 10**25, 10**400, "", "text", "nan", "1.0", [], [[]], {}, [None],
    {"a": 1}, [[1, 2], [3, 4]], [0] * 12, [0] * 16, [1] * 4,
]  # fmt: skip


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One to three random injuries, of JSON structure where the data is JSON."""
    for _ in range(chance.randint(1, 3)):
        kinds = [_flip, _delete, _truncate, _insert, _repeat, _line_twice, _line_gone, _number, _number, _number]
        if data[:1] in (b"{", b"["):
            kinds += [json_value] * 5
        data = chance.choice(kinds)(data, chance)
    return data


def _span(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    return start, min(len(data), start + chance.randint(1, 60))


def _flip(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _delete(data: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice([chance.randbytes(chance.randint(1, 9)), *NASTY_TOKENS]) + data[at:]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:end] * chance.randint(1, 3) + data[end:]


def _line_twice(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    return b"\n".join([*lines[: at + 1], *lines[at:]])


def _line_gone(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    del lines[chance.randrange(len(lines))]
    return b"\n".join(lines)


def _number(data: bytes, chance: random.Random) -> bytes:
    numbers = list(NUMBER.finditer(data))
    if not numbers:
        return data
    match = chance.choice(numbers)
    return data[: match.start()] + chance.choice(NASTY_TOKENS) + data[match.end() :]


def json_value(data: bytes, chance: random.Random) -> bytes:
    """Another value, or none, somewhere in the document; deeper places are as likely as shallow ones."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data
    holder, key = {"root": document}, "root"
    while isinstance(holder[key], (dict, list)) and holder[key] and chance.random() < 0.8:
        holder = holder[key]
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    if chance.random() < 0.25 and holder is not document and len(holder) > 1:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(chance.choice(NASTY_VALUES))
        document = holder["root"] if key == "root" else document
    return json.dumps(document).encode()
