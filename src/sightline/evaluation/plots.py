"""What the plots of runs show: errors over the frames, and scores over the clips. The drawing itself is in `figures`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from sightline.evaluation.results import RunResults
from sightline.evaluation.scores import REVISIT_SCORES, SCORES
from sightline.evaluation.tables import floor_label
from sightline.figures import BoxPanel, CurvePanel, draw_boxes, draw_error_curves

_OVER_FRAMES = {"rot_err": "rotation error (rad)", "trans_err": "translation error", "psnr": "PSNR (dB)"}
_STANDARD_BOXES = (
    "rot_err_raw", "trans_err_raw", "trans_err_rescaled", "cam_mc_raw", "ate_raw", "psnr", "ssim", "lpips",
)  # fmt: skip
_FLOOR_LABEL = "estimator floor"


def draw_errors(runs: Sequence[RunResults], path: Path) -> bool:
    """Errors over the frames of each run, and the estimator floor of the first one. False without data."""
    keys = [key for key in _OVER_FRAMES if any(key in clip.generated.by_frame for run in runs for clip in run.clips)]
    panels = [
        CurvePanel(
            _OVER_FRAMES[key],
            [(run.label, _curves(run, key, "generated")) for run in runs],
            _curves(runs[0], key, "ground_truth"),
        )
        for key in keys
    ]
    if panels:
        draw_error_curves(panels, path, floor_label(runs[0]))
    return bool(panels)


def draw_score_boxes(runs: Sequence[RunResults], path: Path) -> bool:
    """A box of each run for each score, and of the estimator floor of the first one. False without data."""
    keys = REVISIT_SCORES if runs[0].protocol == "revisit" else _STANDARD_BOXES
    panels = []
    for key in [key for key in keys if any(key in run.means for run in runs)]:
        boxes = [
            (run.label, [clip.generated.scores[key] for clip in run.clips if key in clip.generated.scores])
            for run in runs
        ]
        floor = [clip.ground_truth.scores[key] for clip in runs[0].clips if key in clip.ground_truth.scores]
        panels.append(BoxPanel(SCORES[key].title, boxes, (_FLOOR_LABEL, floor) if floor else None))
    if panels:
        draw_boxes(panels, path)
    return bool(panels)


def _curves(run: RunResults, key: str, which: Literal["generated", "ground_truth"]) -> np.ndarray:  # [N, T]
    """The curves of the clips that have the most common length."""
    videos = [getattr(clip, which) for clip in run.clips]
    curves = [video.by_frame[key] for video in videos if key in video.by_frame]
    lengths = [len(curve) for curve in curves]
    usual = max(set(lengths), key=lengths.count) if lengths else 0
    return np.array([curve for curve in curves if len(curve) == usual])
