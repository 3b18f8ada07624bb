"""One clip, judged: where its camera went and what it looks like. Failures are kept beside the scores, never instead of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.cases import Case
from sightline.evaluation.metrics.suite import Suite
from sightline.evaluation.revisit import appearance_scores, pose_scores

ALIGNMENTS: tuple[Literal["raw", "rescaled", "gt_scaled"], ...] = ("raw", "rescaled", "gt_scaled")
ERRORS = ("rot_err", "trans_err", "cam_mc", "ate")
Film = Callable[[], np.ndarray]  # -> [T, H, W, 3] uint8, made when it is called


class Scored:
    """What one clip gives: `record` for its json file, `features` for its npz, `paths` for its camera files."""

    def __init__(self, case: Case, strict: bool = False) -> None:
        """strict: an estimator that refuses its arguments or its installation stops the run; later it is a failure of a clip."""
        self.strict = strict
        self.record: dict[str, Any] = {
            "clip": case.name, "group": case.group, "source": case.source, "caption": case.caption,
            "frames": len(case.trajectory), "failures": [], "scores": {}, "floor": {}, "by_frame": {}, "estimator": {},
        }  # fmt: skip
        self.features: dict[str, np.ndarray] = {}
        self.paths: dict[str, Trajectory] = {"commanded": case.trajectory}

    def fail(self, stage: str, sentence: str) -> None:
        self.record["failures"].append({"stage": stage, "sentence": sentence})

    def drop_what_is_no_number(self) -> None:
        """A score that came out as nan or infinite is a failure, and would spoil every mean."""
        for place in ("scores", "floor"):
            for name, value in list(self.record[place].items()):
                if not math.isfinite(value):
                    self.fail(
                        f"{name} of the {'generated' if place == 'scores' else 'true'} video", f"it came out as {value}"
                    )
                    del self.record[place][name]
        self.record["by_frame"] = {
            name: values for name, values in self.record["by_frame"].items() if all(map(math.isfinite, values))
        }

    def estimated(self, estimator: Any, video: np.ndarray, case: Case, which: str) -> Trajectory | None:
        """The path of a film; which: "generated" or "true"."""
        from sightline.evaluation.estimators import Hints

        try:
            hints = Hints(lens=case.trajectory, depth=case.depth, first=case.first, name=f"{case.name}-{which}")
            found = estimator.estimate(video, hints)
        except SightlineError as error:
            if self.strict:
                raise
            self.fail(f"pose of the {which} video", str(error))
            return None
        self.record["estimator"][which] = {"confidence": found.confidence, "details": found.details}
        if found.trajectory is None:
            self.fail(f"pose of the {which} video", found.failure or "the estimator gave no reason")
            return None
        self.paths[f"estimated from the {which} video"] = found.trajectory
        return found.trajectory


def score_standard(scored: Scored, case: Case, film: Film, estimator: Any, suite: Suite, against: str) -> None:
    """Pose errors to the reference by every alignment, and every metric of the suite to the true film.

    against: "path" takes the commanded path for the reference; "video" the one that the same estimator sees in the true
    video, as the paper does. The floor is the error of the true video's own estimate to the commanded path.
    """
    assert case.truth is not None
    true = scored.estimated(estimator, case.truth, case, "true")  # first, so that a broken estimator costs no film
    video = film()
    made = scored.estimated(estimator, video, case, "generated")
    reference = case.trajectory if against == "path" else true
    if made is not None and reference is not None:
        scored.record["scores"] |= _errors(made, reference)
        scored.record["by_frame"] |= _by_frame(made, reference)
    elif made is not None:
        scored.fail("pose of the generated video", "there is no reference: the true video's own path was not found")
    if true is not None:
        scored.record["floor"] |= _errors(true, case.trajectory)
        scored.record["by_frame"] |= {
            f"floor {name}": found for name, found in _by_frame(true, case.trajectory).items()
        }
    scores, scored.features = suite.score(video, case.truth, case.caption)
    scored.record["scores"] |= {name: float(found.mean()) for name, found in scores.items()}
    scored.record["by_frame"] |= {name: _rounded(found) for name, found in scores.items()}


def score_revisit(scored: Scored, case: Case, film: Film, estimator: Any, suite: Suite, against: str) -> None:
    """The six metrics of the generated film; their floor is those of the true film, where there is one."""
    for which, place in (("true", "floor"), ("generated", "scores")):
        frames = case.truth if which == "true" else film()
        if frames is None:
            continue
        path = scored.estimated(estimator, frames, case, which)
        if path is not None:
            found = pose_scores(path, case.trajectory)
            if None in found.values():
                scored.fail(f"pose of the {which} video", "the camera went nowhere, so it cannot be said to return")
            else:
                scored.record["by_frame"] |= {
                    ("" if which == "generated" else "floor ") + name: values
                    for name, values in _by_frame(path, case.trajectory).items()
                }
            scored.record[place] |= {name: value for name, value in found.items() if value is not None}
        looks = appearance_scores(frames, case.first, suite)
        scored.record[place] |= {name: value for name, value in looks.items() if value is not None}


SCORERS: dict[str, Callable[..., None]] = {
    "standard": score_standard, "beyond": score_standard, "revisit": score_revisit
}  # fmt: skip


def _errors(estimated: Trajectory, reference: Trajectory) -> dict[str, float]:
    from sightline.evaluation.pose_errors import pose_errors

    found: dict[str, float] = {}
    for alignment in ALIGNMENTS:
        errors = pose_errors(estimated, reference, alignment=alignment)
        found |= {f"{name} {alignment}": float(getattr(errors, name)) for name in ERRORS}
    return found


def _by_frame(estimated: Trajectory, reference: Trajectory) -> dict[str, list[float]]:
    """Raw errors of each frame, for the plots."""
    from sightline.evaluation.pose_errors import pose_errors

    errors = pose_errors(estimated, reference, alignment="raw")
    return {"rot_err": _rounded(errors.rotation), "trans_err": _rounded(errors.translation)}


def _rounded(values: np.ndarray | torch.Tensor) -> list[float]:
    return np.asarray(values, dtype=np.float64).round(6).tolist()
