"""Warnings where a path leaves what the model was trained on: its length, size and lens, and, for the lab model, its cameras.

The cameras of the lab model's training are those of the procedural worlds, so their range is measured on a sample of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from sightline.backbones.model_info import LAB_SHAPES, ModelInfo
from sightline.backbones.wan_configs import VideoShape
from sightline.cameras import lens
from sightline.cameras.plausibility import implausible, implausible_moves
from sightline.cameras.statistics import trajectory_statistics
from sightline.cameras.trajectory import Trajectory
from sightline.checks import plain_number
from sightline.errors import SightlineError
from sightline.studio.page_text import unit_name
from sightline.worlds import STYLES, sample_batch

_CLIPS, _MOVES = 24, 0.5  # of each style, and the fraction of them that follow a line of moves, as in training
_QUANTILE = 0.98


@dataclass(frozen=True)
class CameraRange:
    """What most training clips stay within: metres, degrees, millimetres."""

    extent: float
    total_turn: float
    focal_mm: tuple[float, float]


@cache
def lab_range() -> CameraRange:
    """The range of the lab model's training clips, over a sample of each style."""
    extents, turns, short, long = [], [], [], []
    shape = LAB_SHAPES[0]
    for style in STYLES:
        batch = sample_batch(style, range(_CLIPS), shape.num_frames, shape.width, shape.height, moves=_MOVES)
        for clip in range(_CLIPS):
            found = trajectory_statistics(batch.true_trajectory(clip), (2, 2))
            extents.append(found.extent)
            turns.append(found.total_turn)
            # By field of view, since the lenses of some clips are no pinholes.
            wide, narrow = (lens.FULL_FRAME_MM / 2 / _tan(angle / 2) for angle in reversed(found.horizontal_fov))
            short.append(wide)
            long.append(narrow)
    extent, turn, longest = (_high(values) for values in (extents, turns, long))
    return CameraRange(extent, turn, (-_high([-value for value in short]), longest))


def path_warnings(trajectory: Trajectory, info: ModelInfo, from_file: bool = False) -> list[str]:
    """One sentence for everything in which a path differs from what the model was trained on, and for a lens that it cannot
    represent, with which no film is generated; usually none.

    from_file: also for signs that the file of the path was read with the wrong convention.
    """
    found = [*(implausible(trajectory) if from_file else []), *_beyond_training(trajectory, info)]
    if not from_file and info.trained_shapes != LAB_SHAPES:  # whose training clips say more
        found += implausible_moves(trajectory)
    return [sentence[0].upper() + sentence[1:] for sentence in found]


def _beyond_training(trajectory: Trajectory, info: ModelInfo) -> list[str]:
    found = []
    try:
        info.require_lens(trajectory)
    except SightlineError as error:
        found.append(f"no film can be generated: {error}")
    shape = VideoShape(len(trajectory), trajectory.width, trajectory.height)
    if info.trained_shapes and shape not in info.trained_shapes:
        found.append(f"{shape} is not what the model was trained on, {' or '.join(map(str, info.trained_shapes))}.")
    if info.trained_shapes != LAB_SHAPES:
        return found
    known, path = lab_range(), trajectory_statistics(trajectory, (2, 2))
    if path.extent > known.extent:
        extent, unit = plain_number(path.extent, 2), unit_name(trajectory.unit)
        found.append(
            f"the camera moves {extent} {unit} from its start; most training clips stay within {known.extent:.2g}."
        )
    if path.total_turn > known.total_turn:
        found.append(
            f"the camera turns {path.total_turn:.0f} degrees in all; most training clips turn less than {known.total_turn:.0f}."
        )
    low, high = known.focal_mm
    if path.focal_mm[0] < 0.99 * low or path.focal_mm[1] > 1.01 * high:
        mm = " to ".join(dict.fromkeys(f"{value:.0f}" for value in path.focal_mm))
        found.append(f"the lens has {mm} mm; most training clips have {low:.0f} to {high:.0f} mm.")
    return found


def _high(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).quantile(_QUANTILE))


def _tan(degrees: float) -> float:
    return float(torch.tensor(degrees, dtype=torch.float64).deg2rad().tan())
