"""Checks of the poses and intrinsics of a Trajectory. An error carries the frame that caused it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.errors import SightlineError

ROTATION_TOLERANCE = 1e-3  # largest |R^T R - I| that is read as a rotation written with few digits
_EXACT = 1e-6  # a rotation with a larger error is replaced by the nearest true rotation
_MAX_POSITION = 1e9  # units; float32 rays of larger positions are meaningless
_MIN_FOCAL, _MAX_FOCAL = 1e-3, 1e9  # focal lengths, pixels


def as_float64(name: str, value: Any) -> Tensor:
    """A float64 copy on the CPU."""
    try:
        tensor = torch.as_tensor(value).detach()
        if tensor.is_complex():
            raise ValueError("complex")
        return tensor.to(device="cpu", dtype=torch.float64).clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise SightlineError(
            f"{name} cannot be read as numbers ({error}): expected a tensor or nested lists."
        ) from None


def check_poses(poses: Tensor) -> Tensor:  # [T, 4, 4] -> [T, 4, 4]
    """The poses with exact rotations. Refuses what is not finite or not a rigid motion."""
    _refuse(~poses.isfinite().flatten(1).all(1), lambda frame: "is not finite: expected finite numbers.")
    _refuse(
        (poses[:, 3] - poses.new_tensor([0, 0, 0, 1])).abs().amax(1) > _EXACT,
        lambda frame: f"has the last row {poses[frame, 3].tolist()}: expected 0 0 0 1.",
    )
    _refuse(
        poses[:, :3, 3].abs().amax(1) > _MAX_POSITION,
        lambda frame: (
            f"is at ({', '.join(f'{value:g}' for value in poses[frame, :3, 3].tolist())}): expected a position within "
            f"{_MAX_POSITION:g} units."
        ),
    )
    error = se3.orthonormality_error(poses[:, :3, :3])
    _refuse(
        ~(error <= ROTATION_TOLERANCE),  # not (error > ...), so that an error that overflowed to nan is refused too
        lambda frame: (
            f"is not a rigid motion (|R^T R - I| = {error[frame]:.2g}, determinant "
            f"{torch.linalg.det(poses[frame, :3, :3]):.3g}): expected a rotation within {ROTATION_TOLERANCE:g}."
        ),
    )
    rough = error > _EXACT
    if rough.any():
        poses[rough, :3, :3] = se3.nearest_rotation(poses[rough, :3, :3])
    poses[:, 3] = poses.new_tensor([0, 0, 0, 1])
    return poses


def check_intrinsics(lens: Tensor) -> Tensor:  # [T, 3, 3] -> [T, 3, 3]
    """The intrinsics without rounding errors. Refuses skew and focal lengths that are not positive."""
    what = "intrinsics"
    _refuse(~lens.isfinite().flatten(1).all(1), lambda frame: "are not finite: expected finite numbers.", what)
    focal = lens[:, [0, 1], [0, 1]]  # [T, 2]
    _refuse(
        (focal <= 0).any(1),
        lambda frame: f"have focal lengths ({focal[frame, 0]:g}, {focal[frame, 1]:g}): expected positive pixels.",
        what,
    )
    _refuse(
        ((focal < _MIN_FOCAL) | (focal > _MAX_FOCAL)).any(1) | (lens[:, :2, 2].abs() > _MAX_FOCAL).any(1),
        lambda frame: (
            f"have focal lengths ({focal[frame, 0]:g}, {focal[frame, 1]:g}) and the principal point "
            f"({lens[frame, 0, 2]:g}, {lens[frame, 1, 2]:g}): expected focal lengths from {_MIN_FOCAL:g} to {_MAX_FOCAL:g} "
            "pixels, and a point not farther away."
        ),
        what,
    )
    expected = torch.zeros_like(lens)
    expected[:, [0, 1], [0, 1]], expected[:, :2, 2], expected[:, 2, 2] = focal, lens[:, :2, 2], 1.0
    _refuse(
        (lens - expected).abs().flatten(1).amax(1) > _EXACT,
        lambda frame: f"are {lens[frame].tolist()}: expected [[fx, 0, cx], [0, fy, cy], [0, 0, 1]].",
        what,
    )
    return expected


def _refuse(bad: Tensor, problem: Any, what: str = "camera_to_world") -> None:
    if bad.any():
        frame = int(bad.nonzero()[0, 0])
        raise SightlineError(f"{what} of frame {frame} {problem(frame)}", frame)
