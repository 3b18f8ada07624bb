"""The two JSON files, as the package sightline reads and writes them: sightline json and nerfstudio camera_path.json."""

from __future__ import annotations

import json
import math
import os
import secrets
from pathlib import Path
from typing import Any

from .camera_path import CameraPath, CameraPathError, flip_opengl

SCHEMA = "sightline-trajectory"
VERSION = 1
DEFAULT_FPS = 16.0  # of a camera_path.json that states neither fps nor seconds
MAX_BYTES = 256 * 2**20
CONVENTIONS = {
    "camera_to_world": "per frame a 4x4 matrix, row by row, taking camera to world coordinates; "
    "OpenCV camera axes: x right, y down, z forward",
    "intrinsics": "[[fx, 0, cx], [0, fy, cy], [0, 0, 1]] in pixels, one for all frames or one per frame; "
    "the first pixel's centre is (0.5, 0.5)",
    "xi": "unified camera model (Mei); 0 is a pinhole",
    "near_depth": "depth of the nearest surface in `unit`, null where unknown",
}


def sightline_text(path: CameraPath) -> str:
    constant = all(lens == path.intrinsics[0] for lens in path.intrinsics)
    return _json_text(
        {
            "schema": SCHEMA,
            "version": VERSION,
            "conventions": CONVENTIONS,
            "width": path.width,
            "height": path.height,
            "fps": float(path.fps),
            "xi": 0.0,
            "unit": path.unit,
            "near_depth": path.near_depth,
            "intrinsics": path.intrinsics[0] if constant else path.intrinsics,
            "camera_to_world": path.camera_to_world,
        }
    )


def nerfstudio_text(path: CameraPath) -> str:
    frames = [
        {
            "camera_to_world": [value for row in flip_opengl(pose) for value in row],
            "fov": math.degrees(2 * math.atan(path.height / 2 / lens[1][1])),
            "aspect": path.width / path.height,
        }
        for pose, lens in zip(path.camera_to_world, path.intrinsics, strict=True)
    ]
    return _json_text(
        {
            "keyframes": [],
            "camera_type": "perspective",
            "render_width": path.width,
            "render_height": path.height,
            "camera_path": frames,
            "fps": float(path.fps),
            "seconds": len(frames) / path.fps,
            "smoothness_value": 0,
            "is_cycle": False,
            "crop": None,
        }
    )


def lost_in_nerfstudio(path: CameraPath) -> str | None:
    """A sentence on what camera_path.json cannot say about this path; None where it says everything."""
    lost = []
    if any(abs(lens[0][0] / lens[1][1] - 1) > 1e-6 for lens in path.intrinsics):
        lost.append("the pixel aspect")
    if any(max(abs(lens[0][2] - path.width / 2), abs(lens[1][2] - path.height / 2)) > 1e-3 for lens in path.intrinsics):
        lost.append("the lens shift")
    return f"camera_path.json cannot carry {' and '.join(lost)}, which is left out." if lost else None


WRITERS = {"sightline": sightline_text, "nerfstudio-path": nerfstudio_text}


def write(path: CameraPath, file: str | os.PathLike[str], format: str) -> None:
    """Write under a temporary name, then rename, so that the file is complete or absent."""
    text = WRITERS[format](path)
    target = Path(file)
    temporary = target.with_name(f".{target.stem[:40]}.sightline-{secrets.token_hex(8)}{target.suffix}")
    try:
        try:
            temporary.write_text(text, encoding="utf-8", newline="\n")
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise CameraPathError(f"{target}: cannot be written ({error}), expected a writable place.") from None


def read(file: str | os.PathLike[str]) -> CameraPath:
    """Either kind of file, told apart by its content."""
    document = _load(Path(file))
    try:
        if isinstance(document, dict) and document.get("schema") == SCHEMA:
            return _sightline_path(document)
        if isinstance(document, dict) and "camera_path" in document:
            return _nerfstudio_path(document)
        raise CameraPathError("found neither kind of path, expected sightline json or nerfstudio's camera_path.json.")
    except CameraPathError as error:
        raise CameraPathError(f"{file}: {error}") from None


