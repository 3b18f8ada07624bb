"""Atomic writes (under a temporary name, then renamed), and the reasons of errors in a few words."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from sightline.errors import SightlineError


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to, beside `path` and with its suffix. It is renamed to `path` when the block succeeds.

    A reader never sees half a file, a failure leaves the old file unchanged, and missing folders are created.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem[:40]}.{secrets.token_hex(8)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            if temporary.is_file():
                _give_usual_mode(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError, SafetensorError) as error:  # ValueError: a null byte in the name
        if isinstance(error, SightlineError):
            raise
        sentence = f"{path}: cannot be written ({reason(error)}), expected a writable place."
        raise SightlineError(" ".join(sentence.split())) from None


def give_usual_modes(folder: Path) -> None:
    """Give every file in a folder the mode that open() would have given it."""
    for file in folder.rglob("*"):
        if file.is_file():
            _give_usual_mode(file)


def _give_usual_mode(path: Path) -> None:
    """Some writers create files that only their owner can read."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def write_atomic(path: str | Path, content: bytes | str) -> None:
    """Write a file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def reason(error: BaseException) -> str:
    """The message of an error, shortened to one line, without a full stop."""
    text = " ".join((getattr(error, "strerror", None) or str(error) or type(error).__name__).split())
    is_short = len(text) <= 120
    return text.rstrip(". ") if is_short else text[:120].rsplit(" ", 1)[0].rstrip(". ") + " ..."


@contextmanager
def atomic_folder(path: str | Path, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder beside `path` to write into. It is renamed to `path` when the block succeeds, else deleted.

    A folder that is not empty is refused; with `overwrite` it is replaced at the very end. A file is never replaced.
    """
    path = Path(os.path.abspath(path))  # "." has no name to put a temporary one beside
    if overwrite and path.exists() and not path.is_dir():
        raise SightlineError(f"{path} is a file: expected a folder.")
    if Path.cwd().is_relative_to(path) and any(path.iterdir()):
        raise SightlineError(f"{path} is where you are: expected a folder inside it, or another.")
    temporary, old = (path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}.{word}") for word in ("new", "old"))
    new_parents = [parent for parent in path.absolute().parents if not parent.exists()]  # nearest first
    try:
        if not overwrite:
            require_empty(path)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            give_usual_modes(temporary)
            if path.exists():
                os.replace(path, old)
            os.replace(temporary, path)
        except BaseException:
            if old.exists() and not path.exists():
                os.replace(old, path)
            shutil.rmtree(temporary, ignore_errors=True)
            for parent in new_parents:  # leaves no empty folders behind
                with suppress(OSError):
                    parent.rmdir()
            raise
        shutil.rmtree(old, ignore_errors=True)
    except SightlineError as error:  # of a file inside: name its final place, not the temporary one
        raise SightlineError(str(error).replace(str(temporary), str(path)), error.frame) from None
    except (OSError, SafetensorError) as error:
        raise SightlineError(f"{path}: cannot be written ({reason(error)}), expected a writable place.") from None


def require_empty(path: Path) -> None:
    """Refuse a folder that is not empty."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        raise SightlineError(f"{path} exists: expected a new or empty folder, or --overwrite to replace it.")


def require_writable(folder: Path, expected: str = "a writable place") -> None:
    """Refuse a folder that cannot be written, before long work is done for it. Leaves nothing behind."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]  # nearest first
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SightlineError(f"output {folder} cannot be written ({reason(error)}): expected {expected}.") from None
    finally:
        for place in missing:
            with suppress(OSError):
                place.rmdir()
