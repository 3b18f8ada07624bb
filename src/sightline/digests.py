"""SHA-256 digests of files and of values that JSON can hold. Digests of weights are in `sightline.backbones`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_SHORT = 16  # hexadecimal digits: enough to tell settings apart, short enough to print


def file_digest(path: str | Path) -> str:
    """All 64 hexadecimal digits of a file's content."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def json_digest(value: Any) -> str:
    """16 hexadecimal digits of a value written as JSON with sorted keys; what JSON cannot hold counts as its str()."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:_SHORT]
