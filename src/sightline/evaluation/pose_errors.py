"""How far an estimated camera path strays from the true one: RotErr, TransErr, CamMC and ATE, as camera-control papers
report them.

Both paths are anchored at their own frame 0 and compared frame by frame; nothing else is aligned. Per frame, with dR and dt
the differences of the anchored poses: RotErr is the angle of dR in radians, TransErr is |dt|, CamMC the Frobenius norm of the
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

Alignment = Literal["raw", "rescaled", "gt_scaled"]
SMALLEST_EXTENT = 1e-6  # units: a path that stays within it does not move
SMALLEST_SHARE = 1e-3  # of the true path's extent: an estimated path within it is not blown up to the true one's size


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
    """One sentence where a path that hardly moves could not be rescaled by its own extent."""

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

    def as_dict(self) -> dict[str, Any]:
        """Everything a results file keeps of a clip, json-able."""
        later = self.without_first if len(self) > 1 else None
        names = ("rot_err", "trans_err", "cam_mc", "ate")
        return {
            "alignment": self.alignment,
            "frames": len(self),
            **{name: getattr(self, name) for name in names},
            "sums": self.sums,
            "without_first": None if later is None else {name: getattr(later, name) for name in names},
            "per_frame": {
                "rot_err": self.rotation.tolist(),
                "trans_err": self.translation.tolist(),
                "cam_mc": self.camera_motion.tolist(),
            },
            "divisors": [self.estimated_divisor, self.reference_divisor],
            "note": self.note,
        }


def pose_errors(
    estimated: Trajectory | Any,  # or [T, 4, 4] camera-to-world
    reference: Trajectory | Any,
    alignment: Alignment = "raw",
) -> PoseErrors:
    """Errors of an estimated camera path against the true one, both anchored at frame 0.

    alignment: "raw" scales nothing; "rescaled" divides each path by its own largest distance from frame 0; "gt_scaled"
    divides both by the true path's. A path that hardly moves is not blown up: its divisor is floored at a thousandth of
    the true path's extent, and where the true path itself stays in place nothing is divided. `note` says when.
    """
    if alignment not in get_args(Alignment):
        raise SightlineError(f"alignment is {alignment!r}: expected one of {', '.join(get_args(Alignment))}.")
    ours, truth = paired_poses(estimated, reference)
    ours, truth = se3.anchor(ours), se3.anchor(truth)
    own, true, note = _divisors(ours, truth, alignment)
    ours[:, :3, 3] /= own
    truth[:, :3, 3] /= true
    rotation, translation = anchored_differences(truth, ours)
    camera_motion = (ours - truth)[:, :3].flatten(1).norm(dim=-1)
    return PoseErrors(alignment, rotation, translation, camera_motion, own, true, note)


def paired_poses(estimated: Any, reference: Any) -> tuple[Tensor, Tensor]:  # -> [T, 4, 4] float64 x2
    """Both paths as checked camera-to-world poses of equal length."""
    ours, truth = _poses("estimated", estimated), _poses("reference", reference)
    if len(ours) != len(truth):
        raise SightlineError(f"estimated has {len(ours)} frames: expected {len(truth)}, as many as reference.")
    return ours, truth


def _poses(name: str, path: Any) -> Tensor:
    if isinstance(path, Trajectory):
        return path.camera_to_world.clone()
    poses = as_float64(name, path)
    if poses.ndim != 3 or poses.shape[1:] != (4, 4) or len(poses) == 0:
        raise SightlineError(f"{name} has shape {list(poses.shape)}: expected a Trajectory or [T, 4, 4] with T >= 1.")
    try:
        return check_poses(poses)
    except SightlineError as error:
        raise SightlineError(f"{name}: {error}", error.frame) from None


def _divisors(ours: Tensor, truth: Tensor, alignment: Alignment) -> tuple[float, float, str | None]:
    if alignment == "raw":
        return 1.0, 1.0, None
    own, true = (float(path[:, :3, 3].norm(dim=-1).max()) for path in (ours, truth))
    if true < SMALLEST_EXTENT:
        return 1.0, 1.0, f"the true path stays within {SMALLEST_EXTENT:g} of its first frame, so nothing was rescaled."
    if alignment == "gt_scaled":
        return true, true, None
    floor = SMALLEST_SHARE * true
    if own >= floor:
        return own, true, None
    return floor, true, f"the estimated path's extent {own:.2g} is below {floor:.2g}, which it was divided by instead."
