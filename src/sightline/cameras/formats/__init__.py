"""Trajectory files: one reader and writer per format, chosen by name or by the content of the file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from sightline.cameras.formats import (
    colmap,
    kitti,
    matrices,
    motionctrl,
    nerfstudio,
    nerfstudio_path,
    omniworld,
    panshot,
    re10k,
    recammaster,
    sightline_json,
    tum,
    vipe,
    worldplay,
)
from sightline.cameras.formats._files import InputFile, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

__all__ = ["FORMATS", "Format", "detect", "format_to_write", "load", "save"]

# In the order they are tried on an unknown file; each one's content test excludes the ones after it.
FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        sightline_json,
        colmap,
        vipe,
        panshot,
        matrices,
        nerfstudio_path,
        nerfstudio,
        omniworld,
        recammaster,
        worldplay,
        motionctrl,
        re10k,
        tum,
        kitti,
    )
}


def load(path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Trajectory:
    """Read a trajectory file in the named format, or in the one detected from its content. options: those of the format."""
    file = InputFile(path)
    chosen = _get_format(format) if format is not None else _detect(file)
    _check_options(chosen, options, chosen.read_options, "reading")
    return chosen.read(file, **options)


def save(trajectory: Trajectory, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> None:
    """Write a trajectory file atomically, in the named format or in the one that its ending stands for.

    Endings: .json (sightline), .npy (panshot), .npz (vipe), .csv (matrices), .tum and .kitti. Another ending needs the name
    of a format.
    """
    target = InputFile(path).path
    chosen = format_to_write(target, format)
    _check_options(chosen, options, chosen.write_options, "writing")
    if trajectory.xi and not chosen.carries_xi:
        warnings.warn(f"{target}: {chosen.title} cannot carry xi = {trajectory.xi:g}; it is left out.", stacklevel=2)
    chosen.write(trajectory, target, **options)


def format_to_write(path: Path, format: str | None = None) -> Format:
    """The named format, or the one that the ending of the file stands for; an unknown ending is refused."""
    if format is not None:
        return _get_format(format)
    by_ending = {known.extension: known for known in FORMATS.values() if known.extension}
    if path.suffix.lower() not in by_ending:
        ending = f"the ending {path.suffix!r}" if path.suffix else "no ending"
        raise SightlineError(
            f"{path} has {ending}: expected one of {', '.join(by_ending)}, or the name of a format, such as re10k."
        )
    return by_ending[path.suffix.lower()]


def detect(path: str | os.PathLike[str]) -> str:
    """The name of the format of a file, from its content."""
    return _detect(InputFile(path)).name


def _detect(file: InputFile) -> Format:
    for known in FORMATS.values():
        if (file.is_folder and known is not colmap.FORMAT) or not known.sniff(file):
            continue
        return known
    raise file.error(f"found content of no known format, expected one of {', '.join(FORMATS)}.")


def _get_format(name: str) -> Format:
    if name not in FORMATS:
        raise SightlineError(f"format is {shown(name)}: expected one of {', '.join(FORMATS)}.")
    return FORMATS[name]


def _check_options(chosen: Format, options: dict[str, Any], known: list[str], what: str) -> None:
    for option in options:
        if option not in known:
            expected = f"one of {', '.join(known)}" if known else "no options"
            raise SightlineError(f"{option} is no option for {what} {chosen.name}: expected {expected}.")
