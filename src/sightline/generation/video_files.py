"""A video and its cameras from files: a trajectory file lies beside the video, as `sightline generate` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.data.frames import VideoFile
from sightline.errors import SightlineError
from sightline.video import VIDEO_SUFFIXES, read_video_frames

_TRAJECTORIES = ("trajectory.json", "commanded.json")  # of generate and of evaluate, beside their videos
_VIDEOS = ("video.mp4", "generated.mp4")


def find_video(place: Path, trajectory: Path | None = None) -> tuple[Path, Path]:
    """The video file and its trajectory file. place: a video, or a folder that generate or evaluate wrote.

    The cameras of a video are in the given file, or in one of its name, or in trajectory.json or commanded.json beside it.
    """
    video = place
    if place.is_dir():
        found = [place / name for name in _VIDEOS if (place / name).is_file()]
        if not found:
            raise SightlineError(
                f"{place} holds neither {' nor '.join(_VIDEOS)}: expected a folder of generate or evaluate."
            )
        video = found[0]
    if not video.is_file() or video.suffix.lower() not in VIDEO_SUFFIXES:
        raise SightlineError(f"{place} is no video: expected a file {', '.join(VIDEO_SUFFIXES)} or a folder with one.")
    if trajectory is not None:
        return video, trajectory
    beside = [
        file for file in sorted(video.parent.glob(f"{video.stem}.*")) if file.suffix.lower() not in VIDEO_SUFFIXES
    ]
    beside += [video.parent / name for name in _TRAJECTORIES]
    cameras = next((file for file in beside if file.is_file()), None)
    if cameras is None:
        raise SightlineError(f"{video} has no trajectory beside it: expected {video.stem}.json or {_TRAJECTORIES[0]}.")
    return video, cameras


def read_frames(video: Path, count: int) -> np.ndarray:  # -> [T, H, W, 3] uint8
    """All frames of a video of `count` frames."""
    return np.stack([np.asarray(image) for image in read_video_frames(video, range(count), count)])


def read_clip(
    video: Path, cameras: Path, num_frames: int, width: int, height: int, caption: str, start: int = 0
) -> Clip:
    """`num_frames` frames from `start` on at this size, with their cameras anchored at the first."""
    trajectory = Trajectory.load(cameras)
    if start < 0 or start + num_frames > len(trajectory):
        raise SightlineError(
            f"{video} has {len(trajectory)} frames: expected at least {start + num_frames}, for {num_frames} from {start} on."
        )
    part = slice(start, start + num_frames)
    pictures = VideoFile(video, len(trajectory)).read(range(start, start + num_frames), width, height)
    window = trajectory.replace(
        camera_to_world=trajectory.camera_to_world[part], intrinsics=trajectory.intrinsics[part]
    )
    if pictures.original_size != (window.width, window.height):
        window = window.resized(*pictures.original_size)
    return Clip(pictures.frames, window.anchored().fit_to(width, height), caption, "video", video.stem)
