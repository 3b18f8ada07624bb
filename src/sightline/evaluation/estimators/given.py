"""Trajectories from files: estimated by another tool, or known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from sightline.cameras import formats
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.estimators.protocol import Estimate, Hints, check_video, failure
from sightline.evaluation.units import ARBITRARY, METRE, SCENE


@dataclass(frozen=True)
class Given:
    """path: a trajectory file of any format that `Trajectory.load` reads, or a folder with one file per video, of its name.

    stated_unit: what the files' lengths are in, "metre", "scene" (the unit of the clips' own trajectories) or "arbitrary". By
    default what a file states; most formats state nothing, so that their scale counts as arbitrary.
    """

    path: str | Path = ""
    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the format's reader."""
    stated_unit: Literal["metre", "scene", "arbitrary"] | None = None
    name: str = "given"
    reads_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))  # a folder called 2024 would otherwise be a number
        if self.path and not Path(self.path).exists():
            raise SightlineError(
                f"path is {self.path}: the estimator given expects a trajectory file, or a folder of them."
            )
        if self.stated_unit not in (None, METRE, SCENE, ARBITRARY):
            raise SightlineError(f"stated_unit is {self.stated_unit!r}: expected {METRE}, {SCENE} or {ARBITRARY}.")

    def unit(self, clip_unit: str, has_depth: bool) -> str | None:
        return clip_unit if self.stated_unit == SCENE else self.stated_unit

    def require_installed(self) -> None:
        if not str(self.path):
            raise SightlineError(
                "path is not given: the estimator given expects a trajectory file, or a folder of them."
            )

    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        video = check_video(video)
        self.require_installed()
        file = Path(self.path)
        if file.is_dir():
            if hints.name is None:
                raise SightlineError(f"{file} is a folder: expected the video's name in the hints to find its file.")
            files = sorted(entry for entry in file.iterdir() if entry.stem == hints.name and entry.is_file())
            if not files:
                return failure(f"{file} holds no trajectory file called {hints.name}.")
            file = files[0]
        trajectory = Trajectory.load(file, format=self.format, **self.options).anchored()
        trajectory = trajectory.replace(unit=self._unit_of(file, trajectory, hints))
        if len(trajectory) != len(video):
            return failure(f"{file} has {len(trajectory)} frames but the video has {len(video)}.")
        return Estimate(trajectory, None, 1.0, {"file": str(file)})

    def _unit_of(self, file: Path, trajectory: Trajectory, hints: Hints) -> str:
        clip_unit = SCENE if hints.lens is None else hints.lens.unit
        if self.stated_unit is not None:
            return self.unit(clip_unit, False) or ARBITRARY
        if trajectory.unit != SCENE:
            return trajectory.unit
        # A reader gives "scene" to what states no unit. Our own json does state it, and ViPE's are metres.
        known = {"sightline": clip_unit, "vipe": METRE}
        return known.get(self.format or formats.detect(file), ARBITRARY)
