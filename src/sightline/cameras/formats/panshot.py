"""PanShot (UCPE): an npy of camera-to-world matrices [T, 3, 4]; the lens and the near depth live elsewhere."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sightline.cameras import defaults
from sightline.cameras.formats._arrays import NPY_MAGIC, npy_bytes, npy_shape, parse_npy
from sightline.cameras.formats._build import (
    build,
    lens_from_options,
    positive,
    with_last_row,
)
from sightline.cameras.formats._files import InputFile, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.lens import intrinsics_from_fov
from sightline.cameras.trajectory import Trajectory
from sightline.documents import DocumentError, parse_json
from sightline.errors import SightlineError
from sightline.files import write_atomic


def read(
    file: InputFile,
    *,
    x_fov: Any = None,
    xi: Any = 0.0,
    width: Any = defaults.WIDTH,
    height: Any = defaults.HEIGHT,
    focal_mm: Any = None,
    fps: Any = defaults.FPS,
    near_depth_file: str | Path | None = None,
) -> Trajectory:
    """`x_fov` is the angle in degrees seen across the width, through the unified model's `xi` where it is not 0; without `xi`,
    `focal_mm` (on a sensor 36 mm wide) may be given instead.

    `near_depth_file` is UCPE's jsonl of {video_id, clip_id, near_depth}. A file VIDEO-CLIP-SHOT-NAME.npy is cut from the
    panorama VIDEO-CLIP and has its near depth; a file of another name is looked up as its own panorama, NAME or NAME-0.
    """
    array = parse_npy(file, file.data, "the file")
    if array.ndim != 3 or array.shape[1:] != (3, 4):
        raise file.error(f"found the shape {list(array.shape)}, expected [T, 3, 4].")
    file.check_frame_count(len(array))
    lens = lens_from_options(file, width, height, focal_mm)
    distortion = file.number(xi, "the option xi")
    intrinsics = lens.intrinsics
    if focal_mm is not None and (x_fov is not None or distortion):
        raise file.error("found the option focal_mm beside x_fov or xi, expected x_fov alone for a lens with xi.")
    if x_fov is not None:
        intrinsics = _intrinsics_from_fov(file, x_fov, distortion, lens.width, lens.height)
    return build(
        file,
        with_last_row(torch.from_numpy(array)),
        intrinsics,
        lens.width,
        lens.height,
        xi=distortion,
        fps=fps,
        near_depth=None if near_depth_file is None else _near_depth(InputFile(near_depth_file), file.path.stem),
    )


def write(trajectory: Trajectory, path: Path, *, near_depth_file: str | Path | None = None) -> None:
    """The world is moved, not turned, so that the first camera stands at the origin and y stays down.

    `near_depth_file`: the jsonl that gets a line with the near depth; a line for the same clip is replaced.
    """
    poses = trajectory.camera_to_world[:, :3].clone()
    poses[:, :, 3] -= trajectory.positions[0].clone()
    write_atomic(path, npy_bytes(poses.numpy()))
    if near_depth_file is not None:
        _write_near_depth(Path(near_depth_file), path.stem, trajectory.near_depth)


def sniff(file: InputFile) -> bool:
    """An npy [T, 3, 4]; other shapes are plain matrices."""
    return file.data.startswith(NPY_MAGIC) and (npy_shape(file.data) or ())[1:] == (3, 4)


def _intrinsics_from_fov(file: InputFile, x_fov: Any, xi: float, width: int, height: int) -> Tensor:  # [3, 3]
    degrees = file.number(x_fov, "the option x_fov")
    half = math.radians(degrees) / 2
    if not 0 < half < math.pi or math.cos(half) + xi <= 0:
        raise file.error(f"found {shown(x_fov)} as the option x_fov, expected degrees that xi = {xi:g} can see.")
    return intrinsics_from_fov(degrees, width, height, xi)


def _write_near_depth(table: Path, name: str, near_depth: float | None) -> None:
    if near_depth is None:
        raise SightlineError(f"{table}: the trajectory has no near depth to write, expected Trajectory.near_depth.")
    match = re.fullmatch(r"(.+)-(\d{1,9})-[^-]+-[^-]+", name)  # UCPE's own names
    entry = {
        "video_id": match[1] if match else name,
        "clip_id": int(match[2]) if match else 0,
        "near_depth": near_depth,
    }
    others = _entries(InputFile(table)) if table.exists() else []
    lines = [other for _, other in others if _panorama(other) != _panorama(entry)]
    write_atomic(table, "".join(f"{json.dumps(line)}\n" for line in [*lines, entry]))


def _near_depth(table: InputFile, name: str) -> float:
    panoramas = (name.rsplit("-", 2)[0], name, f"{name}-0")
    found = {_panorama(entry): (line, entry) for line, entry in _entries(table)}
    for panorama in panoramas:
        if panorama in found:
            line, entry = found[panorama]
            return positive(table, entry.get("near_depth"), "near_depth", line)
    expected = " or ".join(dict.fromkeys(panoramas))
    raise table.error(f"found no line whose video_id and clip_id are those of {shown(name)}, expected {expected}.")


def _panorama(entry: dict[str, Any]) -> str:
    return f"{entry.get('video_id')}-{entry.get('clip_id')}"


def _entries(table: InputFile) -> list[tuple[int, dict[str, Any]]]:
    """The objects of a jsonl file with the numbers of their lines."""
    entries = []
    for line, text in table.rows:
        try:
            entry = parse_json(text)
        except DocumentError as error:
            raise table.error(f"found text that cannot be read ({error}), expected an object.", line) from None
        if isinstance(entry, dict):
            entries.append((line, entry))
    return entries


FORMAT = Format(
    name="panshot",
    title="PanShot npy",
    convention="camera-to-world [T, 3, 4], OpenCV axes, world y down, first camera at the origin",
    loses="the first camera's position, lens, image size, time (fps), xi, unit; near depth without near_depth_file",
    read=read,
    write=write,
    sniff=sniff,
    extension=".npy",
)
