"""Cutting RealEstate10K out of whole YouTube videos: one short video per pose file, with one frame per pose line.

ROOT/train/0000cc6d8b108390.txt          as the archive unpacks: the URL of a video, then a timestamp and a pose per line
VIDEOS/QShWPZxTDoE.mp4                   the video of that URL, named by its id (yt-dlp -o "%(id)s.%(ext)s")
ROOT/video_clips/train/0000cc6d8b108390.mp4     what is written
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import numpy as np
from PIL import Image

from sightline.cameras.formats import re10k as txt
from sightline.cameras.formats._build import fps_from_seconds
from sightline.cameras.formats._files import InputFile
from sightline.checks import whole_number
from sightline.data.clip import Skips
from sightline.data.sources.re10k import RealEstate10K
from sightline.errors import SightlineError
from sightline.video import VIDEO_SUFFIXES, read_video_at, save_video

_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Cuts:
    """What a run has done. urls: of the videos that are not there, each once."""

    written: int
    existing: int
    urls: list[str]
    skips: Skips


def cut_shots(
    root: Path,
    videos: Path,
    *,
    split: str = "train",
    height: int = 480,
    workers: int = 1,
    progress: Callable[[Sequence[str], str], Iterable[str]] = lambda shots, _: shots,
) -> Cuts:
    """Cut every shot whose video is in the folder `videos`; shots that were cut before are left alone.

    height: pictures are scaled to this height. workers: processes that decode and encode.
    """
    whole_number("height", height)
    if not videos.is_dir():
        raise SightlineError(f"videos is {videos}: found no folder there, expected one of downloaded videos.")
    source = RealEstate10K(root, split=split)
    output = Path(root) / "video_clips" / split
    downloaded = {path.stem: path for path in sorted(videos.iterdir()) if path.suffix.lower() in VIDEO_SUFFIXES}
    missing, skips, existing, tasks = dict[str, None](), Skips(), 0, dict[str, tuple[Path, Path, Path]]()
    for shot in source.shots():
        try:
            url = _url(source.pose_file(shot))
        except SightlineError as error:
            skips.report(source.name, shot, error)
            continue
        if (target := output / f"{shot}.mp4").is_file():
            existing += 1
        elif (video := downloaded.get(video_id(url))) is None:
            missing[url] = None
        else:
            tasks[shot] = source.pose_file(shot), video, target
    failures = _in_processes(partial(_cut, height=height), tasks, workers, progress)
    for shot, failure in failures.items():
        skips.report(source.name, shot, SightlineError(failure))
    return Cuts(len(tasks) - len(failures), existing, list(missing), skips)


def video_id(url: str) -> str:
    """The id of a YouTube video: the v of its URL, or the last part of a short one."""
    parts = urlparse(url)
    return parse_qs(parts.query).get("v", [parts.path.rstrip("/").rpartition("/")[2]])[0]


def _url(pose_file: Path) -> str:
    file = InputFile(pose_file)
    first = file.rows[0][1].strip() if file.rows else ""
    if not first.startswith(("http://", "https://")):
        raise SightlineError(f"{pose_file}, line 1: found {first[:40]!r}, expected the URL of a video.")
    return first


def _cut(task: tuple[Path, Path, Path], height: int) -> str | None:
    """Write one shot; returns why it cannot be."""
    pose_file, video, target = task
    try:
        seconds = [stamp / _MICROSECONDS for stamp in txt.timestamps(InputFile(pose_file))]
        frames = [np.asarray(_scaled(frame, height)) for frame in read_video_at(video, seconds)]
        save_video(np.stack(frames), target, fps=fps_from_seconds(seconds))
    except SightlineError as error:
        return str(error)
    return None


def _scaled(frame: Image.Image, height: int) -> Image.Image:
    """The frame at this height and an even width, which H.264 needs. RealEstate10K's intrinsics are fractions of the picture."""
    height += height % 2
    width = 2 * round(frame.width * height / frame.height / 2)
    return frame.resize((max(width, 2), height), Image.Resampling.LANCZOS)


def _in_processes(
    work: Callable[[tuple[Path, Path, Path]], str | None],
    tasks: dict[str, tuple[Path, Path, Path]],
    workers: int,
    progress: Callable[[Sequence[str], str], Iterable[str]],
) -> dict[str, str]:
    """The failures by shot."""
    with ProcessPoolExecutor(whole_number("workers", workers), multiprocessing.get_context("spawn")) as pool:
        results = (map if workers == 1 else pool.map)(work, tasks.values())  # an unused pool starts no process
        return {shot: failure for shot in progress(list(tasks), "cutting shots") if (failure := next(results))}
