"""TUM RGB-D trajectories: `timestamp tx ty tz qx qy qz qw` per line."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from typing_extensions import Unpack

from sightline.cameras import se3
from sightline.cameras.formats._build import (
    LensOptions,
    build,
    fps_from_seconds,
    lens_from_options,
    rotations_from_quaternions,
)
from sightline.cameras.formats._files import InputFile, number_rows
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic

COLUMNS = 8
# w and z of a level camera that has turned by less than 83 degrees. Read as x and w, it is upside down.
_LEAST_W, _MOST_Z = 0.75, 0.3


def read(file: InputFile, **options: Unpack[LensOptions]) -> Trajectory:
    lens = lens_from_options(file, **options)
    file.check_frame_count(len(file.rows))
    lines = [line for line, _ in file.rows]
    numbers = torch.tensor(
        [file.numbers(line, text, COLUMNS, "timestamp tx ty tz qx qy qz qw") for line, text in file.rows],
        dtype=torch.float64,
    )  # [T, 8]
    first, last = numbers[:, 4].abs(), numbers[:, 7].abs()
    if bool((first > _LEAST_W).all() and (last < _MOST_Z).all()):
        warnings.warn(
            f"{file.path}: the first number of every quaternion is large and the last one small: is w written first? TUM's "
            "order is x y z w, in which these cameras are upside down.",
            stacklevel=2,
        )
    rotations = rotations_from_quaternions(file, numbers[:, [7, 4, 5, 6]], lines)
    return build(
        file,
        se3.from_parts(rotations, numbers[:, 1:4]),
        lens.intrinsics,
        lens.width,
        lens.height,
        lines=lines,
        fps=fps_from_seconds(numbers[:, 0].tolist()),
    )


def write(trajectory: Trajectory, path: Path) -> None:
    seconds = torch.arange(len(trajectory), dtype=torch.float64)[:, None] / trajectory.fps
    quaternions = se3.rotation_to_quaternion(trajectory.rotations)[:, [1, 2, 3, 0]]
    rows = torch.cat([seconds, trajectory.positions, quaternions], dim=1).tolist()
    write_atomic(path, "# timestamp tx ty tz qx qy qz qw\n" + number_rows(rows))


def sniff(file: InputFile) -> bool:
    return file.usual_columns == COLUMNS


FORMAT = Format(
    name="tum",
    title="TUM trajectory",
    convention="camera-to-world, OpenCV axes: timestamp in seconds, position, quaternion x y z w",
    loses="lens, image size, xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
    extension=".tum",
)
