"""The near depth z_n of a shot from the sparse points of a COLMAP model, for sources that do not state it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from sightline.cameras.formats._colmap_points import read_sparse_model
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.worlds.styles import NEAR_QUANTILE

_MIN_DEPTHS = 20  # observations of points; fewer say nothing about the scene
_TOLERANCE = 0.05  # of the extent, within which the two sets of camera centres must agree up to a similarity


def find_sparse_model(candidates: Sequence[Path]) -> Path | None:
    """The first folder that holds the images and points of a COLMAP model."""
    for folder in candidates:
        if any(
            (folder / f"points3D.{end}").is_file() and (folder / f"images.{end}").is_file() for end in ("bin", "txt")
        ):
            return folder
    return None


def near_depth_from_points(folder: Path, shot: Trajectory, frame_names: Sequence[str]) -> float | None:
    """The 5 % quantile of the depths of all points in the images that see them, in the shot's unit.

    frame_names: the picture of each frame without its ending, by which images and frames are matched. The model may have
    another scale, origin and orientation than the shot: its scale follows from the distances between the cameras. None for
    too few points, and for a camera that does not move.
    """
    model = read_sparse_model(folder)
    frames = {name: index for index, name in enumerate(frame_names)}
    matched = [(row, frames[stem]) for row, name in enumerate(model.names) if (stem := Path(name).stem) in frames]
    if len(matched) < 2:
        raise SightlineError(
            f"{folder}: found {len(matched)} images with the name of a frame, expected those of the shot, such as "
            f"{frame_names[0]}."
        )
    rows, indices = (torch.tensor(column) for column in zip(*matched, strict=True))
    poses = model.world_to_camera[rows]
    theirs = -(poses[:, :3, :3].transpose(1, 2) @ poses[:, :3, 3:])[..., 0]  # [T, 3] camera centres
    their_distances, distances = (torch.cdist(centres, centres) for centres in (theirs, shot.positions[indices]))
    if float(their_distances.max()) <= 0 or float(distances.max()) <= 0:
        return None
    scale = float((their_distances * distances).sum() / their_distances.square().sum())
    if float((scale * their_distances - distances).abs().max()) > _TOLERANCE * float(distances.max()):
        raise SightlineError(f"{folder}: its cameras are not where the shot's are, expected a model of the same shot.")
    depths = model.depths()
    depths = scale * depths[(depths > 0) & torch.isin(model.seen[:, 0], rows)]
    return float(depths.quantile(NEAR_QUANTILE)) if len(depths) >= _MIN_DEPTHS else None