def _sightline_path(document: dict[str, Any]) -> CameraPath:
    if (version := _field(document, "version")) != VERSION:
        raise CameraPathError(f"found version {version!r}, expected {VERSION}.")
    if xi := _number(_field(document, "xi"), "xi"):
        raise CameraPathError(f"found xi = {xi:g}, expected 0, because Blender's perspective camera is a pinhole.")
    poses = [_matrix(pose, "camera_to_world", 4, 4) for pose in _frames(document, "camera_to_world")]
    lens = _frames(document, "intrinsics")
    per_frame = isinstance(lens[0], list) and lens[0] and isinstance(lens[0][0], list)
    lenses = [_matrix(one, "intrinsics", 3, 3) for one in (lens if per_frame else [lens] * len(poses))]
    near_depth, unit = _field(document, "near_depth"), _field(document, "unit")
    if not isinstance(unit, str) or not unit:
        raise CameraPathError(f"found {_shown(unit)} as unit, expected a word.")
    return CameraPath(
        poses,
        lenses,
        _pixels(document, "width"),
        _pixels(document, "height"),
        _number(_field(document, "fps"), "fps"),
        unit,
        None if near_depth is None else _number(near_depth, "near_depth"),
    )


def _nerfstudio_path(document: dict[str, Any]) -> CameraPath:
    if (kind := document.get("camera_type", "perspective")) != "perspective":
        raise CameraPathError(f"found the camera type {_shown(kind)}, expected 'perspective'.")
    width, height = _pixels(document, "render_width"), _pixels(document, "render_height")
    poses, lenses = [], []
    for index, frame in enumerate(_frames(document, "camera_path")):
        flat = _matrix(_field(frame, "camera_to_world"), f"camera_to_world of camera_path[{index}]", 16)
        poses.append(flip_opengl([flat[row : row + 4] for row in (0, 4, 8, 12)]))
        fov = _number(_field(frame, "fov"), "fov")
        if not 0 < fov < 180:
            raise CameraPathError(f"found {fov:g} as fov of camera_path[{index}], expected degrees between 0 and 180.")
        focal = height / 2 / math.tan(math.radians(fov) / 2)
        lenses.append([[focal, 0.0, width / 2], [0.0, focal, height / 2], [0.0, 0.0, 1.0]])
    fps = DEFAULT_FPS
    if document.get("fps") is not None:
        fps = _number(document["fps"], "fps")
    elif document.get("seconds") is not None:
        seconds = _number(document["seconds"], "seconds")
        if seconds <= 0:
            raise CameraPathError(f"found {seconds:g} as seconds, expected a number above 0.")
        fps = len(poses) / seconds
    return CameraPath(poses, lenses, width, height, fps)


def _load(file: Path) -> Any:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise CameraPathError(f"{file}: found more than {MAX_BYTES // 2**20} MB, expected a smaller file.")
        return json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise CameraPathError(f"{file}: cannot be read ({error}), expected a JSON file.") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise CameraPathError(f"{file}: found text that cannot be read ({error}), expected JSON.") from None


def _field(holder: Any, key: str) -> Any:
    if not isinstance(holder, dict) or key not in holder:
        raise CameraPathError(f"found no {key!r}, expected one.")
    return holder[key]


def _frames(document: dict[str, Any], key: str) -> list[Any]:
    value = _field(document, key)
    if not isinstance(value, list) or not value:
        raise CameraPathError(f"found {_shown(value)} as {key}, expected a list of frames.")
    return value


def _number(value: Any, name: str) -> float:
    try:
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.nan
    if not math.isfinite(number):
        raise CameraPathError(f"found {_shown(value)} as {name}, expected a finite number.")
    return number


def _pixels(document: dict[str, Any], key: str) -> int:
    number = _number(_field(document, key), key)
    if not number.is_integer() or not 1 <= number <= 65536:
        raise CameraPathError(f"found {number:g} as {key}, expected a whole number from 1 to 65536.")
    return int(number)


def _matrix(value: Any, name: str, *shape: int) -> Any:
    if not shape:
        return _number(value, name)
    if not isinstance(value, list) or len(value) != shape[0]:
        raise CameraPathError(f"found {_shown(value)} in {name}, expected {'x'.join(map(str, shape))} numbers.")
    return [_matrix(item, name, *shape[1:]) for item in value]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _json_text(document: dict[str, Any]) -> str:
    """One entry per line and, for a list of frames, one frame per line; floats keep every bit."""
    entries = []
    for key, value in document.items():
        per_line = isinstance(value, list) and value and isinstance(value[0], (list, dict))
        body = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]" if per_line else json.dumps(value)
        entries.append(f" {json.dumps(key)}: {body}")
    return "{\n" + ",\n".join(entries) + "\n}\n"
