"""What is unlikely in a trajectory: signs that a file was read with the wrong convention. Each is a sentence, never a refusal.

The thresholds are loose: a warning should be right nearly always, since real trajectories are of many kinds. Where geometry
cannot tell two readings apart, nothing is said (docs/formats.md).
"""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor

from sightline.cameras import motion
from sightline.cameras.lens import FULL_FRAME_MM
from sightline.cameras.misread_matrices import misread_matrices
from sightline.cameras.trajectory import Trajectory
from sightline.checks import plain_number

_PLAIN = ("matrices", "kitti", "motionctrl")  # files that the reader of plain matrices can read
_ADVICE = re.compile(r" \(`--format matrices [^)]*\)\?$")
_MIN_PIXELS = 16  # a smaller picture is a sign that its size was derived from fractions
_WIDE_FOCAL, _NARROW_FOCAL = 0.05, 20.0  # focal lengths relative to the width: 169 and 2.9 degrees across
_SQUARE = 1.5  # largest ratio of the focal lengths in pixels: anamorphic and stretched pictures stay below
_SLOWEST, _FASTEST = 0.05, 1000.0  # frames per second: keyframes 20 s apart, high-speed cameras
_FAR = 100.0  # units; metres in most files
_JUMP = 10.0  # times the steps before and after
_JUMP_EXTENT = 0.1  # of the extent of the path: smaller jumps are noise
_JUMP_DEGREES = 10.0
_FASTEST_TURN = 30.0  # degrees from one frame to the next: half a wide picture


def implausible(
    trajectory: Trajectory, axes: str | None = None, direction: str | None = None, format: str = "matrices"
) -> list[str]:
    """One sentence for everything that is unlikely in a trajectory read from a file; usually none.

    axes, direction: what the user has said of the file's matrices, if anything. format: of the file. Where it cannot be read as
    plain matrices, whose reader has these options, they are not advised.
    """
    found = [*_of_lens(trajectory), *_of_distances(trajectory), *_of_time(trajectory)]
    of_matrices = misread_matrices(trajectory, axes, direction)
    if format not in _PLAIN:
        of_matrices = [_ADVICE.sub("?", sentence) for sentence in of_matrices]
    return [*found, *of_matrices]


def implausible_moves(trajectory: Trajectory) -> list[str]:
    """One sentence for an amount that is unlikely in a trajectory made from moves; usually none."""
    extent, narrow = motion.extent(trajectory), _narrowest(trajectory)
    found = []
    if extent >= _FAR:
        found.append(
            f"the camera moves {plain_number(extent)} {_unit(trajectory)} from where it starts: expected less than {_FAR:g}, the "
            "extent of a large scene."
        )
    if len(trajectory) > 1 and (turn := float(motion.turns(trajectory).max())) > _FASTEST_TURN:
        found.append(
            f"the camera turns {turn:.4g} degrees from one frame to the next: expected at most {_FASTEST_TURN:g}, since such "
            "frames have little in common."
        )
    if narrow is not None:
        longest = _NARROW_FOCAL * FULL_FRAME_MM
        found.append(f"the lens sees {narrow:.2g} degrees across: expected a focal length of less than {longest:g} mm.")
    return found


def _of_lens(trajectory: Trajectory) -> list[str]:
    width, height = trajectory.width, trajectory.height
    focal, centre = trajectory.intrinsics[:, 0, 0], trajectory.intrinsics[:, :2, 2]
    found = []
    if min(width, height) < _MIN_PIXELS:
        found.append(
            f"the picture has {width}x{height} pixels: are the intrinsics fractions of the image instead of pixels?"
        )
    elif float(focal.min()) < _WIDE_FOCAL * width and not trajectory.xi:
        found.append(
            f"the focal length is {float(focal.min()):.3g} pixels for a picture {width} wide: are the intrinsics fractions "
            "of the image instead of pixels?"
        )
    elif (narrow := _narrowest(trajectory)) is not None:
        found.append(
            f"the lens sees {narrow:.2g} degrees across: is its angle in radians, or are its pixels read as fractions "
            "of the image?"
        )
    ratio = trajectory.intrinsics[:, 1, 1] / focal
    if not found and float(torch.maximum(ratio, 1 / ratio).max()) > _SQUARE:
        found.append(
            f"its pixels are {float(ratio[0]):.3g} times as wide as high: are width and height, {width}x{height}, those of the "
            "picture, and the focal lengths in their order?"
        )
    at_edge = ((centre <= 0) | (centre >= centre.new_tensor([width, height]))).any(1)
    if bool(at_edge.any()):
        frame = int(at_edge.nonzero()[0, 0])
        x, y = centre[frame].tolist()
        where = "outside" if min(x, y) < 0 or x > width or y > height else "at the edge of"
        found.append(
            f"the principal point of frame {frame} is ({x:.4g}, {y:.4g}), {where} the picture of {width}x{height}."
        )
    return found


def _of_time(trajectory: Trajectory) -> list[str]:
    if len(trajectory) == 1 or _SLOWEST <= trajectory.fps <= _FASTEST:
        return []
    return [f"it has {trajectory.fps:.4g} frames per second: are its times in another unit?"]


def _of_distances(trajectory: Trajectory) -> list[str]:
    positions, extent = trajectory.positions, motion.extent(trajectory)
    found = []
    if extent >= _FAR:
        found.append(
            f"the camera moves {plain_number(extent)} {_unit(trajectory)} from where it starts: is the file in another unit "
            "(`convert --scale`)?"
        )
    steps = motion.differences(trajectory, 1)
    least = max(_JUMP_EXTENT * extent, motion.NOISE * max(1.0, float(positions.abs().max())))
    if (frame := _isolated(steps, least)) is not None:
        found.append(
            f"the camera jumps {plain_number(float(steps[frame]))} {_unit(trajectory)} between frames {frame} and {frame + 1}, "
            f"{_JUMP:g} times its steps around: are these two shots?"
        )
    turns = motion.turns(trajectory)
    if (frame := _isolated(turns, _JUMP_DEGREES)) is not None:
        found.append(
            f"the camera turns {float(turns[frame]):.4g} degrees between frames {frame} and {frame + 1}, {_JUMP:g} times its "
            "turns around: are these two shots, or angles in another unit?"
        )
    return found


def _isolated(steps: Tensor, least: float) -> int | None:  # [T - 1]
    """The first step that is far larger than those before and after it, and larger than `least`."""
    if len(steps) < motion.MIN_FRAMES - 1:
        return None
    around = torch.nn.functional.pad(steps[None], (1, 1))[0]
    largest = torch.maximum(around[:-2], around[2:])
    frames = ((steps > _JUMP * largest) & (steps > least)).nonzero()
    return int(frames[0, 0]) if len(frames) else None


def _narrowest(trajectory: Trajectory) -> float | None:
    """The narrowest field of view across the picture, in degrees, where a lens is implausibly long."""
    focal = float(trajectory.intrinsics[:, 0, 0].max()) / trajectory.width
    return 2 * math.degrees(math.atan(0.5 / focal)) if focal > _NARROW_FOCAL else None


def _unit(trajectory: Trajectory) -> str:
    return {"scene": "units", "arbitrary": "units", "metre": "m"}.get(trajectory.unit, trajectory.unit)
