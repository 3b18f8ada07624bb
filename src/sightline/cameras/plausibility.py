"""What is unlikely in a trajectory: signs that a file was read with the wrong convention. Each is a sentence, never a refusal.

The thresholds are loose: a warning should be right nearly always, since real trajectories are of many kinds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.trajectory import Trajectory

_MIN_PIXELS = 16  # a smaller picture is a sign that its size was derived from fractions
_WIDE_FOCAL, _NARROW_FOCAL = 0.05, 20.0  # focal lengths relative to the width: 169 and 2.9 degrees across
_FAR = 100.0  # units; metres in most files
_NOISE = 1e-3  # units, and relative to positions: rounding in files of few digits
_JUMP = 10.0  # times the steps before and after
_JUMP_EXTENT = 0.1  # of the extent of the path: smaller jumps are noise
_JUMP_DEGREES = 10.0
_MIN_FRAMES = 5  # shorter trajectories have no usual step
_INVERSE_GAIN = 4.0  # times longer than the path of the inverse matrices
_MIN_TURN = 10.0  # degrees; without rotation both directions look alike
_IN_FRONT = 0.5  # cosine of the angle between the viewing direction and the world's origin
_UPSIDE_DOWN = 0.7  # cosine
_CONVERGENCE = 0.01  # distance of the optical axes from a common point, relative to the distance of the cameras
_MIN_ORBIT = 15.0  # degrees
_MIN_EXTENT = 0.05  # of the radius: a camera that turns in place orbits nothing
_ROUND = 0.03  # relative difference of the distances of an orbit


def implausible(trajectory: Trajectory) -> list[str]:
    """One sentence for everything that is unlikely in this trajectory; usually none."""
    found = [*_of_lens(trajectory), *_of_distances(trajectory)]
    # A wrong direction turns the axes too, so only one of the two is reported.
    direction = _of_direction(trajectory)
    return [*found, *(direction or _of_axes(trajectory))]


def _of_lens(trajectory: Trajectory) -> list[str]:
    width, height = trajectory.width, trajectory.height
    focal, centre = trajectory.intrinsics[:, 0, 0], trajectory.intrinsics[:, :2, 2]
    found = []
    relative = float(focal.min()) / width, float(focal.max()) / width
    if min(width, height) < _MIN_PIXELS:
        found.append(
            f"the picture has {width}x{height} pixels: are the intrinsics fractions of the image instead of pixels?"
        )
    elif relative[0] < _WIDE_FOCAL and not trajectory.xi:
        found.append(
            f"the focal length is {float(focal.min()):.3g} pixels for a picture {width} wide: are the intrinsics fractions "
            "of the image instead of pixels?"
        )
    elif relative[1] > _NARROW_FOCAL:
        degrees = 2 * float(torch.atan(0.5 * width / focal.max()).rad2deg())
        found.append(
            f"the lens sees {degrees:.2g} degrees across: is its angle in radians, or are its pixels read as fractions "
            "of the image?"
        )
    outside = ((centre < 0) | (centre > centre.new_tensor([width, height]))).any(1)
    if bool(outside.any()):
        frame = int(outside.nonzero()[0, 0])
        x, y = centre[frame].tolist()
        found.append(
            f"the principal point of frame {frame} is ({x:.4g}, {y:.4g}), outside the picture of {width}x{height}."
        )
    return found


def _of_distances(trajectory: Trajectory) -> list[str]:
    positions = trajectory.positions
    extent = float((positions - positions[0]).norm(dim=-1).max())
    found = []
    if extent >= _FAR:
        found.append(
            f"the camera moves {extent:.4g} {_unit(trajectory)} from where it starts: is the file in another unit "
            "(`convert --scale`)?"
        )
    steps = positions.diff(dim=0).norm(dim=-1)
    least = max(_JUMP_EXTENT * extent, _NOISE * max(1.0, float(positions.abs().max())))
    if (frame := _isolated(steps, least)) is not None:
        found.append(
            f"the camera jumps {float(steps[frame]):.4g} {_unit(trajectory)} between frames {frame} and {frame + 1}, "
            f"{_JUMP:g} times its steps around: are these two shots?"
        )
    rotations = trajectory.rotations
    turns = se3.rotation_angle(rotations[:-1].transpose(-1, -2) @ rotations[1:]).rad2deg()
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


def _of_direction(trajectory: Trajectory) -> list[str]:
    """World-to-camera matrices read as camera-to-world: the camera swings around the world's origin without looking at it.

    Where the origin is the first camera, both readings look alike, and nothing is reported.
    """
    if _turn(trajectory) < _MIN_TURN:
        return []
    length = float(trajectory.positions.diff(dim=0).norm(dim=-1).sum())
    inverse = float(trajectory.world_to_camera[:, :3, 3].diff(dim=0).norm(dim=-1).sum())
    origin = trajectory.world_to_camera[:, :3, 3]  # where each camera sees the world's origin
    looks_at_origin = float((origin[:, 2] / origin.norm(dim=-1).clamp_min(1e-12)).mean())
    if length < _INVERSE_GAIN * max(inverse, 1e-9) or looks_at_origin > _IN_FRONT:
        return []
    return [
        f"the path is {length:.4g} {_unit(trajectory)} long and would be {inverse:.4g} with inverted matrices: are they "
        "world-to-camera (`--format matrices --direction world-to-camera`)?"
    ]


def _of_axes(trajectory: Trajectory) -> list[str]:
    """OpenGL camera axes read as OpenCV's: the camera is upside down and looks backward."""
    ask = "are its camera axes OpenGL's (`--format matrices --axes opengl`)?"
    down, forward = trajectory.rotations[:, :, 1].mean(0), trajectory.rotations[:, :, 2].mean(0)
    if float(down[2]) > _UPSIDE_DOWN:
        return [f"the cameras are upside down in a world whose z points up: {ask}"]
    if float(down[1]) < -_UPSIDE_DOWN and float(forward[2]) < -_UPSIDE_DOWN:
        return [f"the cameras are upside down and look backward, along -z: {ask}"]
    if _orbits_backward(trajectory):
        return [f"the cameras circle a point that lies behind all of them: {ask}"]
    return []


