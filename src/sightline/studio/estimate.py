"""The path that a film really follows, estimated from its pixels, against the one that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sightline.devices import cpu_threads
from sightline.errors import SightlineError
from sightline.evaluation.estimators.direct import Direct
from sightline.evaluation.estimators.protocol import Hints
from sightline.evaluation.pose_errors import pose_errors
from sightline.studio.library import Film

MAX_SIDE = 256  # pixels: direct alignment is made for videos of 64 to 256, and its time grows with their number


def estimate_film(
    folder: Path, depth: np.ndarray, on_progress: Callable[[float], None] = lambda fraction: None
) -> dict[str, Any]:
    """Poses [T][4][4] from direct alignment, and the mean errors.

    depth: [H, W] of the first frame, infinite in the sky. on_progress: called with the fraction that is done; what it raises
    ends the work.
    """
    film = Film(folder)
    commanded = film.trajectory.anchored()
    video, depth = reduced(film.frames(), depth)
    # A second thread makes it a tenth faster on idle cores, and several times slower where the page or anybody else needs them.
    with cpu_threads(1):
        found = Direct().estimate(video, Hints(lens=commanded, depth=depth, first=video[0]), on_progress)
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


def reduced(video: np.ndarray, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # [T, H, W, 3], [H, W]
    """A film and its depth with at most MAX_SIDE pixels on a side. Colours are averaged; depths of surfaces are not mixed."""
    height, width = video.shape[1:3]
    scale = MAX_SIDE / max(width, height)
    if scale >= 1:
        return video, depth
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    frames = [np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BOX)) for frame in video]
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(int) for new, old in zip(size[::-1], depth.shape, strict=True)
    )
    return np.stack(frames), depth[rows][:, columns]
