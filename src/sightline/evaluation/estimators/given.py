"""Trajectories from files: estimated by another tool, or known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.estimators.protocol import Estimate, Hints, check_video, failure


@dataclass(frozen=True)
class Given:
    """path: a trajectory file of any format that `Trajectory.load` reads, or a folder with one file per video, of its name."""

    path: str | Path = ""
    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the format's reader."""
    name: str = "given"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))  # a folder called 2024 would otherwise be a number
        if self.path and not Path(self.path).exists():
            raise SightlineError(
                f"path is {self.path}: the estimator given expects a trajectory file, or a folder of them."
            )

    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        video = check_video(video)
        if not str(self.path):
            raise SightlineError(
                "path is not given: the estimator given expects a trajectory file, or a folder of them."
            )
        file = Path(self.path)
        if file.is_dir():
            if hints.name is None:
                raise SightlineError(f"{file} is a folder: expected the video's name in the hints to find its file.")
            files = sorted(entry for entry in file.iterdir() if entry.stem == hints.name and entry.is_file())
            if not files:
                return failure(f"{file} holds no trajectory file called {hints.name}.")
            file = files[0]
        trajectory = Trajectory.load(file, format=self.format, **self.options).anchored()
        if len(trajectory) != len(video):
            return failure(f"{file} has {len(trajectory)} frames but the video has {len(video)}.")
        return Estimate(trajectory, None, 1.0, {"file": str(file)})
