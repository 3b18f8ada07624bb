"""Files for the readers and writers: limited in size, parsed once, with errors of one sentence that name file and line."""

from __future__ import annotations

import json
import math
import numbers
import os
import stat
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from sightline.checks import shown
from sightline.documents import DocumentError, parse_json
from sightline.errors import SightlineError
from sightline.files import reason

MAX_BYTES = 256 * 2**20  # larger files are refused before they are read
MAX_FRAMES = 1_000_000
MAX_PIXELS = 1_000_000  # largest width or height that is accepted


class InputFile:
    """A file (or, for COLMAP, a folder) to read. Content is read and parsed at most once, also when formats are detected."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.path = Path(path)
        except TypeError:
            raise SightlineError(f"path is {shown(path)}: expected a string or a Path.") from None

    def error(self, problem: str, line: int | None = None) -> SightlineError:
        """An error "clip.txt, line 7: found ..., expected ...." on one line, whatever the file name holds."""
        place = str(self.path) if line is None else f"{self.path}, line {line}"
        return SightlineError(" ".join(f"{place}: {problem}".split()))

    @cached_property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self._mode)

    @cached_property
    def _mode(self) -> int:
        try:
            return os.stat(self.path).st_mode
        except FileNotFoundError:
            raise self.error("found nothing there, expected a file.") from None
        except (OSError, ValueError) as error:
            raise self.error(f"cannot be read ({reason(error)}), expected a readable file.") from None

    def require_file(self) -> None:
        """Refuse folders, and also pipes and devices, which could block for ever."""
        if self.is_folder:
            raise self.error("found a folder, expected a file.")
        if not stat.S_ISREG(self._mode):
            raise self.error("found a pipe or device, expected a regular file.")

    @cached_property
    def data(self) -> bytes:
        self.require_file()
        try:
            with open(self.path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise self.error(f"cannot be read ({reason(error)}), expected a readable file.") from None
        if len(data) > MAX_BYTES:
            raise self.error(f"found more than {MAX_BYTES // 2**20} MB, expected a camera file of at most that.")
        if not data.strip():
            raise self.error("found an empty file, expected camera poses.")
        return data

    @cached_property
    def text(self) -> str:
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            raise self.error(f"found the byte 0x{self.data[error.start]:02x}, expected UTF-8 text.", line) from None

    @cached_property
    def rows(self) -> list[tuple[int, str]]:
        """(line number from 1, stripped text) of each line that is neither empty nor a comment."""
        numbered = ((number, line.strip()) for number, line in enumerate(self.text.split("\n"), start=1))
        return [(number, line) for number, line in numbered if line and not line.startswith("#")]

    @cached_property
    def usual_columns(self) -> int:
        """The most common number of columns in the first lines (the larger one in a tie), despite damaged lines."""
        if self.looks_like_json:
            return 0
        counts = Counter(len(text.split()) for _, text in self.rows[:32])
        return max(counts, key=lambda columns: (counts[columns], columns), default=0)

    @cached_property
    def looks_like_json(self) -> bool:
        return self.data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")

    @cached_property
    def json(self) -> Any:
        try:
            return parse_json(self.text)
        except DocumentError as error:
            raise self.error(f"found text that cannot be read ({error}), expected JSON.", error.line) from None

    # -- values -------------------------------------------------------------------------------------------------

    def numbers(self, line: int, text: str, count: int, meaning: str) -> list[float]:
        """The `count` finite numbers of one line of text."""
        tokens = text.split()
        if len(tokens) != count:
            raise self.error(f"found {len(tokens)} numbers, expected {count} ({meaning}).", line)
        return [self.parsed(token, "a column", line) for token in tokens]

    def parsed(self, token: str, name: str, line: int | None = None) -> float:
        """A finite float from text."""
        try:
            number = float(token)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.error(f"found {shown(token)} as {name}, expected a finite number.", line)
        return number

    def number(self, value: Any, name: str, line: int | None = None) -> float:
        """A finite float from a number; text does not count."""
        try:
            number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
        except OverflowError:
            number = math.nan
        if not math.isfinite(number):
            raise self.error(f"found {shown(value)} as {name}, expected a finite number.", line)
        return number

    def whole_number(
        self, value: Any, name: str, line: int | None = None, least: int = 1, most: int = MAX_PIXELS
    ) -> int:
        """A whole number from `least` to `most`; 1280.0 counts as 1280."""
        number = self.number(value, name, line)
        if not number.is_integer() or not least <= number <= most:
            raise self.error(f"found {shown(value)} as {name}, expected a whole number from {least} to {most}.", line)
        return int(number)

    def matrix(self, value: Any, name: str, *shape: int) -> Any:
        """Nested JSON lists of finite numbers with exactly this shape."""
        if not shape:
            return self.number(value, name)
        if not isinstance(value, list) or len(value) != shape[0]:
            raise self.error(f"found {shown(value)} as {name}, expected {_describe_shape(shape)}.")
        return [self.matrix(item, name, *shape[1:]) for item in value]

    def frames(self, value: Any, name: str) -> list[Any]:
        """A JSON list of at least one and at most MAX_FRAMES items."""
        if not isinstance(value, list) or not value:
            raise self.error(f"found {shown(value)} as {name}, expected a list of frames.")
        self.check_frame_count(len(value))
        return value

    def field(self, holder: Any, key: str, name: str = "") -> Any:
        """holder[key] of a JSON object. name: what an error calls the object."""
        if not isinstance(holder, dict):
            raise self.error(f"found {shown(holder)} as {name or 'the file'}, expected an object with {key!r}.")
        if key not in holder:
            raise self.error(f"found no {key!r} in {name or 'the file'}, expected one.")
        return holder[key]

    def check_frame_count(self, count: int) -> None:
        if not 1 <= count <= MAX_FRAMES:
            raise self.error(f"found {count} frames, expected from 1 to {MAX_FRAMES}.")


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """A sort key that puts frame_2 before frame_10: digits compare as numbers (up to 18 of them), the rest as text."""
    key: list[tuple[int, int, str]] = []
    digits = ""
    for character in [*name, ""]:
        if character and character in "0123456789" and len(digits) < 18:
            digits += character
            continue
        if digits:
            key.append((0, int(digits), digits))
            digits = ""
        if character:
            key.append((1, 0, character))
    return key


def json_text(document: dict[str, Any] | list[Any]) -> str:
    """JSON with one entry per line and, for a list of frames, one frame per line; floats keep every bit."""
    if isinstance(document, list):
        return "[\n" + ",\n".join(map(json.dumps, document)) + "\n]\n"
    entries = []
    for key, value in document.items():
        per_line = isinstance(value, list) and value and isinstance(value[0], (list, dict))
        body = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]" if per_line else json.dumps(value)
        entries.append(f" {json.dumps(key)}: {body}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def number_rows(rows: Sequence[Sequence[float]]) -> str:
    """Text lines of space-separated numbers that read back to the same float64."""
    return "".join(" ".join(map(repr, row)) + "\n" for row in rows)


def _describe_shape(shape: tuple[int, ...]) -> str:
    return f"a list of {shape[0]} numbers" if len(shape) == 1 else "a " + "x".join(map(str, shape)) + " matrix"
