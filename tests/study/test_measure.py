"""What a study measures on a model, with the model and the estimator left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from sightline.study.measure import Measurer
from sightline.study.study import Measure


class Measured(Measurer):
    """Six videos, of which the second one's camera is not found."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
        self.store = SimpleNamespace(between=lambda: None)  # type: ignore[assignment]  # nothing asks it to stop

    def cases(self, kind: str) -> Any:
        return [SimpleNamespace(name=f"video {index}") for index in range(6)]

    def _generate(self, model: Any, kind: str) -> list[np.ndarray]:
        return [np.zeros(0)] * 6

    def _estimate(self, cases: list[Any], videos: list[np.ndarray], which: str) -> Any:
        return [None if case.name == "video 3" else case.name for case in cases]

    def _video_scores(self, case: Any, video: np.ndarray, estimated: Any) -> dict[str, float]:
        return {"psnr_moved": 20.0, **({"rot_err": 0.1} if estimated else {})}

    def _is_measured(self, name: str) -> bool:
        return True


def test_the_clips_whose_cameras_are_estimated_are_noted() -> None:
    clips, values = Measured(Measure(groups=("video",), videos=6, poses=3))(None)
    assert len(clips["video"]) == 6 and len(clips["poses"]) == 3 and set(clips["poses"]) < set(clips["video"])
    assert values["psnr_moved"] == [20.0] * 6
    measured = [name for name, value in zip(clips["video"], values["rot_err"], strict=True) if value is not None]
    assert measured == [name for name in clips["poses"] if name != "video 3"]


def test_no_cameras_need_no_estimator() -> None:
    clips, values = Measured(Measure(groups=("video",), videos=6, poses=0))(None)
    assert clips["poses"] == [] and values["rot_err"] == [None] * 6
