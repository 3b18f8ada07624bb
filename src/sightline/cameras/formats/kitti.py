"""KITTI odometry poses: 12 numbers per line, a 3x4 matrix row by row."""

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
    with_last_row,
)
from sightline.cameras.formats._files import InputFile, number_rows
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic

COLUMNS = 12


def read(file: InputFile, *, fps: Any = defaults.FPS, **options: Unpack[LensOptions]) -> Trajectory:
    lens = lens_from_options(file, **options)
    file.check_frame_count(len(file.rows))
    numbers = torch.tensor(
        [file.numbers(line, text, COLUMNS, "a 3x4 matrix row by row") for line, text in file.rows],
        dtype=torch.float64,
    )  # [T, 12]
    return build(
        file,
        with_last_row(numbers.unflatten(1, (3, 4))),
        lens.intrinsics,
        lens.width,
        lens.height,
        lines=[line for line, _ in file.rows],
        fps=fps,
    )


def write(trajectory: Trajectory, path: Path) -> None:
    write_atomic(path, number_rows(trajectory.camera_to_world[:, :3].flatten(1).tolist()))


def sniff(file: InputFile) -> bool:
    return file.usual_columns == COLUMNS


FORMAT = Format(
    name="kitti",
    title="KITTI odometry poses",
    convention="camera-to-world 3x4 row by row, OpenCV axes",
    loses="lens, image size, time (fps), xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
    extension=".kitti",
)
