"""From the numbers in a file to a Trajectory: options for what a format does not carry, quaternions, frame rates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

from sightline.cameras import defaults, se3
from sightline.cameras.formats._files import InputFile, shown
from sightline.cameras.lens import intrinsics_from_mm
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

_QUATERNION_TOLERANCE = 1e-2  # files print few digits; further from unit length the columns are something else


def build(
    file: InputFile,
    camera_to_world: Tensor,  # [T, 4, 4]
    intrinsics: Tensor,  # [T, 3, 3] or [3, 3]
    width: int,
    height: int,
    lines: Sequence[int] | None = None,
    **fields: Any,
) -> Trajectory:
    """A Trajectory. Its errors get the name of the file and, where `lines` maps frames to lines, the line."""
    file.check_frame_count(len(camera_to_world))
    try:
        return Trajectory(camera_to_world, intrinsics, width, height, **fields)
    except SightlineError as error:
        line = None if lines is None or error.frame is None else lines[error.frame]
        raise file.error(str(error), line) from None


@dataclass(frozen=True)
class Lens:
    """Intrinsics in pixels, and the size of the image they are for."""

    intrinsics: Tensor  # [3, 3] or [T, 3, 3]
    width: int
    height: int


class LensOptions(TypedDict, total=False):
    """Options of the readers whose format carries no lens.

    width, height: of the image in pixels, 832x480 by default.
    focal_mm: focal length on a sensor 36 mm wide, 28 by default. intrinsics: in pixels, [3, 3] or [T, 3, 3], instead.
    """

    width: Any
    height: Any
    focal_mm: Any
    intrinsics: Any


def lens_from_options(
    file: InputFile,
    width: Any = defaults.WIDTH,
    height: Any = defaults.HEIGHT,
    focal_mm: Any = None,
    intrinsics: Any = None,
) -> Lens:
    """The lens that `LensOptions` describe, each option checked."""
    columns, rows = file.whole_number(width, "the option width"), file.whole_number(height, "the option height")
    if intrinsics is not None:
        if focal_mm is not None:
            raise file.error("found both options focal_mm and intrinsics, expected at most one.")
        try:
            return Lens(torch.as_tensor(intrinsics, dtype=torch.float64), columns, rows)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise file.error(
                f"found {shown(intrinsics)} as the option intrinsics, expected [3, 3] or [T, 3, 3] numbers."
            ) from None
    focal = positive(file, defaults.FOCAL_MM if focal_mm is None else focal_mm, "the option focal_mm")
    return Lens(intrinsics_from_mm(torch.tensor(focal, dtype=torch.float64), columns, rows), columns, rows)


def positive(file: InputFile, value: Any, name: str, line: int | None = None) -> float:
    number = file.number(value, name, line)
    if number <= 0:
        raise file.error(f"found {shown(value)} as {name}, expected a number above 0.", line)
    return number


def image_size(
    file: InputFile,
    stated: tuple[Any, Any],  # (width, height) as the file states them, None where it does not
    options: tuple[Any, Any],
    centre: tuple[float | None, float | None],  # principal point of the first frame, pixels
) -> tuple[int, int]:
    """(width, height): from the file, else from the options, else twice the principal point."""
    sizes = []
    for name, in_file, option, middle in zip(("width", "height"), stated, options, centre, strict=True):
        requested = None if option is None else file.whole_number(option, f"the option {name}")
        if in_file is not None:
            size = file.whole_number(in_file, f"the {name}")
            if requested not in (None, size):
                raise file.error(
                    f"states the {name} {size} and the option says {requested}, expected the option to be left out "
                    f"(Trajectory.resized changes the size)."
                )
        elif requested is not None:
            size = requested
        elif middle is not None:
            stand_in = f"twice the principal point, standing in for the {name},"
            size = file.whole_number(round(file.number(2 * middle, stand_in)), stand_in)
        else:
            raise file.error(f"found no image {name}, expected the option {name}.")
        sizes.append(size)
    return sizes[0], sizes[1]


def rotations_from_quaternions(
    file: InputFile,
    quaternions: Tensor,  # [T, 4] (w, x, y, z)
    lines: Sequence[int] | None = None,
) -> Tensor:  # [T, 3, 3]
    norms = quaternions.norm(dim=-1)
    bad = ~((norms - 1).abs() <= _QUATERNION_TOLERANCE)
    if bad.any():
        frame = int(bad.nonzero()[0, 0])
        raise file.error(
            f"found a quaternion of length {float(norms[frame]):.4g} in frame {frame}, expected length 1.",
            None if lines is None else lines[frame],
        )
    return se3.quaternion_to_rotation(quaternions)


def with_last_row(top: Tensor) -> Tensor:  # [..., 3, 4] -> [..., 4, 4]
    return se3.from_parts(top[..., :3], top[..., 3])


def flip_opengl(camera_to_world: Tensor) -> Tensor:  # [..., 4, 4] -> [..., 4, 4]
    """OpenGL camera axes (x right, y up, z backward) to OpenCV's and back: columns 1 and 2 change sign."""
    return camera_to_world * camera_to_world.new_tensor([1.0, -1.0, -1.0, 1.0])


def fps_from_seconds(seconds: Sequence[float]) -> float:
    """One over the median spacing, or the default where the timestamps do not advance or there is only one."""
    times = torch.tensor(seconds, dtype=torch.float64)
    spacing = float(times.diff().quantile(0.5)) if 1 < len(times) < 2**24 else 0.0
    fps = 1.0 / spacing if spacing > 0 else 0.0
    return fps if 0 < fps < math.inf else defaults.FPS


def constant_lens(trajectory: Trajectory) -> bool:
    return bool((trajectory.intrinsics == trajectory.intrinsics[0]).all())


def warn_distortion(file: InputFile) -> None:
    warnings.warn(f"{file.path}: lens distortion is ignored; the pinhole part is kept.", stacklevel=2)


def warn_square_pixels(trajectory: Trajectory, path: Path, written: str) -> None:
    """Warn that a format with one focal length per frame loses the other one, where the two differ."""
    fx, fy = trajectory.intrinsics[:, 0, 0], trajectory.intrinsics[:, 1, 1]
    if bool(((fx / fy - 1).abs() > 1e-6).any()):
        warnings.warn(f"{path}: the format has square pixels only; {written} is written.", stacklevel=2)
