"""Trajectories from files: cameras that another tool estimated, or a path that is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.estimators.protocol import Estimate, Hints, checked_video, failed


@dataclass(frozen=True)
class Given:
    """path: a camera file of any format that `Trajectory.load` reads, or a folder with one file per video, named like it."""

    path: str | Path = ""
    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """What the format's reader takes."""
    name: str = "given"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))  # a folder called 2024 is no number
        if self.path and not Path(self.path).exists():
            raise SightlineError(
                f"path is {self.path}: the estimator given expects a camera file, or a folder of them."
            )

    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        video = checked_video(video)
        if not str(self.path):
            raise SightlineError("path is not given: the estimator given expects a camera file, or a folder of them.")
        file = Path(self.path)
        if file.is_dir():
            if hints.name is None:
                raise SightlineError(f"{file} is a folder: expected the video's name in the hints to find its file.")
            files = sorted(one for one in file.iterdir() if one.stem == hints.name and one.is_file())
            if not files:
                return failed(f"{file} holds no camera file called {hints.name}.")
            file = files[0]
        path = Trajectory.load(file, format=self.format, **self.options).anchored()
        if len(path) != len(video):
            return failed(f"{file} has {len(path)} frames but the video has {len(video)}.")
        return Estimate(path, None, 1.0, {"file": str(file)})
