"""Scoring one clip: where its camera went, and what it looks like. Failures are recorded beside the scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.cases import Case
from sightline.evaluation.estimators import Estimator, Hints
from sightline.evaluation.metrics.suite import Suite
from sightline.evaluation.pose_errors import pose_errors
from sightline.evaluation.results import ClipResult, Failure, VideoScores
from sightline.evaluation.revisit import appearance_scores, return_scores
from sightline.evaluation.scores import ALIGNMENTS, POSE_ERRORS, pose_key
from sightline.evaluation.units import same_unit
from sightline.video import can_write_mp4, compress

Which = Literal["generated", "true", "compressed"]
Against = Literal["trajectory", "video"]
Generate = Callable[[], np.ndarray]  # -> [T, H, W, 3] uint8, generated when it is called


class ClipScorer:
    """Collects what one clip gives: `result` for its json file, features for its npz files, trajectories for its plots."""

    def __init__(self, case: Case, strict: bool = False) -> None:
        """strict: an estimator that refuses its arguments or its installation stops the run; otherwise the clip fails."""
        self.case, self.strict = case, strict
        self.result = ClipResult(
            case.name, case.group, case.clip.source, case.clip.caption, num_frames=len(case.trajectory)
        )
        self.generated_features: dict[str, np.ndarray] = {}
        self.real_features: dict[str, np.ndarray] = {}
        self.trajectories: dict[str, Trajectory] = {"commanded": case.trajectory}

    def fail(self, stage: str, message: str) -> None:
        self.result.failures.append(Failure(stage, message))

    def video(self, which: Which) -> VideoScores:
        return self.result.generated if which == "generated" else self.result.ground_truth

    def drop_non_finite(self) -> None:
        """A score that is nan or infinite becomes a failure, since it would spoil every mean."""
        for which, video in (("generated", self.result.generated), ("true", self.result.ground_truth)):
            for name, value in list(video.scores.items()):
                if not math.isfinite(value):
                    self.fail(f"{name} of the {which} video", f"it came out as {value}")
                    del video.scores[name]
            video.by_frame = {
                name: values for name, values in video.by_frame.items() if all(map(math.isfinite, values))
            }

    def estimate(self, estimator: Estimator, frames: np.ndarray, which: Which) -> Trajectory | None:
        """The trajectory of a video, or None where the estimator failed."""
        case, stage = self.case, f"pose of the {which} video"
        hints = Hints(case.trajectory, case.clip.depth, case.clip.frames[0], f"{case.name}-{which}")
        try:
            estimate = estimator.estimate(frames, hints)
        except SightlineError as error:
            if self.strict:
                raise
            self.fail(stage, str(error))
            return None
        video = self.video(which)
        if which != "compressed":
            video.confidence, video.details = estimate.confidence, estimate.details
        if estimate.trajectory is None:
            self.fail(stage, estimate.failure or "the estimator gave no reason")
            return None
        self.trajectories[f"estimated from the {which} video"] = estimate.trajectory
        return estimate.trajectory


def score_standard(
    scorer: ClipScorer, generate: Generate, estimator: Estimator, suite: Suite, against: Against
) -> None:
    """Pose errors under every alignment, and every metric of the suite against the ground-truth video.

    against: "trajectory" measures pose errors to the commanded trajectory; "video" to the one that the same estimator finds
    in the ground-truth video, as the paper does. The estimator floor has the same reference: the error of the ground-truth
    video's estimate, or, where that is the reference itself, of an estimate from the same video after H.264 compression.
    """
    case = scorer.case
    assert case.ground_truth is not None
    # The ground truth comes first, so that a broken estimator is noticed before a video is generated.
    true = scorer.estimate(estimator, case.ground_truth, "true")
    frames = generate()
    estimated = scorer.estimate(estimator, frames, "generated")
    reference, floor = (case.trajectory, true) if against == "trajectory" else (true, None)
    if estimated is not None and reference is None:
        scorer.fail(
            "pose of the generated video", "there is no reference: no trajectory was estimated from the true video"
        )
    if against == "video" and true is not None and not estimator.reads_files and can_write_mp4():
        compressed = compress(case.ground_truth, case.trajectory.fps)
        floor = scorer.estimate(estimator, compressed, "compressed")
    for which, found in (("generated", estimated), ("true", floor)):
        if found is not None and reference is not None:
            _add_pose_errors(scorer.video(which), found, reference)  # type: ignore[arg-type]  # a literal of Which
    scores = suite.score(frames, case.ground_truth, case.clip.caption if case.clip.has_caption else None)
    scorer.generated_features, scorer.real_features = scores.generated, scores.real
    for name, values in scores.by_frame.items():
        scorer.result.generated.scores[name] = float(values.mean())
        scorer.result.generated.by_frame[name] = _round(values)


def score_revisit(scorer: ClipScorer, generate: Generate, estimator: Estimator, suite: Suite, against: Against) -> None:
    """The six revisit metrics of the generated video, and of the ground-truth video where there is one."""
    case = scorer.case
    which: Which
    for which in ("true", "generated"):
        frames = case.ground_truth if which == "true" else generate()
        if frames is None:
            continue
        video = scorer.video(which)
        trajectory = scorer.estimate(estimator, frames, which)
        if trajectory is not None:
            scores = return_scores(trajectory, case.trajectory)
            if scores is None:
                scorer.fail(f"pose of the {which} video", "the camera went nowhere, so it cannot be said to return")
            else:
                video.scores |= scores
                video.unit, video.reference_unit = trajectory.unit, case.trajectory.unit
                video.by_frame |= _errors_by_frame(trajectory, case.trajectory)
        video.scores |= appearance_scores(frames, case.clip.frames[0], suite)


SCORERS: dict[str, Callable[[ClipScorer, Generate, Estimator, Suite, Any], None]] = {
    "standard": score_standard, "beyond": score_standard, "revisit": score_revisit
}  # fmt: skip


def _add_pose_errors(video: VideoScores, estimated: Trajectory, reference: Trajectory) -> None:
    """Under every alignment. Lengths that have no common unit are compared rescaled only; a rotation needs no unit."""
    video.unit, video.reference_unit = estimated.unit, reference.unit
    for alignment in ALIGNMENTS:
        comparable = alignment == "rescaled" or same_unit(estimated.unit, reference.unit)
        errors = pose_errors(estimated, reference, alignment if comparable else "rescaled")
        names = POSE_ERRORS if comparable else ("rot_err",)
        video.scores |= {pose_key(name, alignment): float(getattr(errors, name)) for name in names}
    video.by_frame |= _errors_by_frame(estimated, reference)


def _errors_by_frame(estimated: Trajectory, reference: Trajectory) -> dict[str, list[float]]:
    """Raw errors of each frame, for the plots; only rotations where lengths have no common unit."""
    if not same_unit(estimated.unit, reference.unit):
        return {"rot_err": _round(pose_errors(estimated, reference, "rescaled").rotation)}
    errors = pose_errors(estimated, reference, "raw")
    return {"rot_err": _round(errors.rotation), "trans_err": _round(errors.translation)}


def _round(values: np.ndarray | torch.Tensor) -> list[float]:
    return np.asarray(values, dtype=np.float64).round(6).tolist()
