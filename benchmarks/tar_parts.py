"""Tar files in parts: NAME.00, NAME.01, ..., each below 16 MiB. Read by the scripts beside it."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PART_BYTES = 15 * 2**20


def write_parts(path: Path, root: Path, files: Iterable[Path]) -> None:
    """Replace the parts of a tar file by those of one with these files and folders of `root`."""
    with tempfile.TemporaryDirectory(prefix=".parts", dir=root) as folder:
        whole = Path(folder) / "whole"
        with tarfile.open(whole, "w:gz", compresslevel=6) as tar:
            for file in files:
                with suppress(FileNotFoundError):  # a study that is running may have removed it
                    tar.add(file, file.relative_to(root))
        packed = whole.read_bytes()
        parts: list[Path] = []
        for start in range(0, len(packed), PART_BYTES):
            parts.append(Path(folder) / f"{path.name}.{len(parts):02}")
            parts[-1].write_bytes(packed[start : start + PART_BYTES])
        for old in parts_of(path):
            old.unlink()
        for part in parts:
            shutil.move(part, path.parent)


def parts_of(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.*"))


def unpack(path: Path, root: Path) -> None:
    """Unpack a tar file, if there are parts of it, into a folder. What is there already stays."""
    whole = b"".join(part.read_bytes() for part in parts_of(path))
    if not whole:
        return
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        tar.extractall(root, [one for one in tar.getmembers() if not (root / one.name).exists()], filter="data")
