"""A fingerprint of the files of a model, to tell whether they were replaced. It is quick, and loads nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sightline.errors import SightlineError
from sightline.files import reason

_SAMPLE = 4096  # bytes at the start, in the middle and at the end of each tensor
_WHOLE = 2**26  # other files are read in full up to this size: configurations and tokenizers


def files_digest(path: str | Path) -> str:
    """16 hexadecimal digits of a file, or of all files of a folder with their names.

    Of a safetensors file, its size, its header and a sample of every tensor enter: weights that were trained differ in all.
    """
    path, digest = Path(path), hashlib.sha256()
    try:
        files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
        for file in files:
            name = "" if file == path else file.relative_to(path).as_posix()
            digest.update(f"{name} {file.stat().st_size}\n".encode())
            with open(file, "rb") as content:
                for start, length in _samples(content, file.stat().st_size):
                    content.seek(start)
                    digest.update(content.read(length))
    except OSError as error:
        raise SightlineError(f"{path} cannot be read ({reason(error)}): expected the weights of a model.") from None
    return digest.hexdigest()[:16]


def _samples(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """Start and length of the parts of a file that enter its digest."""
    if not file.name.endswith(".safetensors"):
        yield 0, min(size, _WHOLE)
        return
    header_length = int.from_bytes(file.read(8), "little")
    data = 8 + header_length
    if data > size:  # damaged: loading it says so
        return
    try:
        tensors = json.loads(file.read(header_length))
        spans = [tensors[name]["data_offsets"] for name in sorted(tensors) if name != "__metadata__"]
        yield 0, data
        for start, end in spans:
            for at in (start, (start + end) // 2, max(end - _SAMPLE, start)):
                yield data + at, min(_SAMPLE, end - at)
    except (ValueError, KeyError, TypeError, RecursionError):
        return
