"""What is unlikely in a trajectory: signs that a file was read with the wrong convention. Each is a sentence, never a refusal.

The thresholds are loose: a warning should be right nearly always, since real trajectories are of many kinds. Where geometry
cannot tell two readings apart, nothing is said (docs/formats.md).
"""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.lens import FULL_FRAME_MM
from sightline.cameras.trajectory import Trajectory
from sightline.checks import plain_number

_PLAIN = ("matrices", "kitti", "motionctrl")  # files that the reader of plain matrices can read
_ADVICE = re.compile(r" \(`--format matrices [^)]*\)\?$")
_MIN_PIXELS = 16  # a smaller picture is a sign that its size was derived from fractions
_WIDE_FOCAL, _NARROW_FOCAL = 0.05, 20.0  # focal lengths relative to the width: 169 and 2.9 degrees across
_SQUARE = 1.5  # largest ratio of the focal lengths in pixels: anamorphic and stretched pictures stay below
_SLOWEST, _FASTEST = 0.05, 1000.0  # frames per second: keyframes 20 s apart, high-speed cameras
_FAR = 100.0  # units; metres in most files
_NOISE = 1e-3  # units, and relative to positions: rounding in files of few digits
_JUMP = 10.0  # times the steps before and after
_JUMP_EXTENT = 0.1  # of the extent of the path: smaller jumps are noise
_JUMP_DEGREES = 10.0
_FASTEST_TURN = 30.0  # degrees from one frame to the next: half a wide picture
_MIN_FRAMES = 5  # shorter trajectories have no usual step
_MIN_SWING_FRAMES = 8  # fewer accelerations correlate by accident
_MIN_TURN, _MIN_SWEEP = 5.0, 10.0  # degrees; without rotation both directions look alike
_STRONG, _WEAK = (1.5, 0.65), (1.15, 0.55)  # roughness relative to the inverse matrices, correlation with the rotation
_FILMED = 0.5  # median third difference of positions over the second: computed paths are smoother
_INVERSE_GAIN = 4.0  # times longer than the path of the inverse matrices
_FAR_ORIGIN = 0.1  # distance of the first camera from the origin, relative to that path
_STEADY = 0.5  # correlation of the inverse matrices: a higher one says that both swing
_IN_FRONT = 0.5  # cosine of the angle between the viewing direction and the world's origin
_ACROSS = 0.3  # fraction of the path along the viewing direction: less circles what is in front
_BACKWARD = -0.4  # the same
_UPSIDE_DOWN, _CLEARLY_UPSIDE_DOWN = 0.7, 0.9  # cosines
_CONVERGENCE = 0.01  # distance of the optical axes from a common point, relative to the distance of the cameras
_MIN_ORBIT = 15.0  # degrees
_MIN_EXTENT = 0.05  # of the radius: a camera that turns in place orbits nothing
_ROUND = 0.03  # relative difference of the distances of an orbit


def implausible(
    trajectory: Trajectory, axes: str | None = None, direction: str | None = None, format: str = "matrices"
) -> list[str]:
    """One sentence for everything that is unlikely in a trajectory read from a file; usually none.

    axes, direction: what the user has said of the file's matrices, if anything. format: of the file. Where it cannot be read as
    plain matrices, whose reader has these options, they are not advised.
    """
    found = [*_of_lens(trajectory), *_of_distances(trajectory), *_of_time(trajectory)]
    # A wrong direction turns the axes too, so only one of the two is reported.
    of_matrices = _of_direction(trajectory, direction) or _of_axes(trajectory, axes)
    if format not in _PLAIN:
        of_matrices = [_ADVICE.sub("?", sentence) for sentence in of_matrices]
    return [*found, *of_matrices]


