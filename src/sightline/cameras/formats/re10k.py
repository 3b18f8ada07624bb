"""RealEstate10K and CameraCtrl text files: a URL (any text will do), then one line of 19 numbers per frame."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.formats._build import build, fps_from_seconds, warn_distortion, with_last_row
from sightline.cameras.formats._files import InputFile, number_rows
from sightline.cameras.formats._format import Format
from sightline.cameras.lens import intrinsics_matrix
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic

COLUMNS = 19
_MEANING = "timestamp, 4 intrinsics, 2 zeros, 3x4 pose"
# The format has no image size, so we write it into the line that others fill with the URL of the video.
_ADDRESS = "https://example.com/sightline?width={width}&height={height}"
_OUR_SIZE = re.compile(r"example\.com/sightline\?width=(\d{1,7})&height=(\d{1,7})$")
_SOURCE_SIZE = (1280, 720)
_MICROSECONDS = 1_000_000


def read(file: InputFile, *, width: Any = None, height: Any = None) -> Trajectory:
    """The file's intrinsics are fractions of the image; without options 1280x720 stands for the 16:9 source.

    A file that we wrote names its size in the first line.
    """
    stated_by_us = _OUR_SIZE.search(file.rows[0][1]) if file.rows else None
    stated = stated_by_us.groups() if stated_by_us else _SOURCE_SIZE
    columns = file.whole_number(int(stated[0]) if width is None else width, "the option width")
    rows_px = file.whole_number(int(stated[1]) if height is None else height, "the option height")
    lines = [line for line, _ in _frame_rows(file)]
    numbers = _numbers(file)
    if bool((numbers[:, 5:7] != 0).any()):
        warn_distortion(file)
    size = numbers.new_tensor([columns, rows_px, columns, rows_px])
    return build(
        file,
        se3.inverse(with_last_row(numbers[:, 7:].unflatten(1, (3, 4)))),
        intrinsics_matrix(*(numbers[:, 1:5] * size).unbind(1)),
        columns,
        rows_px,
        lines=lines,
        fps=fps_from_seconds((numbers[:, 0] / _MICROSECONDS).tolist()),
    )


def timestamps(file: InputFile) -> list[int]:
    """Microseconds of each frame, which also name the picture files of a downloaded clip."""
    return [int(stamp) for stamp in _numbers(file)[:, 0].tolist()]


def write(trajectory: Trajectory, path: Path) -> None:
    lens = trajectory.intrinsics
    fractions = torch.stack(
        [
            lens[:, 0, 0] / trajectory.width,
            lens[:, 1, 1] / trajectory.height,
            lens[:, 0, 2] / trajectory.width,
            lens[:, 1, 2] / trajectory.height,
        ],
        dim=1,
    )  # [T, 4]
    poses = trajectory.world_to_camera[:, :3].flatten(1)  # [T, 12]
    rows = [
        [round(frame * _MICROSECONDS / trajectory.fps), *fractions[frame].tolist(), 0.0, 0.0, *poses[frame].tolist()]
        for frame in range(len(trajectory))
    ]
    address = _ADDRESS.format(width=trajectory.width, height=trajectory.height)
    write_atomic(path, address + "\n" + number_rows(rows))


def _frame_rows(file: InputFile) -> list[tuple[int, str]]:
    """(line number, text) of every frame: all rows but the URL."""
    has_url = bool(file.rows) and len(file.rows[0][1].split()) != COLUMNS
    rows = file.rows[has_url:]
    file.check_frame_count(len(rows))
    return rows


def _numbers(file: InputFile) -> Tensor:  # -> [T, 19]
    rows = [file.numbers(line, text, COLUMNS, _MEANING) for line, text in _frame_rows(file)]
    return torch.tensor(rows, dtype=torch.float64)


def sniff(file: InputFile) -> bool:
    return file.usual_columns == COLUMNS or (bool(file.rows) and file.rows[0][1].startswith(("http://", "https://")))


FORMAT = Format(
    name="re10k",
    title="RealEstate10K / CameraCtrl txt",
    convention="world-to-camera 3x4 row by row, OpenCV axes; intrinsics as fractions of the image; microseconds",
    loses="image size (other readers do not look for it), xi, unit, near depth; fps to the microsecond of a frame's duration",
    read=read,
    write=write,
    sniff=sniff,
)
