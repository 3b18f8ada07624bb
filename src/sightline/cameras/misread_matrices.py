"""Signs that the matrices of a file were read in the wrong direction or with the wrong camera axes, each a sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from sightline.cameras import motion
from sightline.cameras.trajectory import Trajectory

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


def misread_matrices(trajectory: Trajectory, axes: str | None, direction: str | None) -> list[str]:
    """axes, direction: as the user has stated them, if at all."""
    # A wrong direction turns the axes too, so only one of the two is reported.
    return _of_direction(trajectory, direction) or _of_axes(trajectory, axes)


def _of_direction(trajectory: Trajectory, stated: str | None) -> list[str]:
    """World-to-camera matrices read as camera-to-world, or the reverse: each turn of the camera swings it around the origin.

    A camera's path knows nothing of its turns. That of the inverse matrices, -R^T c, is shaken by every one of them. A
    camera that circles a subject does so too, but looks at it.
    """
    if (
        len(trajectory) < motion.MIN_FRAMES
        or motion.largest_turn(trajectory) < _MIN_TURN
        or not motion.is_moving(trajectory)
    ):
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
    length, other = (float(motion.differences(one, 1).sum()) for one in (trajectory, inverse))
    is_far = float(trajectory.positions[0].norm()) > _FAR_ORIGIN * length
    return is_far and length > _INVERSE_GAIN * other and motion.largest_turn(trajectory) > _MIN_SWEEP


def _is_shaken(trajectory: Trajectory, inverse: Trajectory) -> bool:
    """The path of a filmed camera is rougher than that of the inverse matrices, and its accelerations follow the rotation."""
    if len(trajectory) < _MIN_SWING_FRAMES:
        return False
    second, third = (float(motion.differences(trajectory, order).median()) for order in (2, 3))
    if third < _FILMED * second:
        return False
    least_gain, least_swing = _WEAK if _forward(trajectory) < _BACKWARD else _STRONG
    is_rougher = float(motion.differences(trajectory, 2).sum()) > least_gain * float(
        motion.differences(inverse, 2).sum()
    )
    return is_rougher and _swing(trajectory) > least_swing and _swing(inverse) < _STEADY


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
        if float(down[1]) < -_CLEARLY_UPSIDE_DOWN and motion.is_moving(trajectory) and _forward(trajectory) < _BACKWARD:
            return [f"the cameras are upside down and move backward: {ask}"]
    if _orbits_backward(trajectory):
        return [f"the cameras circle a point that lies behind all of them: {ask}"]
    return []


def _orbits_backward(trajectory: Trajectory) -> bool:
    """Whether the cameras stand on a circle and all look away from its centre."""
    if (
        len(trajectory) < motion.MIN_FRAMES
        or motion.largest_turn(trajectory) < _MIN_ORBIT
        or not motion.is_moving(trajectory)
    ):
        return False
    depth = _depth_of_meeting(trajectory)
    if depth is None or bool((depth >= 0).any()):
        return False
    distance = float(depth.abs().mean())
    return float(depth.max() - depth.min()) < _ROUND * distance and motion.extent(trajectory) > _MIN_EXTENT * distance


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
