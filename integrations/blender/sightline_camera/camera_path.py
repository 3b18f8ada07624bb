"""A camera path as plain Python numbers, in sightline's conventions, and its checks."""

from __future__ import annotations

import math
from dataclasses import dataclass

Matrix = list[list[float]]

ROTATION_TOLERANCE = 1e-3  # largest |R^T R - I| that is read as a rotation written with few digits


class CameraPathError(ValueError):
    """What is wrong with a path, a file or a scene, in one sentence."""


@dataclass(frozen=True)
class CameraPath:
    """Poses and lenses of T frames.

    camera_to_world: T matrices 4x4, OpenCV camera axes (x right, y down, z forward).
    intrinsics: T matrices [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] in pixels; the first pixel's centre is (0.5, 0.5).
    unit: "metre", or another word where the unit of translation is not known to be one.
    """

    camera_to_world: list[Matrix]
    intrinsics: list[Matrix]
    width: int
    height: int
    fps: float
    unit: str = "scene"
    near_depth: float | None = None

    def __post_init__(self) -> None:
        if len(self.camera_to_world) != len(self.intrinsics) or not self.camera_to_world:
            raise CameraPathError(
                f"the path has {len(self.camera_to_world)} poses and {len(self.intrinsics)} lenses: "
                f"expected as many of each, at least one."
            )
        for frame, (pose, lens) in enumerate(zip(self.camera_to_world, self.intrinsics, strict=True)):
            check_pose(pose, frame)
            check_lens(lens, frame)
        if not (math.isfinite(self.fps) and self.fps > 0):
            raise CameraPathError(f"fps is {self.fps}: expected a number above 0.")


def check_pose(pose: Matrix, frame: int) -> None:
    columns = [[pose[row][column] for row in range(3)] for column in range(3)]
    error = max(abs(_dot(columns[i], columns[j]) - (i == j)) for i in range(3) for j in range(3))
    if not error <= ROTATION_TOLERANCE or _determinant(columns) < 0:
        raise CameraPathError(
            f"camera_to_world of frame {frame} is not a rigid motion (|R^T R - I| = {error:.2g}): "
            f"expected a rotation within {ROTATION_TOLERANCE:g}."
        )
    if max(abs(value - expected) for value, expected in zip(pose[3], (0, 0, 0, 1), strict=True)) > 1e-6:
        raise CameraPathError(f"camera_to_world of frame {frame} has the last row {pose[3]}: expected 0 0 0 1.")


def check_lens(lens: Matrix, frame: int) -> None:
    (fx, skew, _), (zero, fy, _), last = lens
    if fx <= 0 or fy <= 0:
        raise CameraPathError(
            f"intrinsics of frame {frame} have focal lengths ({fx:g}, {fy:g}): expected positive pixels."
        )
    if max(map(abs, (skew, zero, last[0], last[1], last[2] - 1))) > 1e-6:
        raise CameraPathError(
            f"intrinsics of frame {frame} are {lens}: expected [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]."
        )


def flip_opengl(pose: Matrix) -> Matrix:
    """OpenGL and Blender camera axes (x right, y up, z backward) to OpenCV's and back: columns 1 and 2 change sign."""
    return [[value * sign for value, sign in zip(row, (1.0, -1.0, -1.0, 1.0), strict=True)] for row in pose]


def scaled(pose: Matrix, factor: float) -> Matrix:
    """The pose with its position multiplied by `factor`."""
    return [[*row[:3], row[3] * factor] for row in pose[:3]] + [pose[3]]


def _dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _determinant(columns: list[list[float]]) -> float:
    (a, b, c), (d, e, f), (g, h, i) = columns
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
