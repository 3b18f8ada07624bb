"""ReCamMaster (MultiCamVideo) camera_extrinsics.json: {"frame0": {"cam01": "[a b c d] [..] [..] [..] "}, ...}.

Unreal Engine: row vectors, so the translation is the last row; x forward, y right, z up; centimetres. Its world is
left-handed, so absolute poses are reflections of ours and only poses relative to the first frame can be kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from typing_extensions import Unpack

from sightline.cameras import defaults
from sightline.cameras.formats._build import (
    LensOptions,
    build,
    lens_from_options,
)
from sightline.cameras.formats._files import InputFile, json_text, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic

_CENTIMETRES = 100.0
_UNREAL_COLUMNS = [1, 2, 0, 3]  # right, up, forward, position
_OPENCV_COLUMNS = [2, 0, 1, 3]  # and back
_FLIP_UP = torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64)  # up becomes down
# Unreal world (x forward, y right, z up) from a world with OpenCV axes: a reflection, as the two differ in handedness.
_WORLD = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0], [0, -1, 0, 0], [0, 0, 0, 1]], dtype=torch.float64)


def read(
    file: InputFile, *, camera: str = "cam01", fps: Any = defaults.FPS, **options: Unpack[LensOptions]
) -> Trajectory:
    """The trajectory of one camera, in metres, relative to its first frame."""
    lens = lens_from_options(file, **options)
    if not isinstance(camera, str):
        raise file.error(f"found {shown(camera)} as the option camera, expected a name such as 'cam01'.")
    document = file.json
    if not isinstance(document, dict):
        raise file.error(f"found {shown(document)}, expected an object of frames.")
    file.check_frame_count(len(document))
    for key in document:
        if not (key.startswith("frame") and key[5:].isascii() and key[5:].isdigit() and len(key) <= 12):
            raise file.error(f"found the key {shown(key)}, expected 'frame' and a number.")
    keys = sorted(document, key=lambda key: int(key[5:]))
    rows = torch.tensor(
        [_matrix(file, file.field(document[key], camera, key), f"{key} {camera}") for key in keys], dtype=torch.float64
    )  # [T, 4, 4] row vectors
    unreal = rows.transpose(1, 2)[:, :, _UNREAL_COLUMNS] * _FLIP_UP
    unreal[:, :3, 3] /= _CENTIMETRES
    # inverse(first) @ all, with the transpose for an inverse: the reflection cancels, rotations are checked by `build`.
    first = unreal[0, :3, :3].T
    relative = unreal.clone()
    relative[:, :3, :3] = first @ unreal[:, :3, :3]
    relative[:, :3, 3] = (unreal[:, :3, 3] - unreal[0, :3, 3]) @ first.T
    return build(file, relative, lens.intrinsics, lens.width, lens.height, fps=fps, unit="metre")


def write(trajectory: Trajectory, path: Path, *, camera: str = "cam01") -> None:
    unreal = _WORLD @ trajectory.anchored().camera_to_world
    unreal[:, :3, 3] *= _CENTIMETRES
    rows = (unreal * _FLIP_UP)[:, :, _OPENCV_COLUMNS].transpose(1, 2).tolist()
    frames = {
        f"frame{frame}": {camera: " ".join("[" + " ".join(map(repr, row)) + "]" for row in matrix) + " "}
        for frame, matrix in enumerate(rows)
    }
    write_atomic(path, json_text(frames))


def sniff(file: InputFile) -> bool:
    return file.looks_like_json and isinstance(file.json, dict) and isinstance(file.json.get("frame0"), dict)


def _matrix(file: InputFile, text: Any, name: str) -> list[list[float]]:
    """A 4x4 matrix from "[a b c d] [e f g h] [i j k l] [m n o p] "."""
    rows = text.replace("[", " ").split("]")[:-1] if isinstance(text, str) else []
    if [len(row.split()) for row in rows] != [4, 4, 4, 4]:
        raise file.error(f"found {shown(text)} as {name}, expected 4 rows of 4 numbers in brackets.")
    return [[file.parsed(token, name) for token in row.split()] for row in rows]


FORMAT = Format(
    name="recammaster",
    title="ReCamMaster / MultiCamVideo json",
    convention="camera-to-world in Unreal row vectors (x forward, y right, z up), centimetres; read relative, in metres",
    loses="where the first camera stands, lens, image size, time (fps), xi, near depth, unit (one unit is written as a metre)",
    read=read,
    write=write,
    sniff=sniff,
)
