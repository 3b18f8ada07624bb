"""OmniWorld-Game camera/split_i.json: focals, cx, cy, quaternions and translations of one split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sightline.cameras import defaults, se3
from sightline.cameras.formats._build import (
    build,
    image_size,
    rotations_from_quaternions,
    warn_square_pixels,
)
from sightline.cameras.formats._files import InputFile, json_text
from sightline.cameras.formats._format import Format
from sightline.cameras.lens import intrinsics_matrix
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic


def read(file: InputFile, *, width: Any = None, height: Any = None, fps: Any = defaults.FPS) -> Trajectory:
    """Without the options, the image is twice the principal point: OmniWorld's is centred."""
    document = file.json
    quaternions = file.frames(file.field(document, "quats"), "quats")
    count = len(quaternions)
    rotation = rotations_from_quaternions(
        file, torch.tensor(file.matrix(quaternions, "quats", count, 4), dtype=torch.float64)
    )
    translation = torch.tensor(file.matrix(file.field(document, "trans"), "trans", count, 3), dtype=torch.float64)
    focal, cx, cy = (_per_frame(file, document, key, count) for key in ("focals", "cx", "cy"))
    columns, rows = image_size(file, (None, None), (width, height), (float(cx[0]), float(cy[0])))
    camera_to_world = se3.inverse(se3.from_parts(rotation, translation))
    return build(file, camera_to_world, intrinsics_matrix(focal, focal, cx, cy), columns, rows, fps=fps)


def write(trajectory: Trajectory, path: Path) -> None:
    warn_square_pixels(trajectory, path, "fx")
    lens = trajectory.intrinsics
    world_to_camera = trajectory.world_to_camera
    document = {
        "focals": lens[:, 0, 0].tolist(),
        "cx": _scalar_if_constant(lens[:, 0, 2]),
        "cy": _scalar_if_constant(lens[:, 1, 2]),
        "quats": se3.rotation_to_quaternion(world_to_camera[:, :3, :3]).tolist(),
        "trans": world_to_camera[:, :3, 3].tolist(),
    }
    write_atomic(path, json_text(document))


def sniff(file: InputFile) -> bool:
    return file.looks_like_json and isinstance(file.json, dict) and {"focals", "quats", "trans"} <= file.json.keys()


def _per_frame(file: InputFile, document: Any, key: str, count: int) -> Tensor:  # [T]
    value = file.field(document, key)
    numbers = file.matrix(value, key, count) if isinstance(value, list) else [file.number(value, key)] * count
    return torch.tensor(numbers, dtype=torch.float64)


def _scalar_if_constant(values: Tensor) -> float | list[float]:
    return float(values[0]) if bool((values == values[0]).all()) else values.tolist()


FORMAT = Format(
    name="omniworld",
    title="OmniWorld-Game camera split",
    convention="world-to-camera, OpenCV axes: quaternion w x y z and translation; focal lengths in pixels",
    loses="non-square pixels, image size where the principal point is off centre, time (fps), xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
)