def implausible_moves(trajectory: Trajectory) -> list[str]:
    """One sentence for an amount that is unlikely in a trajectory made from moves; usually none."""
    extent, narrow = _extent(trajectory), _narrowest(trajectory)
    found = []
    if extent >= _FAR:
        found.append(
            f"the camera moves {plain_number(extent)} {_unit(trajectory)} from where it starts: expected less than {_FAR:g}, the "
            "extent of a large scene."
        )
    if len(trajectory) > 1 and (turn := float(_turns(trajectory).max())) > _FASTEST_TURN:
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
    positions, extent = trajectory.positions, _extent(trajectory)
    found = []
    if extent >= _FAR:
        found.append(
            f"the camera moves {plain_number(extent)} {_unit(trajectory)} from where it starts: is the file in another unit "
            "(`convert --scale`)?"
        )
    steps = _differences(trajectory, 1)
    least = max(_JUMP_EXTENT * extent, _NOISE * max(1.0, float(positions.abs().max())))
    if (frame := _isolated(steps, least)) is not None:
        found.append(
            f"the camera jumps {plain_number(float(steps[frame]))} {_unit(trajectory)} between frames {frame} and {frame + 1}, "
            f"{_JUMP:g} times its steps around: are these two shots?"
        )
    turns = _turns(trajectory)
    if (frame := _isolated(turns, _JUMP_DEGREES)) is not None:
        found.append(
            f"the camera turns {float(turns[frame]):.4g} degrees between frames {frame} and {frame + 1}, {_JUMP:g} times its "
            "turns around: are these two shots, or angles in another unit?"
        )
    return found


def _isolated(steps: Tensor, least: float) -> int | None:  # [T - 1]
    """The first step that is far larger than those before and after it, and larger than `least`."""
    if len(steps) < _MIN_FRAMES - 1:
        return None
    around = torch.nn.functional.pad(steps[None], (1, 1))[0]
    largest = torch.maximum(around[:-2], around[2:])
    frames = ((steps > _JUMP * largest) & (steps > least)).nonzero()
    return int(frames[0, 0]) if len(frames) else None


def _of_direction(trajectory: Trajectory, stated: str | None) -> list[str]:
    """World-to-camera matrices read as camera-to-world, or the reverse: each turn of the camera swings it around the origin.

    A camera's path knows nothing of its turns. That of the inverse matrices, -R^T c, is shaken by every one of them. A
    camera that circles a subject does so too, but looks at it.
    """
    if len(trajectory) < _MIN_FRAMES or _turn(trajectory) < _MIN_TURN or not _moves(trajectory):
        return []
    inverse = trajectory.replace(camera_to_world=trajectory.world_to_camera)
    origin = inverse.positions  # where each camera sees the world's origin
    looks_at_origin = float((origin[:, 2] / origin.norm(dim=-1).clamp_min(1e-12)).mean()) > _IN_FRONT
    circles = (looks_at_origin and abs(_forward(trajectory)) < _ACROSS) or _depth_of_meeting(trajectory) is not None
    if circles or not (_is_far_longer(trajectory, inverse) or _is_shaken(trajectory, inverse)):
        return []
    other = "camera-to-world" if stated == "world-to-camera" else "world-to-camera"
    return [
        f"the path swings with each turn of the camera, and would be smoother with inverted matrices: are they {other} "
        f"(`--format matrices --direction {other}`)?"
    ]


def _is_far_longer(trajectory: Trajectory, inverse: Trajectory) -> bool:
    """A world whose origin is far away: turns sweep the camera through it."""
    length, other = (float(_differences(one, 1).sum()) for one in (trajectory, inverse))
    is_far = float(trajectory.positions[0].norm()) > _FAR_ORIGIN * length
    return is_far and length > _INVERSE_GAIN * other and _turn(trajectory) > _MIN_SWEEP


def _is_shaken(trajectory: Trajectory, inverse: Trajectory) -> bool:
    """The path of a filmed camera is rougher than that of the inverse matrices, and its accelerations follow the rotation."""
    if len(trajectory) < _MIN_SWING_FRAMES:
        return False
    second, third = (float(_differences(trajectory, order).median()) for order in (2, 3))
    if third < _FILMED * second:
        return False
    least_gain, least_swing = _WEAK if _forward(trajectory) < _BACKWARD else _STRONG
    is_rougher = float(_differences(trajectory, 2).sum()) > least_gain * float(_differences(inverse, 2).sum())
    return is_rougher and _swing(trajectory) > least_swing and _swing(inverse) < _STEADY


def _differences(trajectory: Trajectory, order: int) -> Tensor:  # -> [T - order]
    """Lengths of the repeated differences of positions: steps, accelerations, and their changes."""
    return trajectory.positions.diff(n=order, dim=0).norm(dim=-1)


def _swing(trajectory: Trajectory) -> float:
    """Correlation of the camera's accelerations with those of a point that turns with it around the origin."""
    positions, rotations = trajectory.positions, trajectory.rotations
    steps = positions.diff(dim=0)  # [T - 1, 3]
    turned = (rotations[1:] @ rotations[:-1].transpose(-1, -2) @ positions[:-1, :, None])[..., 0]
    a, b = steps.diff(dim=0), (turned - positions[:-1]).diff(dim=0)
    return float((a * b).sum() / (a.norm() * b.norm()).clamp_min(1e-18))


