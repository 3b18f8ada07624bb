"""MotionCtrl camera poses: a JSON list of 12 numbers per frame.

MotionCtrl's RT is world-to-camera with OpenCV axes: its own "zoom in" has t = (0, 0, -4), "pan left" t = (3, 0, 0), and
it makes poses relative as RT_i inverse(RT_0). The first frame is the identity. Its sampler stretches translations by
(1.5, 1, 1.3) afterwards; files hold them unstretched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from typing_extensions import Unpack

from sightline.cameras import defaults, se3
from sightline.cameras.formats._build import (
    LensOptions,
    build,
    lens_from_options,
    with_last_row,
)
from sightline.cameras.formats._files import InputFile, json_text
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic


def read(file: InputFile, *, fps: Any = defaults.FPS, **options: Unpack[LensOptions]) -> Trajectory:
    lens = lens_from_options(file, **options)
    frames = file.frames(file.json, "the file")
    numbers = torch.tensor(
        [file.matrix(pose, f"frame {frame}", 12) for frame, pose in enumerate(frames)], dtype=torch.float64
    )  # [T, 12]
    camera_to_world = se3.inverse(with_last_row(numbers.unflatten(1, (3, 4))))
    return build(file, camera_to_world, lens.intrinsics, lens.width, lens.height, fps=fps)


def write(trajectory: Trajectory, path: Path) -> None:
    poses = trajectory.anchored().world_to_camera[:, :3].flatten(1)  # [T, 12]
    write_atomic(path, json_text(poses.tolist()))


def sniff(file: InputFile) -> bool:
    return (
        file.looks_like_json
        and isinstance(file.json, list)
        and bool(file.json)
        and isinstance(file.json[0], list)
        and len(file.json[0]) == 12
    )


FORMAT = Format(
    name="motionctrl",
    title="MotionCtrl json",
    convention="world-to-camera 3x4 row by row, OpenCV axes, relative to the first frame",
    loses="where the first camera stands, lens, image size, time (fps), xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
)
