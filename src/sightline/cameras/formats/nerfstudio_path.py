"""nerfstudio camera_path.json: the frames its viewer renders."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from sightline.cameras import defaults
from sightline.cameras.formats._build import build, flip_opengl, positive, warn_square_pixels
from sightline.cameras.formats._files import InputFile, json_text, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.lens import intrinsics_matrix
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic


def read(file: InputFile) -> Trajectory:
    """`fov` is vertical, in degrees; pixels are square and the principal point is the image's centre."""
    document = file.json
    width = file.whole_number(file.field(document, "render_width"), "render_width")
    if (kind := document.get("camera_type", "perspective")) != "perspective":
        raise file.error(f"found the camera type {shown(kind)}, expected 'perspective'.")
    height = file.whole_number(file.field(document, "render_height"), "render_height")
    poses, focals = [], []
    for index, frame in enumerate(file.frames(file.field(document, "camera_path"), "camera_path")):
        name = f"camera_path[{index}]"
        poses.append(file.matrix(file.field(frame, "camera_to_world", name), f"camera_to_world of {name}", 16))
        fov = file.number(file.field(frame, "fov", name), f"fov of {name}")
        if not 0 < fov < 180:
            raise file.error(f"found {shown(fov)} as fov of {name}, expected degrees between 0 and 180.")
        focals.append(height / 2 / math.tan(math.radians(fov) / 2))
    focal = torch.tensor(focals, dtype=torch.float64)
    centre = [torch.tensor(pixels / 2, dtype=torch.float64) for pixels in (width, height)]
    return build(
        file,
        flip_opengl(torch.tensor(poses, dtype=torch.float64).unflatten(1, (4, 4))),
        intrinsics_matrix(focal, focal, *centre),
        width,
        height,
        fps=_fps(file, document, len(poses)),
    )


def write(trajectory: Trajectory, path: Path) -> None:
    warn_square_pixels(trajectory, path, "the vertical field of view")
    matrices = flip_opengl(trajectory.camera_to_world).flatten(1).tolist()
    aspect = trajectory.width / trajectory.height
    frames = [
        {"camera_to_world": matrix, "fov": math.degrees(2 * math.atan(trajectory.height / 2 / focal)), "aspect": aspect}
        for matrix, focal in zip(matrices, trajectory.intrinsics[:, 1, 1].tolist(), strict=True)
    ]
    document = {
        "keyframes": [],
        "camera_type": "perspective",
        "render_width": trajectory.width,
        "render_height": trajectory.height,
        "camera_path": frames,
        "fps": trajectory.fps,
        "seconds": len(trajectory) / trajectory.fps,
        "smoothness_value": 0,
        "is_cycle": False,
        "crop": None,
    }
    write_atomic(path, json_text(document))


def sniff(file: InputFile) -> bool:
    return file.looks_like_json and isinstance(file.json, dict) and "camera_path" in file.json


def _fps(file: InputFile, document: dict[str, Any], frames: int) -> float:
    if document.get("fps") is not None:
        return positive(file, document["fps"], "fps")
    if document.get("seconds") is not None:
        return frames / positive(file, document["seconds"], "seconds")
    return defaults.FPS


FORMAT = Format(
    name="nerfstudio-path",
    title="nerfstudio camera_path.json",
    convention="camera-to-world 4x4 flattened row by row, OpenGL axes (x right, y up, z backward); vertical fov in degrees",
    loses="non-square pixels, an off-centre principal point, xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
)
