"""Our own format: JSON that says what its numbers mean and gives every float64 back bit for bit."""

from __future__ import annotations

from pathlib import Path

import torch

from sightline.cameras.formats._build import build, constant_lens
from sightline.cameras.formats._files import InputFile, json_text, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic

SCHEMA = "sightline-trajectory"
VERSION = 1
_CONVENTIONS = {
    "camera_to_world": "per frame a 4x4 matrix, row by row, taking camera to world coordinates; "
    "OpenCV camera axes: x right, y down, z forward",
    "intrinsics": "[[fx, 0, cx], [0, fy, cy], [0, 0, 1]] in pixels, one for all frames or one per frame; "
    "the first pixel's centre is (0.5, 0.5)",
    "xi": "unified camera model (Mei); 0 is a pinhole",
    "near_depth": "depth of the nearest surface in `unit`, null where unknown",
}


def read(file: InputFile) -> Trajectory:
    document = file.json
    if not sniff(file):
        raise file.error(f"found no schema {SCHEMA!r}, expected a file written by sightline.")
    if (version := file.field(document, "version")) != VERSION:
        raise file.error(f"found version {shown(version)}, expected {VERSION}.")
    poses = [
        file.matrix(pose, f"camera_to_world[{frame}]", 4, 4)
        for frame, pose in enumerate(file.frames(file.field(document, "camera_to_world"), "camera_to_world"))
    ]
    lens = file.frames(file.field(document, "intrinsics"), "intrinsics")
    per_frame = isinstance(lens[0], list) and bool(lens[0]) and isinstance(lens[0][0], list)
    shape = (len(poses), 3, 3) if per_frame else (3, 3)
    unit = file.field(document, "unit")
    if not isinstance(unit, str):
        raise file.error(f"found {shown(unit)} as unit, expected a word.")
    near_depth = file.field(document, "near_depth")
    return build(
        file,
        torch.tensor(poses, dtype=torch.float64),
        torch.tensor(file.matrix(lens, "intrinsics", *shape), dtype=torch.float64),
        file.whole_number(file.field(document, "width"), "width"),
        file.whole_number(file.field(document, "height"), "height"),
        xi=file.number(file.field(document, "xi"), "xi"),
        fps=file.number(file.field(document, "fps"), "fps"),
        unit=unit,
        near_depth=None if near_depth is None else file.number(near_depth, "near_depth"),
    )


def write(trajectory: Trajectory, path: Path) -> None:
    lens = trajectory.intrinsics[0] if constant_lens(trajectory) else trajectory.intrinsics
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "conventions": _CONVENTIONS,
        "width": trajectory.width,
        "height": trajectory.height,
        "fps": trajectory.fps,
        "xi": trajectory.xi,
        "unit": trajectory.unit,
        "near_depth": trajectory.near_depth,
        "intrinsics": lens.tolist(),
        "camera_to_world": trajectory.camera_to_world.tolist(),
    }
    write_atomic(path, json_text(document))


def sniff(file: InputFile) -> bool:
    return file.looks_like_json and isinstance(file.json, dict) and file.json.get("schema") == SCHEMA


FORMAT = Format(
    name="sightline",
    title="sightline json",
    convention="camera-to-world 4x4, OpenCV axes, intrinsics in pixels; spelled out in the file",
    loses="nothing: every float64 comes back bit for bit",
    read=read,
    write=write,
    sniff=sniff,
    extension=".json",
    carries_xi=True,
)
