"""The estimator floor: a pose estimator's errors on true videos, whose cameras are known. Every result is shown beside it, since
no model can be measured below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.clip import Clip
from sightline.evaluation.estimators.protocol import Estimate, Estimator, Hints
from sightline.evaluation.pose_errors import PoseErrors, pose_errors


@dataclass(frozen=True, eq=False)
class EstimatorFloorRow:
    """One clip: the estimate, and its errors unless it failed. length: of the true trajectory."""

    name: str
    estimate: Estimate
    errors: PoseErrors | None
    length: float

    @property
    def translation_fraction(self) -> float | None:
        """TransErr as a fraction of the trajectory's length; None for a failure, and for a camera that does not move."""
        if self.errors is None or self.length <= 0:
            return None
        return self.errors.trans_err / self.length


@dataclass(frozen=True)
class ErrorSummary:
    mean: float
    median: float
    worst: float


@dataclass(frozen=True)
class EstimatorFloorSummary:
    """Clips asked for, scored and failed, why each failed clip did, and the errors of the scored ones (None without any)."""

    asked: int
    scored: int
    failed: int
    failures: dict[str, str | None]
    rot_err: ErrorSummary | None
    trans_err: ErrorSummary | None
    trans_fraction: ErrorSummary | None


def estimator_floor(estimator: Estimator, clips: Iterable[Clip]) -> list[EstimatorFloorRow]:
    """The estimator's errors on true videos, clip by clip. Failures stay in the list."""
    rows = []
    for clip in clips:
        estimate = estimator.estimate(clip.frames, Hints.from_clip(clip))
        errors = None if estimate.trajectory is None else pose_errors(estimate.trajectory, clip.trajectory, "raw")
        length = float(clip.trajectory.positions.diff(dim=0).norm(dim=-1).sum())
        rows.append(EstimatorFloorRow(clip.name, estimate, errors, length))
    return rows


def summarize(rows: Sequence[EstimatorFloorRow]) -> EstimatorFloorSummary:
    errors = [row.errors for row in rows if row.errors is not None]
    return EstimatorFloorSummary(
        asked=len(rows),
        scored=len(errors),
        failed=len(rows) - len(errors),
        failures={row.name: row.estimate.failure for row in rows if row.errors is None},
        rot_err=_summary([each.rot_err for each in errors]),
        trans_err=_summary([each.trans_err for each in errors]),
        trans_fraction=_summary([row.translation_fraction for row in rows if row.translation_fraction is not None]),
    )


def _summary(values: Sequence[float]) -> ErrorSummary | None:
    if not values:
        return None
    return ErrorSummary(float(np.mean(values)), float(np.median(values)), float(np.max(values)))
