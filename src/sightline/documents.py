"""JSON and YAML files, read within limits: what is returned holds only plain values that the rest of the package can use.

A regular file of limited size, in UTF-8, nested at most MAX_DEPTH levels, without repeated names, with finite numbers of 64 bits
and text that can be written again. Everything else is a SightlineError of one sentence that names the file.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sightline.errors import SightlineError
from sightline.files import reason

MAX_BYTES = 256 * 2**20  # larger files are refused before they are read
MAX_YAML_BYTES = 2**18  # PyYAML takes seconds for a megabyte
MAX_DEPTH = 50  # levels of lists and objects; our own files have fewer than ten
_MAX_INTEGER = 2**63  # torch and numpy hold integers below it


class DocumentError(ValueError):
    """Text that is no document. line: where, from 1, if that is known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


def require_regular_file(path: str | os.PathLike[str], expected: str) -> None:
    """Refuse what is missing, a folder, or a pipe or device, which could block for ever."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise cannot_read(path, reason(error), expected) from None
    if stat.S_ISDIR(mode):
        raise cannot_read(path, "it is a folder", expected)
    if not stat.S_ISREG(mode):
        raise cannot_read(path, "it is a pipe or a device", expected)


def cannot_read(path: str | os.PathLike[str], why: str, expected: str) -> SightlineError:
    """The error for a file that cannot be read, on one line, whatever its name holds."""
    return SightlineError(" ".join(f"{os.fspath(path)} cannot be read ({why}): expected {expected}.".split()))


def read_bytes(path: str | os.PathLike[str], expected: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a regular file. expected: what the error says the file should be."""
    require_regular_file(path, expected)
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, MemoryError) as error:
        raise cannot_read(path, reason(error), expected) from None
    if len(data) > max_bytes:
        raise cannot_read(path, f"it has more than {max_bytes // 2**10} KiB", expected)
    return data


