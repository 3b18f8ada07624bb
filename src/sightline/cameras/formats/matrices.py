"""Plain matrices, one per frame, in an npy, csv or json file that does not say what they mean: the options do.

npy: an array [T, 4, 4], [T, 3, 4], [T, 16] or [T, 12]. csv: 16 or 12 numbers per line, row by row, between commas, semicolons
or spaces; a first line of column names is skipped. json: a list of such matrices or rows, alone or as the only one in an object.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Unpack

from sightline.cameras import defaults, se3
from sightline.cameras.formats._arrays import NPY_MAGIC, npy_bytes, parse_npy
from sightline.cameras.formats._build import LensOptions, build, flip_opengl, lens_from_options
from sightline.cameras.formats._files import InputFile, json_text, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.files import write_atomic

AXES = ("opencv", "opengl")
DIRECTIONS = ("camera-to-world", "world-to-camera")
_SHAPES = {(4, 4): (4, 4), (3, 4): (3, 4), (16,): (4, 4), (12,): (3, 4)}  # of one frame: as stored, as a matrix
_SEPARATORS = re.compile(r"\s*[,;]\s*|\s+")


def read(
    file: InputFile,
    *,
    axes: Any = AXES[0],
    direction: Any = DIRECTIONS[0],
    fps: Any = defaults.FPS,
    **options: Unpack[LensOptions],
) -> Trajectory:
    """axes: of the camera, opencv (x right, y down, z forward) or opengl (x right, y up, z backward).

    direction: camera-to-world or world-to-camera.
    """
    _check_choice("axes", axes, AXES)
    _check_choice("direction", direction, DIRECTIONS)
    lens = lens_from_options(file, **options)
    lines: list[int] | None = None
    if file.data.startswith(NPY_MAGIC):
        array = parse_npy(file, file.data, "the file")
    elif file.looks_like_json:
        array = _json_array(file)
    else:
        array, lines = _text_array(file)
    poses = _as_poses(file, array)
    if direction == "world-to-camera":
        poses = se3.inverse(poses)  # the rotation is checked by build, which sees its transpose
    if axes == "opengl":
        poses = flip_opengl(poses)
    return build(file, poses, lens.intrinsics, lens.width, lens.height, lines=lines, fps=fps)


def write(trajectory: Trajectory, path: Path, *, axes: str = AXES[0], direction: str = DIRECTIONS[0]) -> None:
    """As npy, json or, with any other ending, csv."""
    _check_choice("axes", axes, AXES)
    _check_choice("direction", direction, DIRECTIONS)
    poses = trajectory.camera_to_world
    poses = flip_opengl(poses) if axes == "opengl" else poses
    poses = se3.inverse(poses) if direction == "world-to-camera" else poses
    if path.suffix.lower() == ".npy":
        write_atomic(path, npy_bytes(poses.numpy()))
    elif path.suffix.lower() == ".json":
        write_atomic(path, json_text(poses.tolist()))
    else:
        rows = "".join(",".join(map(repr, row)) + "\n" for row in poses.flatten(1).tolist())
        write_atomic(path, f"# {direction} 4x4 row by row, {axes} camera axes\n" + rows)


def sniff(file: InputFile) -> bool:
    """Not 12 numbers between spaces (kitti), nor a json list of 12 numbers per frame (motionctrl)."""
    if file.data.startswith(NPY_MAGIC):
        return True
    if file.looks_like_json:
        found = _matrix_lists(file.json)
        return len(found) == 1 and (isinstance(file.json, dict) or _shape_of(found[0][0]) != (12,))
    first = [text for _, text in file.rows[:2]]
    if file.usual_columns in (8, 12, 19) and not re.search("[,;]", "".join(first)):  # tum, kitti, re10k
        return False
    return any(len(_SEPARATORS.split(text)) in (12, 16) for text in first)


def _as_poses(file: InputFile, array: np.ndarray) -> Tensor:  # -> [T, 4, 4]
    shape = _SHAPES.get(array.shape[1:])
    if shape is None:
        raise file.error(f"found the shape {list(array.shape)}, expected [T, 4, 4], [T, 3, 4], [T, 16] or [T, 12].")
    file.check_frame_count(len(array))
    if not np.isfinite(array).all():
        raise file.error("found numbers that are not finite, expected finite numbers.")
    matrices = torch.from_numpy(np.ascontiguousarray(array.reshape(-1, *shape)))
    poses = torch.eye(4, dtype=torch.float64).repeat(len(matrices), 1, 1)
    poses[:, : shape[0]] = matrices
    if bool((poses[:, 3] - poses.new_tensor([0, 0, 0, 1])).abs().max() > 1e-6):
        # A transposed matrix has its translation there; se3.inverse would hide it.
        raise file.error(
            "found a last row that is not 0 0 0 1, expected it (a transposed matrix has the translation there)."
        )
    return poses


def _json_array(file: InputFile) -> np.ndarray:
    found = _matrix_lists(file.json)
    if len(found) != 1:
        raise file.error(f"found {len(found)} lists of matrices, expected one: 4x4, 3x4, 16 or 12 numbers per frame.")
    frames = file.frames(found[0], "the list of matrices")
    shape = _shape_of(frames[0])
    assert shape is not None  # _matrix_lists has looked at the first frame
    return np.array(
        [file.matrix(frame, f"frame {index}", *shape) for index, frame in enumerate(frames)], dtype=np.float64
    )


def _matrix_lists(document: Any) -> list[list[Any]]:
    """The lists whose first item looks like a matrix: the document itself, or the values of an object."""
    values: Sequence[Any] = list(document.values()) if isinstance(document, dict) else [document]
    return [value for value in values if isinstance(value, list) and value and _shape_of(value[0]) is not None]


def _shape_of(frame: Any) -> tuple[int, ...] | None:
    if not isinstance(frame, list):
        return None
    shape = (len(frame), len(frame[0])) if frame and isinstance(frame[0], list) else (len(frame),)
    return shape if shape in _SHAPES else None


def _text_array(file: InputFile) -> tuple[np.ndarray, list[int]]:
    """The numbers of each line, and the number of the line of each frame."""
    rows = [(line, [word for word in _SEPARATORS.split(text) if word]) for line, text in file.rows]
    if rows and all(not _is_number(word) for word in rows[0][1]):
        rows = rows[1:]  # column names
    file.check_frame_count(len(rows))
    count = len(rows[0][1])
    numbers = []
    for line, words in rows:
        if len(words) != count or count not in (12, 16):
            expected = count if count in (12, 16) else "16 or 12"
            raise file.error(f"found {len(words)} numbers, expected {expected} (a matrix row by row).", line)
        numbers.append([file.parsed(word, "a column", line) for word in words])
    return np.array(numbers, dtype=np.float64), [line for line, _ in rows]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SightlineError(f"{name} is {shown(value)}: expected {' or '.join(choices)}.")


FORMAT = Format(
    name="matrices",
    title="plain matrices: npy, csv or json",
    convention="4x4 or 3x4 row by row; camera-to-world and OpenCV axes unless the options axes and direction say otherwise",
    loses="lens, image size, time (fps), xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
    extension=".csv",
)
