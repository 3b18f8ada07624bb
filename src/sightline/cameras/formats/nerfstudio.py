"""nerfstudio transforms.json, also DL3DV's and NeRF-synthetic's.

Frames come in the natural order of their file_path (frame_2 before frame_10), as nerfstudio sorts them too, or in file
order where a frame has none. Poses stay as the file has them: applied_transform and applied_scale say what was already
done to the world, and undoing that would move the cameras away from a scene trained on the same file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from sightline.cameras import defaults
from sightline.cameras.formats._build import (
    build,
    constant_lens,
    flip_opengl,
    image_size,
    warn_distortion,
)
from sightline.cameras.formats._files import InputFile, json_text, natural_key, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic

_PERSPECTIVE = ("PINHOLE", "SIMPLE_PINHOLE", "PERSPECTIVE", "OPENCV", "SIMPLE_RADIAL", "RADIAL")
_DISTORTION = ("k1", "k2", "k3", "k4", "p1", "p2")


def read(file: InputFile, *, width: Any = None, height: Any = None, fps: Any = defaults.FPS) -> Trajectory:
    """`width` and `height` are needed only where the file states neither its size nor its principal point."""
    document, frames = file.json, _ordered_frames(file)
    poses, lenses, sizes = [], [], set()
    distorted = False
    for index, frame in enumerate(frames):
        name = f"frame {index} ({shown(frame.get('file_path'))})"
        settings = {**document, **frame}
        model = settings.get("camera_model", "PINHOLE")
        if model not in _PERSPECTIVE:
            raise file.error(f"found the camera model {shown(model)}, expected one of {', '.join(_PERSPECTIVE)}.")
        distorted |= any(file.number(settings.get(key, 0), key) != 0 for key in _DISTORTION)
        matrix = frame["transform_matrix"]
        rows = 3 if isinstance(matrix, list) and len(matrix) == 3 else 4
        poses.append([*file.matrix(matrix, f"transform_matrix of {name}", rows, 4), [0.0, 0.0, 0.0, 1.0]][:4])
        lens, size = _lens(file, settings, name, (width, height))
        lenses.append(lens)
        sizes.add(size)
    if len(sizes) > 1:
        raise file.error(f"found {len(sizes)} image sizes, expected one for the whole path.")
    if distorted:
        warn_distortion(file)
    (columns, image_rows) = sizes.pop()
    return build(
        file,
        flip_opengl(torch.tensor(poses, dtype=torch.float64)),
        torch.tensor(lenses, dtype=torch.float64),
        columns,
        image_rows,
        fps=fps,
    )


def picture_paths(file: InputFile) -> list[str]:
    """file_path of each frame, in the order of `read`."""
    frames = _ordered_frames(file)
    for index, frame in enumerate(frames):
        if not isinstance(frame.get("file_path"), str):
            raise file.error(f"found no file_path in frames[{index}], expected the name of its picture.")
    return [frame["file_path"] for frame in frames]


def write(trajectory: Trajectory, path: Path) -> None:
    shared = constant_lens(trajectory)
    lenses = [
        {"fl_x": lens[0][0], "fl_y": lens[1][1], "cx": lens[0][2], "cy": lens[1][2]}
        for lens in trajectory.intrinsics.tolist()
    ]
    document: dict[str, Any] = {"camera_model": "PINHOLE", "w": trajectory.width, "h": trajectory.height}
    if shared:
        document |= lenses[0]
    document["frames"] = [
        {
            "file_path": f"images/frame_{index + 1:05d}.png",
            **({} if shared else lenses[index]),
            "transform_matrix": matrix,
        }
        for index, matrix in enumerate(flip_opengl(trajectory.camera_to_world).tolist())
    ]
    write_atomic(path, json_text(document))


def _ordered_frames(file: InputFile) -> list[dict[str, Any]]:
    frames = file.frames(file.field(file.json, "frames"), "frames")
    for index, frame in enumerate(frames):
        file.field(frame, "transform_matrix", f"frames[{index}]")
    if all(isinstance(frame.get("file_path"), str) for frame in frames):
        frames = sorted(frames, key=lambda frame: natural_key(frame["file_path"]))
    return frames


def sniff(file: InputFile) -> bool:
    return file.looks_like_json and isinstance(file.json, dict) and "frames" in file.json


def _lens(
    file: InputFile, settings: dict[str, Any], name: str, options: tuple[Any, Any]
) -> tuple[list[list[float]], tuple[int, int]]:
    """K and image size of one frame: fl_x, fl_y in pixels, or camera_angle_x, camera_angle_y in radians."""
    cx, cy = (None if settings.get(key) is None else file.number(settings[key], key) for key in ("cx", "cy"))
    size = image_size(file, (settings.get("w"), settings.get("h")), options, (cx, cy))
    focals = []
    for key, angle_key, pixels in (("fl_x", "camera_angle_x", size[0]), ("fl_y", "camera_angle_y", size[1])):
        if settings.get(key) is not None:
            focals.append(file.number(settings[key], key))
        elif settings.get(angle_key) is not None:
            angle = file.number(settings[angle_key], angle_key)
            if not 0 < angle < math.pi:
                raise file.error(f"found {shown(angle)} as {angle_key}, expected radians between 0 and pi.")
            focals.append(0.5 * pixels / math.tan(0.5 * angle))
    if not focals:
        raise file.error(f"found neither fl_x nor camera_angle_x for {name}, expected a focal length.")
    cx, cy = size[0] / 2 if cx is None else cx, size[1] / 2 if cy is None else cy
    return [[focals[0], 0.0, cx], [0.0, focals[-1], cy], [0.0, 0.0, 1.0]], size


FORMAT = Format(
    name="nerfstudio",
    title="nerfstudio transforms.json (also DL3DV, NeRF-synthetic)",
    convention="camera-to-world 4x4, OpenGL axes (x right, y up, z backward); intrinsics in pixels",
    loses="time (fps), xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
)
