"""Camera files: one reader and writer per format, found by name or by looking at what a file holds."""

from __future__ import annotations

import os
import warnings
from typing import Any

from sightline.cameras.formats import (
    colmap,
    kitti,
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

__all__ = ["FORMATS", "Format", "detect", "load", "save"]

# In the order they are tried on an unknown file; each one's content test excludes the ones after it.
FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        sightline_json,
        colmap,
        vipe,
        panshot,
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
    """Read a camera file. The format is the named one, or the one the content shows; options are the format's own."""
    file = InputFile(path)
    chosen = _named(format) if format is not None else _detected(file)
    _check_options(chosen, options, chosen.read_options, "reading")
    return chosen.read(file, **options)


def save(trajectory: Trajectory, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> None:
    """Write a camera file, whole or not at all. Without a name, the ending decides where it is one format's alone.

    Those endings are .json (our own), .npy (panshot), .npz (vipe), .tum and .kitti; any other means our own json.
    """
    target = InputFile(path).path
    by_ending = {known.extension: known for known in FORMATS.values() if known.extension}
    chosen = _named(format) if format is not None else by_ending.get(target.suffix.lower(), sightline_json.FORMAT)
    _check_options(chosen, options, chosen.write_options, "writing")
    if trajectory.xi and not chosen.carries_xi:
        warnings.warn(f"{target}: {chosen.title} cannot carry xi = {trajectory.xi:g}; it is left out.", stacklevel=2)
    chosen.write(trajectory, target, **options)


def detect(path: str | os.PathLike[str]) -> str:
    """The name of the format a file is written in, from its content."""
    return _detected(InputFile(path)).name


def _detected(file: InputFile) -> Format:
    for known in FORMATS.values():
        if (file.is_folder and known is not colmap.FORMAT) or not known.sniff(file):
            continue
        return known
    raise file.error(f"found content of no known format, expected one of {', '.join(FORMATS)}.")


def _named(name: str) -> Format:
    if name not in FORMATS:
        raise SightlineError(f"format is {shown(name)}: expected one of {', '.join(FORMATS)}.")
    return FORMATS[name]


def _check_options(chosen: Format, options: dict[str, Any], known: list[str], what: str) -> None:
    for option in options:
        if option not in known:
            expected = f"one of {', '.join(known)}" if known else "no options"
            raise SightlineError(f"{option} is no option for {what} {chosen.name}: expected {expected}.")
