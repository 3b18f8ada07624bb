"""The scores a clip can have: how each is printed, which direction is better, and which error it is under which alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sightline.evaluation.metrics.suite import METRICS
from sightline.evaluation.pose_errors import Alignment

ALIGNMENTS: tuple[Alignment, ...] = get_args(Alignment)
POSE_ERRORS = {"rot_err": "RotErr (rad)", "trans_err": "TransErr", "cam_mc": "CamMC", "ate": "ATE"}
REVISIT_SCORES = (
    "return_ratio", "return_rotation", "normalised_ate", "return_lpips", "lpips_recovery", "return_dino",
)  # fmt: skip
FAILED = "failed"  # 0 or 1 for a clip; computed from the other scores when runs are compared


@dataclass(frozen=True)
class ScoreInfo:
    """heading: the title of a table column that already says the alignment. error, alignment: only for pose errors."""

    heading: str
    better: Literal["higher", "lower"]
    error: str | None = None
    alignment: Alignment | None = None

    @property
    def title(self) -> str:
        return self.heading if self.alignment is None else f"{self.heading} {self.alignment}"

    @property
    def arrow(self) -> str:
        return "↑" if self.better == "higher" else "↓"

    @property
    def summed_over_frames(self) -> bool:
        """Whether some papers report the sum over frames instead of the mean (not for ATE, a root mean square)."""
        return self.error in ("rot_err", "trans_err", "cam_mc")

    @property
    def repeats_raw(self) -> bool:
        """A rotation has no scale, so its error is the same under every alignment."""
        return self.error == "rot_err" and self.alignment != "raw"

    @property
    def is_length(self) -> bool:
        """Whether it has the unit of the trajectories, so that clips in different units have no mean."""
        return self.alignment == "raw" and self.error != "rot_err"


def pose_key(error: str, alignment: Alignment) -> str:
    """The name of a pose error's score, such as rot_err_raw."""
    return f"{error}_{alignment}"


SCORES: dict[str, ScoreInfo] = {
    FAILED: ScoreInfo("clips without a pose", "lower"),
    **{
        pose_key(error, alignment): ScoreInfo(title, "lower", error, alignment)
        for alignment in ALIGNMENTS
        for error, title in POSE_ERRORS.items()
    },
    "return_ratio": ScoreInfo("Return Trans. Ratio", "lower"),
    "return_rotation": ScoreInfo("Return Rot. (deg)", "lower"),
    "normalised_ate": ScoreInfo("Norm. ATE", "lower"),
    "return_lpips": ScoreInfo("Return LPIPS", "lower"),
    "lpips_recovery": ScoreInfo("LPIPS Recovery", "higher"),
    "return_dino": ScoreInfo("Return DINOv2", "higher"),
    **{name: ScoreInfo(metric.title, metric.better) for name, metric in METRICS.items()},
}

# The score that every clip with an estimated pose has.
POSE_SCORE = {"standard": "rot_err_raw", "beyond": "rot_err_raw", "revisit": "return_ratio"}
