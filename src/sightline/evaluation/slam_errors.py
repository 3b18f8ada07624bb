"""Errors as reported in SLAM: ATE after a least-squares alignment (Umeyama 1991), and relative pose errors.

Camera-control papers report others (see `pose_errors`): an alignment hides a wrong start, a wrong heading and, in Sim(3), a
wrong scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.trajectory import Trajectory
from sightline.checks import whole_number
from sightline.errors import SightlineError
from sightline.evaluation.pose_errors import paired_poses
from sightline.evaluation.units import require_same_unit


@dataclass(frozen=True, eq=False)
class AlignedErrors:
    """Distances of camera centres after aligning the estimated trajectory to the true one: x -> scale rotation x + shift."""

    group: Literal["se3", "sim3"]
    translation: Tensor  # [T]
    scale: float
    rotation: Tensor  # [3, 3]
    shift: Tensor  # [3]

    @property
    def rmse(self) -> float:
        return float(self.translation.square().mean().sqrt())

    @property
    def mean(self) -> float:
        return float(self.translation.mean())


@dataclass(frozen=True, eq=False)
class RelativeErrors:
    """Differences of the motion over `delta` frames. They need no alignment, and drift does not accumulate."""

    delta: int
    rotation: Tensor  # [T - delta] radians
    translation: Tensor  # [T - delta]

    @property
    def mean_rotation(self) -> float:
        return float(self.rotation.mean())

    @property
    def mean_translation(self) -> float:
        return float(self.translation.mean())


def umeyama_ate(
    estimated: Trajectory | Any, reference: Trajectory | Any, group: Literal["se3", "sim3"] = "sim3"
) -> AlignedErrors:
    """Absolute trajectory error after the rigid motion (and, in sim3, the scale) that brings the trajectories closest together.

    For a camera that does not move the scale is 1. If all centres lie on one line, the rotation about it is undetermined; the
    error is the same for every choice.
    """
    if group not in ("se3", "sim3"):
        raise SightlineError(f"group is {group!r}: expected 'se3' or 'sim3'.")
    if group == "se3":
        require_same_unit(estimated, reference, "group se3 keeps the scale", "group='sim3'")
    ours, truth = (poses[:, :3, 3] for poses in paired_poses(estimated, reference))
    our_mean, true_mean = ours.mean(0), truth.mean(0)
    a, b = ours - our_mean, truth - true_mean
    u, size, vh = torch.linalg.svd(b.T @ a / len(a))
    flip = torch.ones(3, dtype=torch.float64)
    flip[2] = 1.0 if float(torch.linalg.det(u) * torch.linalg.det(vh)) > 0 else -1.0
    rotation = (u * flip) @ vh
    variance = float(a.square().sum(-1).mean())
    scale = float((size * flip).sum()) / variance if group == "sim3" and variance > 1e-18 else 1.0
    shift = true_mean - scale * rotation @ our_mean
    moved = scale * ours @ rotation.T + shift
    return AlignedErrors(group, (moved - truth).norm(dim=-1), scale, rotation, shift)


def relative_pose_errors(estimated: Trajectory | Any, reference: Trajectory | Any, delta: int = 1) -> RelativeErrors:
    """Relative pose error over every pair of frames `delta` apart."""
    delta = whole_number("delta", delta)
    require_same_unit(estimated, reference, "relative errors keep the scale", "trajectories scaled to one length")
    ours, truth = paired_poses(estimated, reference)
    if len(ours) <= delta:
        raise SightlineError(f"delta is {delta}: expected less than the {len(ours)} frames of the trajectories.")
    steps = [se3.inverse(poses[:-delta]) @ poses[delta:] for poses in (truth, ours)]
    difference = se3.inverse(steps[0]) @ steps[1]
    return RelativeErrors(delta, se3.rotation_angle(difference[:, :3, :3]), difference[:, :3, 3].norm(dim=-1))
