"""Atomic writes (under a temporary name, then renamed), and the reasons of errors in a few words.

Temporary names begin with a dot and hold `.sightline-`, so that those of a killed process can be found again.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from safetensors import SafetensorError

from sightline.errors import SightlineError
from sightline.locks import hold_lock

_LONGEST_NAME = 200  # bytes of a folder's name: file systems allow 255, and temporary names are longer
_PICTURES_AND_VIDEOS = frozenset(
    (".png", ".jpg", ".jpeg", ".webp", ".gif", ".svg", ".pdf", ".mp4", ".mov", ".mkv", ".avi", ".webm")
)
_TEMPORARY_FILE = re.compile(r"\..*\.sightline-[0-9a-f]{16}(\..*)?")
_BESIDE_FOLDER = re.compile(r"\.(.+)\.sightline-(?:new|old|lock)")


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to, beside `path` and with its suffix. It is renamed to `path` when the block succeeds.

    A reader never sees half a file, a failure leaves the old file unchanged, and missing folders are created.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem[:40]}.sightline-{secrets.token_hex(8)}{path.suffix}")
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


def failure(error: Exception) -> str:
    """One sentence on why one of many jobs or clips failed, whatever the error."""
    if isinstance(error, SightlineError):
        return str(error)
    return f"an unexpected {type(error).__name__} ({reason(error)}): expected none; please report it."


@contextmanager
def atomic_folder(path: str | Path, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder beside `path` to write into. It is renamed to `path` when the block succeeds, else deleted.

    A folder that is not empty is refused; with `overwrite` it is replaced at the very end. A file is never replaced. The path
    is locked meanwhile, and what a killed process left beside it is removed.
    """
    require_folder_name(path)
    path = Path(os.path.abspath(path))  # "." has no name to put a temporary one beside
    path = path.resolve() if path.is_symlink() else path
    if overwrite and path.exists() and not path.is_dir():
        raise SightlineError(f"{path} is a file: expected a folder.")
    if Path.cwd().is_relative_to(path) and any(path.iterdir()):
        raise SightlineError(f"{path} is where you are: expected a folder inside it, or another.")
    if len(path.name.encode()) > _LONGEST_NAME:
        raise SightlineError(f"{path}: the name is too long, expected at most {_LONGEST_NAME} bytes.")
    temporary, old, lock = _names_beside(path)
    new_parents = [parent for parent in path.absolute().parents if not parent.exists()]  # nearest first
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(lock, path):
            _clear_beside(path)
            if not overwrite:
                require_empty(path)
            try:
                temporary.mkdir()
                yield temporary
                give_usual_modes(temporary)
                if overwrite and path.exists():
                    os.replace(path, old)
                _move_in(temporary, path)
            finally:
                _clear_beside(path)
    except SightlineError as error:  # of a file inside: name its final place, not the temporary one
        raise SightlineError(str(error).replace(str(temporary), str(path)), error.frame) from None
    except (OSError, SafetensorError) as error:
        raise SightlineError(f"{path}: cannot be written ({reason(error)}), expected a writable place.") from None
    finally:
        for parent in new_parents:  # leaves no empty folders behind
            with suppress(OSError):
                parent.rmdir()


def _names_beside(path: Path) -> tuple[Path, Path, Path]:
    """Where the new folder is written, where the old one waits while it is replaced, and the lock of both."""
    new, old, lock = (path.with_name(f".{path.name}.sightline-{word}") for word in ("new", "old", "lock"))
    return new, old, lock


def _clear_beside(path: Path) -> None:
    """Delete the temporary folders of a path whose lock is held. An old folder that nothing has replaced is put back."""
    temporary, old, _ = _names_beside(path)
    if old.exists() and not path.exists():
        os.replace(old, path)
    for folder in (temporary, old):
        shutil.rmtree(folder, ignore_errors=True)


def _move_in(temporary: Path, path: Path) -> None:
    """Rename a finished folder to its path. What has appeared there meanwhile is left alone: rename() itself refuses it."""
    try:
        os.rename(temporary, path)
    except OSError:
        if not path.exists():
            raise
        free = next(place for number in count(2) if not (place := path.with_name(f"{path.name}-{number}")).exists())
        os.rename(temporary, free)
        raise SightlineError(
            f"{path} appeared while this was made: expected nothing there, so it is {free} now."
        ) from None


def remove_leftovers(folder: Path, files: bool = False) -> None:
    """Delete the temporary folders that killed processes left in a folder. Those of living ones are locked, and stay.

    files: delete temporary files too, which have no locks: only where nobody else writes into the folder.
    """
    for item in sorted(folder.iterdir()) if folder.is_dir() else []:
        if match := _BESIDE_FOLDER.fullmatch(item.name):
            path = folder / match[1]
            with suppress(SightlineError), hold_lock(_names_beside(path)[2], path):
                _clear_beside(path)
        elif files and _TEMPORARY_FILE.fullmatch(item.name) and item.is_file():
            item.unlink(missing_ok=True)


def require_empty(path: Path, expected: str = "a new or empty folder, or --overwrite to replace it") -> None:
    """Refuse a folder that is not empty."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        raise SightlineError(f"{path} exists: expected {expected}.")


def is_picture_name(path: str | Path) -> bool:
    """Whether a path ends like that of a picture or a video."""
    return Path(path).suffix.lower() in _PICTURES_AND_VIDEOS


def require_folder_name(folder: str | Path) -> Path:
    """The path of a folder, refused if it would be a new one with the name of a picture or a video. Call it before long work."""
    folder = Path(folder)
    if is_picture_name(folder) and not folder.is_dir():
        raise SightlineError(
            f"output {folder} has the suffix of a picture or video: expected a folder, such as {folder.with_suffix('')}."
        )
    return folder


def require_writable(folder: Path, expected: str = "a writable place") -> None:
    """Refuse a folder that cannot be written or has the name of a picture, before long work is done for it. Leaves nothing
    behind."""
    require_folder_name(folder)
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
