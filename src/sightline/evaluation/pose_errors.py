"""Errors of an estimated trajectory against the true one: RotErr, TransErr, CamMC and ATE, as camera-control papers report
them.

Both trajectories are anchored at their own frame 0 and compared frame by frame; nothing else is aligned. Per frame, with dR and
dt the differences of the anchored poses: RotErr is the angle of dR in radians, TransErr is |dt|, CamMC the Frobenius norm of the
3x4 difference. ATE is the root mean square of |dt|. See `slam_errors` for Umeyama alignment and relative pose errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.pose_checks import as_float64, check_poses
from sightline.cameras.statistics import anchored_differences
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.units import require_same_unit

Alignment = Literal["raw", "rescaled", "gt_scaled"]
MIN_EXTENT = 1e-6  # a trajectory that stays within this distance of frame 0 does not move
MIN_RELATIVE_EXTENT = 1e-3  # of the true extent: a smaller estimated trajectory is not scaled up to the true size


@dataclass(frozen=True, eq=False)
class PoseErrors:
    """Errors of one clip. `rot_err`, `trans_err`, `cam_mc` are means over frames and `ate` a root mean square; frame 0,
    whose errors are 0, is counted (see `without_first`)."""

    alignment: Alignment
    rotation: Tensor  # [T] radians
    translation: Tensor  # [T], in the unit that the alignment leaves
    camera_motion: Tensor  # [T], the Frobenius norm of the 3x4 difference
    estimated_divisor: float
    """What the estimated positions were divided by; 1 in raw."""
    reference_divisor: float
    """What the true positions were divided by; 1 in raw."""
    note: str | None = None
    """One sentence if a trajectory that hardly moves could not be rescaled by its own extent."""

    def __len__(self) -> int:
        return len(self.rotation)

    @property
    def rot_err(self) -> float:
        return float(self.rotation.mean())

    @property
    def trans_err(self) -> float:
        return float(self.translation.mean())

    @property
    def cam_mc(self) -> float:
        return float(self.camera_motion.mean())

    @property
    def ate(self) -> float:
        return float(self.translation.square().mean().sqrt())

    @property
    def sums(self) -> dict[str, float]:
        """Sums over frames, for comparison with tables that report them; ATE has none."""
        parts = {"rot_err": self.rotation, "trans_err": self.translation, "cam_mc": self.camera_motion}
        return {name: float(values.sum()) for name, values in parts.items()}

    @property
    def without_first(self) -> PoseErrors:
        """The same errors with frame 0, which is exact by construction, left out."""
        if len(self) < 2:
            raise SightlineError("the clip has one frame: expected at least 2 to leave frame 0 out.")
        return PoseErrors(
            self.alignment, self.rotation[1:], self.translation[1:], self.camera_motion[1:], self.estimated_divisor,
            self.reference_divisor, self.note,
        )  # fmt: skip


def pose_errors(
    estimated: Trajectory | Any,  # or [T, 4, 4] camera-to-world
    reference: Trajectory | Any,
    alignment: Alignment = "raw",
) -> PoseErrors:
    """Errors of an estimated trajectory against the true one, both anchored at frame 0.

    alignment: "raw" scales nothing; "rescaled" divides each trajectory by its own largest distance from frame 0; "gt_scaled"
    divides both by that of the true one. Trajectories in different units, or in an arbitrary one, have rescaled errors only. An
    estimated trajectory that hardly moves is not scaled up: its divisor is at least a
    thousandth of the true extent. If the true trajectory does not move, nothing is divided. `note` says when.
    """
    if alignment not in get_args(Alignment):
        raise SightlineError(f"alignment is {alignment!r}: expected one of {', '.join(get_args(Alignment))}.")
    ours, truth = paired_poses(estimated, reference)
    if alignment != "rescaled":
        require_same_unit(estimated, reference, f"alignment {alignment} compares lengths", "alignment='rescaled'")
    ours, truth = se3.anchor(ours), se3.anchor(truth)
    own, true, note = _divisors(ours, truth, alignment)
    ours[:, :3, 3] /= own
    truth[:, :3, 3] /= true
    rotation, translation = anchored_differences(truth, ours)
    camera_motion = (ours - truth)[:, :3].flatten(1).norm(dim=-1)
    return PoseErrors(alignment, rotation, translation, camera_motion, own, true, note)


def paired_poses(estimated: Any, reference: Any) -> tuple[Tensor, Tensor]:  # -> [T, 4, 4] float64 x2
    """Both trajectories as checked camera-to-world poses of equal length."""
    ours, truth = _poses("estimated", estimated), _poses("reference", reference)
    if len(ours) != len(truth):
        raise SightlineError(f"estimated has {len(ours)} frames: expected {len(truth)}, as many as reference.")
    return ours, truth


def _poses(name: str, trajectory: Any) -> Tensor:
    if isinstance(trajectory, Trajectory):
        return trajectory.camera_to_world.clone()
    poses = as_float64(name, trajectory)
    if poses.ndim != 3 or poses.shape[1:] != (4, 4) or len(poses) == 0:
        raise SightlineError(f"{name} has shape {list(poses.shape)}: expected a Trajectory or [T, 4, 4] with T >= 1.")
    try:
        return check_poses(poses)
    except SightlineError as error:
        raise SightlineError(f"{name}: {error}", error.frame) from None


def _divisors(ours: Tensor, truth: Tensor, alignment: Alignment) -> tuple[float, float, str | None]:
    if alignment == "raw":
        return 1.0, 1.0, None
    own, true = (float(poses[:, :3, 3].norm(dim=-1).max()) for poses in (ours, truth))
    if true < MIN_EXTENT:
        return 1.0, 1.0, f"the true trajectory stays within {MIN_EXTENT:g} of frame 0, so nothing was rescaled."
    if alignment == "gt_scaled":
        return true, true, None
    smallest = MIN_RELATIVE_EXTENT * true
    if own >= smallest:
        return own, true, None
    return smallest, true, f"the estimated extent {own:.2g} is below {smallest:.2g}, which it was divided by instead."
