"""The shot of a job: its trajectory at the size of the model's video, and one line that describes it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import torch

from sightline.backbones.model_info import ModelInfo
from sightline.backbones.wan_configs import VideoShape
from sightline.cameras.moves import MoveLine
from sightline.cameras.statistics import describe
from sightline.cameras.token_grid import TokenStride
from sightline.cameras.trajectory import Trajectory
from sightline.checks import check_fps
from sightline.errors import SightlineError
from sightline.generation.job import DEFAULT_MOVE, DEFAULT_STYLE, Job
from sightline.memory import require_video_memory
from sightline.parsing import parse_size
from sightline.worlds import FAR, render_depth, sample_clip

_log = logging.getLogger("sightline")


@dataclass(frozen=True, eq=False)
class PlannedShot:
    """A trajectory and where it came from. subject: the radius of an orbit and its origin, where a move has one."""

    trajectory: Trajectory
    source: str
    subject: str = ""

    def __post_init__(self) -> None:
        check_fps(self.trajectory.fps)  # before the video is generated: it could not be written

    def __str__(self) -> str:
        """One line that describes the shot."""
        return "; ".join(filter(None, (self.source, describe(self.trajectory), self.subject)))


def make_shot(job: Job, info: ModelInfo) -> PlannedShot:
    """The shot that the job asks for. A world moves its trajectory to its first camera later.

    A size or length that the model cannot run is refused, and one that it was not trained on is noted.
    """
    width, height = parse_size(job.size) if job.size else (info.defaults.width, info.defaults.height)
    info.require_size(width, height)
    require_video_memory(1, width, height)  # a picture of this size is read, or rendered
    line = (
        None
        if job.trajectory is not None or _is_own(job)
        else MoveLine.read(DEFAULT_MOVE if job.move is None else job.move)
    )
    if line is not None:
        line.log_notes()
    own_length = info.defaults.num_frames
    loaded = None if job.trajectory is None else job.load(job.trajectory)
    if loaded is not None and VideoShape(len(loaded), width, height) in info.trained_shapes:
        own_length = len(loaded)  # as the moves have it that the file was made from
    num_frames = job.num_frames or (own_length if line is None else job.num_frames_of(line, own_length, info.stride))
    info.require_num_frames(num_frames)
    note_untrained(info, VideoShape(num_frames, width, height))
    if loaded is not None:
        assert job.trajectory is not None
        trajectory = _resampled(loaded, job.trajectory, num_frames, info.stride).fit_to(width, height)
        return PlannedShot(trajectory, str(job.trajectory))
    if line is None:
        assert job.world is not None
        style = job.style or DEFAULT_STYLE
        trajectory = sample_clip(style, job.world, num_frames, width, height).true_trajectory
        return PlannedShot(trajectory, f"own trajectory of world {job.world} ({style})")
    depth = _depth_of_world(job, line, num_frames, width, height)
    trajectory = job.make(line, num_frames, width, height, depth)
    if job.world is not None:
        trajectory = trajectory.replace(unit="metre")
    return PlannedShot(trajectory, str(line), job.describe_subject(line, depth))


def note_untrained(info: ModelInfo, shape: VideoShape) -> None:
    """Warn of a size or length that the model was not trained on."""
    if info.trained_shapes and shape not in info.trained_shapes:
        known = " or ".join(map(str, info.trained_shapes))
        _log.warning("%s: the model was trained on %s, so expect a worse video.", shape, known)


def _is_own(job: Job) -> bool:
    """Whether the camera follows the world's own trajectory."""
    return job.world is not None and job.move is None and job.trajectory is None


def _resampled(trajectory: Trajectory, file: Path, num_frames: int, stride: TokenStride) -> Trajectory:
    length = len(trajectory)
    fewer = (length - 1) // stride.frames * stride.frames + 1
    if length < num_frames:
        raise SightlineError(
            f"{file} has {length} frames: expected at least {num_frames}; say --num-frames {fewer}, or stretch it with "
            f"`sightline trajectory convert {file} OUT --frames {num_frames}`."
        )
    if length > num_frames:
        whole = f" (--num-frames {length} keeps them)" if fewer == length else ""
        _log.info("%s has %d frames: resampled to %d over the same time%s.", file, length, num_frames, whole)
    return trajectory.resampled(num_frames)


def _depth_of_world(job: Job, line: MoveLine, num_frames: int, width: int, height: int) -> float | None:
    """The depth of the subject in a world's first frame, in metres; None without a world, or where there is only sky.

    It is the lower quartile in the middle ninth of the picture: the subject stands before its background.
    """
    if job.world is None or job.target_depth is not None or not line.needs_subject:
        return None
    clip = sample_clip(job.style or DEFAULT_STYLE, job.world, num_frames, width, height)
    pose = clip.true_trajectory.camera_to_world[:1]
    lens = job.make(MoveLine.read("static"), 1, width, height).intrinsics
    depth = render_depth(clip.scene, pose[None], lens[None], torch.zeros(1), width, height)[0, 0]
    middle = depth[height // 3 : height - height // 3, width // 3 : width - width // 3]
    nearer = float(middle.flatten().quantile(0.25))
    return nearer if nearer < FAR else None
