"""The path that a film really follows, estimated from its pixels, against the one that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sightline.errors import SightlineError
from sightline.evaluation.estimators.direct import Direct
from sightline.evaluation.estimators.protocol import Hints
from sightline.evaluation.pose_errors import pose_errors
from sightline.studio.library import Film


def estimate_film(folder: Path, depth: np.ndarray) -> dict[str, Any]:
    """Poses [T][4][4] from direct alignment, and the mean errors. depth: [H, W] of the first frame, infinite in the sky."""
    film = Film(folder)
    commanded = film.trajectory.anchored()
    video = film.frames()
    found = Direct().estimate(video, Hints(lens=commanded, depth=depth, first=video[0]))
    if found.trajectory is None:
        raise SightlineError(f"the path cannot be estimated: {found.failure}")
    errors = pose_errors(found.trajectory, commanded)
    return {
        "poses": found.trajectory.camera_to_world.tolist(),
        "rotation": errors.rot_err,
        "translation": errors.trans_err,
        "unit": commanded.unit,
        "confidence": found.confidence,
    }