def read_text(path: str | os.PathLike[str], expected: str, max_bytes: int = MAX_BYTES) -> str:
    """The content of a text file in UTF-8. A byte-order mark, which some editors put in front, is dropped."""
    try:
        return read_bytes(path, expected, max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise cannot_read(path, f"byte {error.start} is not UTF-8", expected) from None


def read_json(path: str | os.PathLike[str], expected: str = "JSON", content: type = dict) -> Any:
    """What a JSON file holds. A file whose top level is no `content` is refused. expected: what the error says it should be."""
    try:
        value = parse_json(read_text(path, expected))
    except DocumentError as error:
        raise cannot_read(path, _with_line(error), expected) from None
    return _require_content(path, value, expected, content)


def read_json_lines(path: str | os.PathLike[str], expected: str) -> Iterator[tuple[int, Any]]:
    """(line number from 1, value) of each line that is JSON. Others are skipped: a killed run may leave half a line at the end.

    NaN and infinite numbers are kept, since a log may hold such a loss.
    """
    for number, line in enumerate(read_text(path, expected).split("\n"), start=1):
        try:
            yield number, parse_json(line, finite=False)
        except DocumentError:
            continue


def read_yaml(path: str | os.PathLike[str], expected: str = "YAML", content: type = dict) -> Any:
    """What a YAML file holds; an empty file holds an empty `content`. Anchors with aliases are refused, since a few lines of
    them can stand for more values than fit into memory."""
    try:
        value = _parse_yaml(read_text(path, expected, MAX_YAML_BYTES))
    except DocumentError as error:
        raise cannot_read(path, _with_line(error), expected) from None
    return _require_content(path, content() if value is None else value, expected, content)


def parse_json(text: str, *, finite: bool = True) -> Any:
    """The value of a JSON text, or a DocumentError. finite: refuse NaN and infinite numbers, and those that overflow."""
    infinite: list[str] = []

    def parse_float(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            infinite.append(digits)
        return number

    try:
        value = json.loads(
            text, parse_int=_parse_int, parse_float=parse_float, parse_constant=parse_float, object_pairs_hook=_unique
        )
    except json.JSONDecodeError as error:
        raise DocumentError(f"it is not JSON, {error.msg}", error.lineno) from None
    except (RecursionError, MemoryError):
        raise DocumentError("its values are nested too deeply") from None
    _require_plain(value)
    if finite and infinite:
        raise DocumentError(
            f"it has {_shorten(infinite[0])}{_place_of(value, _is_infinite)}, which is no finite number"
        )
    return value


def _parse_yaml(text: str) -> Any:
    import yaml  # here, since only training needs the package

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise DocumentError("it has an alias, *name", self.peek_event().start_mark.line + 1)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            names: set[str] = set()
            for name, _ in node.value:
                if name.value in names and isinstance(name, yaml.ScalarNode):
                    raise DocumentError(f"{_shorten(name.value)} is there twice", name.start_mark.line + 1)
                names |= {name.value} if isinstance(name, yaml.ScalarNode) else set()
            return super().construct_mapping(node, deep)

    try:
        return _require_plain(yaml.load(text, Loader))
    except DocumentError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or reason(error)
        raise DocumentError(f"it is not YAML, {problem}", mark.line + 1 if mark else None) from None
    except RecursionError:
        raise DocumentError("its values are nested too deeply") from None
    except Exception as error:  # of values such as the date 2026-99-99 or an integer of thousands of digits
        raise DocumentError(f"it has a value that is not YAML, {reason(error)}") from None


def _require_plain(value: Any) -> Any:
    """The value, which may hold only objects, lists, texts, numbers, true, false and null, not too deeply nested."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise DocumentError(f"its values are nested more than {MAX_DEPTH} levels deep")
        if isinstance(item, dict):
            for name in item:
                if not isinstance(name, str):
                    raise DocumentError(f"it has the name {_shorten(repr(name))}, which is no text")
                _require_encodable(name)
            waiting += [(part, depth + 1) for part in item.values() if type(part) is not float]
        elif isinstance(item, list):
            waiting += [(part, depth + 1) for part in item if type(part) is not float]
        elif isinstance(item, str):
            _require_encodable(item)
        elif isinstance(item, int):
            if abs(item) >= _MAX_INTEGER:
                raise DocumentError(f"it has an integer of more than 64 bits{_place_of(value, _is_huge)}")
        elif item is not None and not isinstance(item, float):
            raise DocumentError(f"it has a {type(item).__name__}, {_shorten(repr(item))}")
    return value


def _require_encodable(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DocumentError("it has half a character, which is no text") from None


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_huge(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= _MAX_INTEGER


def _place_of(value: Any, is_wanted: Callable[[Any], bool]) -> str:
    """ " at clips[3].seed", the place of the first such value in a document; nothing for the document itself."""
    waiting = [(value, "")]
    while waiting:
        item, place = waiting.pop()
        if is_wanted(item):
            return f" at {_shorten(place.lstrip('.'))}" if place else ""
        if isinstance(item, dict):
            waiting += [(part, f"{place}.{name}") for name, part in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [(part, f"{place}[{index}]") for index, part in reversed(list(enumerate(item)))]
    return ""


def _parse_int(digits: str) -> int:
    # Python refuses to convert thousands of digits: a number that is too large in any case stands for them.
    return int(digits) if len(digits) < 100 else _MAX_INTEGER


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DocumentError(f"{_shorten(twice)} is there twice in one object")
    return result


def _require_content(path: str | os.PathLike[str], value: Any, expected: str, content: type) -> Any:
    if not isinstance(value, content):
        raise SightlineError(f"{Path(path)} holds a {type(value).__name__}: expected {expected}.")
    return value


def _with_line(error: DocumentError) -> str:
    return f"{error}" if error.line is None else f"line {error.line}: {error}"


def _shorten(text: str) -> str:
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    return text if len(text) <= 60 else f"{text[:57]}..."
