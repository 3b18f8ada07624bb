"""The estimator's own floor: what it gets wrong on true videos, whose cameras are known. It stands beside every result, as
no model can be measured below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.cameras import moves
from sightline.cameras.trajectory import Trajectory
from sightline.evaluation.estimators.protocol import Estimate, Estimator, Hints
from sightline.evaluation.pose_errors import Alignment, PoseErrors, pose_errors
from sightline.lab.models import FRAMES, HELD_OUT_SEED, SIZE
from sightline.worlds import STYLES, render_clip, sample_batch, sample_clip

TEXTURED = (900_027, 900_015, 900_012)  # held-out walkthrough scenes with brick, boards and books: features to be found
PATHS: dict[str, Callable[..., Trajectory]] = {
    "forward": lambda **shot: moves.dolly(0.8, **shot),
    "truck": lambda **shot: moves.truck(0.5, **shot),
    "loop": lambda **shot: moves.loop_nonpalindromic(0.5, 2.0, **shot),
    "rotation": lambda **shot: moves.pan(25.0, **shot),
}


@dataclass(frozen=True, eq=False)
class TrueClip:
    """A true video: what an estimator is given, and what it should answer."""

    name: str
    frames: np.ndarray  # [T, H, W, 3] uint8
    depth: Tensor  # [H, W] of frame 0, in the trajectory's unit
    trajectory: Trajectory

    @property
    def hints(self) -> Hints:
        return Hints(lens=self.trajectory, depth=self.depth, name=self.name)


@dataclass(frozen=True, eq=False)
class FloorRow:
    """One clip: the answer, and its errors where there is one."""

    name: str
    estimate: Estimate
    errors: PoseErrors | None
    path_length: float

    @property
    def translation_share(self) -> float | None:
        """TransErr as a share of the path's length; None for a failure, and for a path that does not move."""
        moved = self.errors is not None and self.path_length > 0
        return self.errors.trans_err / self.path_length if self.errors is not None and moved else None


def held_out_truths(count: int, device: torch.device | str = "cpu") -> list[TrueClip]:
    """The clips of `lab.measure.held_out_clips`, frame for frame, with the depth of frame 0, in metres."""
    each, found = max(count // len(STYLES), 1), []
    for style in STYLES:
        batch = sample_batch(style, range(HELD_OUT_SEED, HELD_OUT_SEED + each), FRAMES, SIZE, SIZE)
        frames, depth = (one.cpu() for one in batch.render(device))
        for clip in range(each):
            path = batch.true_trajectory(clip).anchored()
            found.append(TrueClip(f"{style}-{clip}", frames[clip].numpy(), depth[clip, 0], path))
    return found


def filmed_truth(
    kind: str,
    style: str = "walkthrough",
    seed: int = TEXTURED[0],
    frames: int = 33,
    width: int = 832,
    height: int = 480,
) -> TrueClip:
    """One of PATHS through a held-out scene, from where that scene's own clip starts."""
    scene = sample_clip(style, seed, 5, width, height)
    path = PATHS[kind](frames=frames, width=width, height=height).replace(unit="metre")
    path = path.replace(camera_to_world=scene.true_trajectory.camera_to_world[0] @ path.camera_to_world)
    shown = render_clip(scene.scene, path, seconds=[0.0] * frames)
    return TrueClip(f"{kind}-{style}-{seed}", shown.frames.numpy(), shown.depth[0], path.anchored())


def estimator_floor(estimator: Estimator, clips: Iterable[TrueClip], alignment: Alignment = "raw") -> list[FloorRow]:
    """The estimator's errors on true videos, clip by clip. Failures stay in the list."""
    rows = []
    for clip in clips:
        answer = estimator.estimate(clip.frames, clip.hints)
        errors = None if answer.trajectory is None else pose_errors(answer.trajectory, clip.trajectory, alignment)
        length = float(clip.trajectory.positions.diff(dim=0).norm(dim=-1).sum())
        rows.append(FloorRow(clip.name, answer, errors, length))
    return rows


def floor_summary(rows: Sequence[FloorRow]) -> dict[str, Any]:
    """Numbers of a floor, json-able: asked, scored, failed, and the mean, median and worst errors of what was scored."""
    scored = [row for row in rows if row.errors is not None]
    summary: dict[str, Any] = {"asked": len(rows), "scored": len(scored), "failed": len(rows) - len(scored)}
    summary["failures"] = {row.name: row.estimate.failure for row in rows if row.errors is None}
    columns = {
        "rot_err": [row.errors.rot_err for row in scored if row.errors is not None],
        "trans_err": [row.errors.trans_err for row in scored if row.errors is not None],
        "trans_share": [row.translation_share for row in scored if row.translation_share is not None],
    }
    for name, values in columns.items():
        if values:
            summary[name] = {
                "mean": float(np.mean(values)),
                "median": float(np.median(values)),
                "worst": float(np.max(values)),
            }
    return summary