def _forward(trajectory: Trajectory) -> float:
    """The part of the path that leads along the viewing direction: 1 straight ahead, -1 straight back."""
    steps = trajectory.positions.diff(dim=0)
    direction = (trajectory.rotations[:-1, :, 2] + trajectory.rotations[1:, :, 2]) / 2
    return float((steps * direction).sum() / steps.norm(dim=-1).sum().clamp_min(1e-18))


def _of_axes(trajectory: Trajectory, stated: str | None) -> list[str]:
    """OpenGL camera axes read as OpenCV's: the camera is upside down and looks backward."""
    other, name = ("opencv", "OpenCV") if stated == "opengl" else ("opengl", "OpenGL")
    ask = f"are its camera axes {name}'s (`--format matrices --axes {other}`)?"
    down, forward = trajectory.rotations[:, :, 1].mean(0), trajectory.rotations[:, :, 2].mean(0)
    if float(down[2]) > _UPSIDE_DOWN:
        return [f"the cameras are upside down in a world whose z points up: {ask}"]
    if stated != "opengl":  # whose worlds have y up, where these cameras stand upright
        if float(down[1]) < -_UPSIDE_DOWN and float(forward[2]) < -_UPSIDE_DOWN:
            return [f"the cameras are upside down and look backward, along -z: {ask}"]
        if float(down[1]) < -_CLEARLY_UPSIDE_DOWN and _moves(trajectory) and _forward(trajectory) < _BACKWARD:
            return [f"the cameras are upside down and move backward: {ask}"]
    if _orbits_backward(trajectory):
        return [f"the cameras circle a point that lies behind all of them: {ask}"]
    return []


def _orbits_backward(trajectory: Trajectory) -> bool:
    """Whether the cameras stand on a circle and all look away from its centre."""
    if len(trajectory) < _MIN_FRAMES or _turn(trajectory) < _MIN_ORBIT or not _moves(trajectory):
        return False
    depth = _depth_of_meeting(trajectory)
    if depth is None or bool((depth >= 0).any()):
        return False
    distance = float(depth.abs().mean())
    return float(depth.max() - depth.min()) < _ROUND * distance and _extent(trajectory) > _MIN_EXTENT * distance


def _depth_of_meeting(trajectory: Trajectory) -> Tensor | None:  # -> [T]
    """How far in front of each camera lies the point in which their viewing directions meet; None where they do not."""
    position, direction = trajectory.positions, trajectory.rotations[:, :, 2]
    across = (
        torch.eye(3, dtype=torch.float64) - direction[:, :, None] * direction[:, None]
    )  # [T, 3, 3], onto each image plane
    meeting = torch.linalg.lstsq(across.sum(0), (across @ position[:, :, None]).sum(0)).solution[:, 0]
    away = meeting - position
    depth = (away * direction).sum(-1)
    miss = (across @ away[:, :, None])[..., 0].norm(dim=-1)
    return depth if float(miss.max()) < _CONVERGENCE * float(depth.abs().mean()) else None


def _extent(trajectory: Trajectory) -> float:
    """Largest distance from the first camera."""
    return float((trajectory.positions - trajectory.positions[0]).norm(dim=-1).max())


def _moves(trajectory: Trajectory) -> bool:
    return _extent(trajectory) > _NOISE * max(1.0, float(trajectory.positions.abs().max()))


def _narrowest(trajectory: Trajectory) -> float | None:
    """The narrowest field of view across the picture, in degrees, where a lens is implausibly long."""
    focal = float(trajectory.intrinsics[:, 0, 0].max()) / trajectory.width
    return 2 * math.degrees(math.atan(0.5 / focal)) if focal > _NARROW_FOCAL else None


def _turns(trajectory: Trajectory) -> Tensor:  # -> [T - 1]
    """Rotation from each frame to the next, in degrees."""
    rotations = trajectory.rotations
    return se3.rotation_angle(rotations[:-1].transpose(-1, -2) @ rotations[1:]).rad2deg()


def _turn(trajectory: Trajectory) -> float:
    """Largest rotation from the first frame, in degrees."""
    rotations = trajectory.rotations
    return float(se3.rotation_angle(rotations[0].T @ rotations).max().rad2deg())


def _unit(trajectory: Trajectory) -> str:
    return {"scene": "units", "arbitrary": "units", "metre": "m"}.get(trajectory.unit, trajectory.unit)
