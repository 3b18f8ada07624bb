"""The rows of a gallery: videos of generate and clips of evaluate, with the cameras they were given and those estimated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sightline.cameras.trajectory import Trajectory
from sightline.checks import whole_number
from sightline.errors import SightlineError
from sightline.evaluation.units import drawn_with
from sightline.figures.gallery import GalleryRow
from sightline.generation.video_files import find_video, read_frames

_ESTIMATED = "estimated-from-the-generated-video.json"


def gallery_rows(places: Sequence[Path], clips: int = 4) -> list[GalleryRow]:
    """places: videos, folders of generate, or runs of evaluate, of which the first `clips` clips are shown."""
    if not places:
        raise SightlineError("no video is given: expected videos, folders of generate or runs of evaluate.")
    rows = []
    for place in places:
        if (place / "clips").is_dir():
            folders = sorted(folder for folder in (place / "clips").iterdir() if (folder / "generated.mp4").is_file())
            if not folders:
                raise SightlineError(f"{place} holds no generated clip: expected a run of evaluate.")
            rows += [_row(folder, f"{place.name}: {folder.name}") for folder in folders[: whole_number("clips", clips)]]
        else:
            rows.append(_row(place, place.stem if place.is_file() else place.name))
    return rows


def _row(place: Path, label: str) -> GalleryRow:
    video, cameras = find_video(place)
    trajectory = Trajectory.load(cameras)
    videos, trajectories = {"generated": read_frames(video, len(trajectory))}, {"commanded": trajectory}
    truth, estimated = video.parent / "true.mp4", video.parent / _ESTIMATED
    if place.is_dir() and truth.is_file():
        videos = {"true": read_frames(truth, len(trajectory)), **videos}
    if place.is_dir() and estimated.is_file():
        trajectories |= drawn_with(trajectory, {"estimated": Trajectory.load(estimated)})
    if len(videos) == 1:
        videos = {"": videos["generated"]}
    return GalleryRow(label, videos, trajectories)
