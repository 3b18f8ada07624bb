"""PanShot (UCPE): an npy of camera-to-world matrices [T, 3, 4]; the lens and the near depth live elsewhere."""

from __future__ import annotations

import json
import math
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
from sightline.errors import SightlineError
from sightline.files import reason, write_atomic


def read(
    file: InputFile,
    *,
    x_fov: Any = None,
    xi: Any = 0.0,
    width: Any = defaults.WIDTH,
    height: Any = defaults.HEIGHT,
    fps: Any = defaults.FPS,
    near_depth_file: str | Path | None = None,
) -> Trajectory:
    """`x_fov` is the angle in degrees seen across the width, through the unified model's `xi` where it is not 0.

    `near_depth_file` is a jsonl of {video_id, clip_name, clip_id, near_depth}; the line whose clip_name is this file's
    name without its ending is used.
    """
    array = parse_npy(file, file.data, "the file")
    if array.ndim != 3 or array.shape[1:] != (3, 4):
        raise file.error(f"found the shape {list(array.shape)}, expected [T, 3, 4].")
    file.check_frame_count(len(array))
    lens = lens_from_options(file, width, height)
    distortion = file.number(xi, "the option xi")
    intrinsics = lens.intrinsics
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


def _write_near_depth(table: Path, clip_name: str, near_depth: float | None) -> None:
    if near_depth is None:
        raise SightlineError(f"{table}: the trajectory has no near depth to write, expected Trajectory.near_depth.")
    lines = [text for _, text in InputFile(table).rows] if table.exists() else []
    lines = [text for text in lines if f'"clip_name": {json.dumps(clip_name)}' not in text]
    entry = {"video_id": clip_name, "clip_name": clip_name, "clip_id": 0, "near_depth": near_depth}
    write_atomic(table, "".join(f"{text}\n" for text in [*lines, json.dumps(entry)]))


def _near_depth(table: InputFile, clip_name: str) -> float:
    for line, text in table.rows:
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise table.error(f"found text that is not JSON ({reason(error)}), expected an object.", line) from None
        if isinstance(entry, dict) and Path(str(entry.get("clip_name"))).stem == clip_name:
            return positive(table, entry.get("near_depth"), "near_depth", line)
    raise table.error(f"found no line with the clip_name {shown(clip_name)}, expected one.")


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
