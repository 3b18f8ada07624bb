"""ViPE output: pose/NAME.npz (`data` [N, 4, 4], `inds` [N]) with intrinsics/NAME.npz (`data` [N, 4], `inds` [N])."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.cameras import defaults, se3
from sightline.cameras.formats._arrays import ZIP_MAGIC, npz_array, npz_bytes
from sightline.cameras.formats._build import build, image_size
from sightline.cameras.formats._files import MAX_FRAMES, InputFile, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.lens import intrinsics_matrix
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic


def read(
    file: InputFile,
    *,
    intrinsics_file: str | Path | None = None,
    missing: str = "refuse",
    width: Any = None,
    height: Any = None,
    fps: Any = defaults.FPS,
) -> Trajectory:
    """ViPE leaves out frames that it could not estimate; missing: "refuse" or "fill" them.

    Filled frames are interpolated between their neighbours, and frames before the first pose take that pose, so that
    frame i is frame i of the video. Without the size options, the image is twice the principal point.
    """
    if missing not in ("refuse", "fill"):
        raise file.error(f"found {shown(missing)} as the option missing, expected 'refuse' or 'fill'.")
    indices, poses = _indexed(file, 4, 4)
    known = len(indices)
    frames = np.arange(indices[-1] + 1)
    absent = len(frames) - known
    if absent and missing == "refuse":
        raise file.error(
            f"found {known} of {len(frames)} frames, expected all (the option missing='fill' interpolates the other {absent})."
        )
    lens_file = InputFile(intrinsics_path(file.path) if intrinsics_file is None else intrinsics_file)
    lens_indices, lenses = _indexed(lens_file, 4)
    fx, fy, cx, cy = (torch.from_numpy(np.interp(frames, lens_indices, column)) for column in lenses.T)
    columns, rows = image_size(lens_file, (None, None), (width, height), (float(cx[0]), float(cy[0])))
    # Checked before filling, as interpolation would hide what is wrong with a pose.
    checked = build(file, torch.from_numpy(poses), intrinsics_matrix(fx[0], fy[0], cx[0], cy[0]), columns, rows)
    poses_of_all = _interpolate_missing(checked.camera_to_world, indices, frames) if absent else checked.camera_to_world
    return build(file, poses_of_all, intrinsics_matrix(fx, fy, cx, cy), columns, rows, fps=fps)


def write(trajectory: Trajectory, path: Path) -> None:
    frames = np.arange(len(trajectory))
    lens = trajectory.intrinsics
    parameters = torch.stack([lens[:, 0, 0], lens[:, 1, 1], lens[:, 0, 2], lens[:, 1, 2]], dim=1)
    write_atomic(intrinsics_path(path), npz_bytes(data=parameters.numpy(), inds=frames))
    write_atomic(path, npz_bytes(data=trajectory.camera_to_world.numpy(), inds=frames))


def sniff(file: InputFile) -> bool:
    return file.data.startswith(ZIP_MAGIC)


def intrinsics_path(pose_path: Path) -> Path:
    """The folder `intrinsics` beside ViPE's folder `pose`; inside the file's own folder where that is called otherwise."""
    root = pose_path.parent.parent if pose_path.parent.name == "pose" else pose_path.parent
    return root / "intrinsics" / pose_path.name


def _indexed(file: InputFile, *shape: int) -> tuple[np.ndarray, np.ndarray]:  # [N] int64, [N, *shape] float64
    data, indices = npz_array(file, "data"), npz_array(file, "inds")
    if data.shape[1:] != shape or data.ndim != len(shape) + 1:
        raise file.error(f"found data of the shape {list(data.shape)}, expected {['N', *shape]}.")
    file.check_frame_count(len(data))
    if indices.shape != data.shape[:1]:
        raise file.error(f"found inds of the shape {list(indices.shape)}, expected [{len(data)}].")
    inside = (indices >= 0) & (indices < MAX_FRAMES) & (indices == np.floor(indices))
    if not inside.all() or not (np.diff(indices) > 0).all():
        raise file.error(f"found inds that are not ascending frame numbers below {MAX_FRAMES}, expected those.")
    if not np.isfinite(data).all():
        raise file.error("found numbers in data that are not finite, expected finite numbers.")
    return indices.astype(np.int64), data


def _interpolate_missing(poses: Tensor, indices: np.ndarray, frames: np.ndarray) -> Tensor:  # [N, 4, 4] -> [T, 4, 4]
    positions = np.interp(frames, indices, np.arange(len(indices), dtype=np.float64))
    return se3.interpolate(poses, torch.from_numpy(positions))


FORMAT = Format(
    name="vipe",
    title="ViPE pose npz",
    convention="camera-to-world [N, 4, 4], OpenCV axes; fx fy cx cy in pixels in a second file; frames may be missing",
    loses="image size where the principal point is off centre, time (fps), xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
    extension=".npz",
)