def _orbits_backward(trajectory: Trajectory) -> bool:
    """Whether the cameras stand on a circle and all look away from its centre."""
    if len(trajectory) < _MIN_FRAMES or _turn(trajectory) < _MIN_ORBIT:
        return False
    position, direction = trajectory.positions, trajectory.rotations[:, :, 2]
    across = (
        torch.eye(3, dtype=torch.float64) - direction[:, :, None] * direction[:, None]
    )  # [T, 3, 3], onto each image plane
    meeting = torch.linalg.lstsq(across.sum(0), (across @ position[:, :, None]).sum(0)).solution[:, 0]
    away = meeting - position
    depth = (away * direction).sum(-1)
    miss = (across @ away[:, :, None])[..., 0].norm(dim=-1)
    extent = float((position - position[0]).norm(dim=-1).max())
    distance = float(depth.abs().mean())
    if extent <= _NOISE * max(1.0, float(position.abs().max())):
        return False
    is_round = float(depth.max() - depth.min()) < _ROUND * distance and float(miss.max()) < _CONVERGENCE * distance
    return is_round and bool((depth < 0).all()) and extent > _MIN_EXTENT * distance


def _turn(trajectory: Trajectory) -> float:
    """Largest rotation from the first frame, in degrees."""
    rotations = trajectory.rotations
    return float(se3.rotation_angle(rotations[0].T @ rotations).max().rad2deg())


def _unit(trajectory: Trajectory) -> str:
    return {"scene": "units", "metre": "m"}.get(trajectory.unit, trajectory.unit)
