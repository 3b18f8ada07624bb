"""Source: the protocol of a dataset, and helpers for datasets that are stored in folders."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.checks import number
from sightline.data.clip_spec import ClipSpec
from sightline.data.frames import FrameReader, ImageFiles, VideoFile
from sightline.data.near_depth import find_sparse_model, near_depth_from_points
from sightline.data.shot_batch import ShotBatch
from sightline.documents import DocumentError, parse_json, read_text
from sightline.errors import SightlineError
from sightline.files import reason
from sightline.images import IMAGE_SUFFIXES
from sightline.names import require_plain_name
from sightline.video import VIDEO_SUFFIXES


class Source(ABC):
    """A dataset of shots with cameras. A shot is one continuous take and is identified by its name.

    Listing shots and reading a camera touch no pixels. Broken data raises a SightlineError.

    name: of the source in clip names, statistics and mixtures.
    eta: factor that brings the source's positions to the common scale (paper: 1, 1, 1 and 20 for OmniWorld).
    """

    kind: str
    default_eta: float = 1.0
    intrinsics_are_relative: bool = False
    """True where intrinsics are stored as fractions of the frame, so that frames may have any size and aspect ratio."""

    def __init__(self, name: str | None = None, eta: float | None = None) -> None:
        self.name = name or self.kind
        require_plain_name("name", self.name)
        self.eta = number("eta", self.default_eta if eta is None else eta, above=0.0)

    @abstractmethod
    def shots(self) -> list[str]:
        """Names of all shots, in an order that does not depend on the file system."""

    @abstractmethod
    def trajectory(self, shot: str) -> Trajectory:
        """The cameras of a whole shot, in the source's own world and units."""

    @abstractmethod
    def frames(self, shot: str) -> FrameReader:
        """The frames of a shot, one per pose."""

    def length(self, shot: str) -> int:
        """Number of frames of a shot."""
        return len(self.trajectory(shot))

    def caption(self, shot: str, indices: Sequence[int]) -> str | None:
        """The caption of these frames of a shot; None where the source has none."""
        return None

    def has_caption(self, shot: str, indices: Sequence[int]) -> bool:
        """Whether `caption` has one for these frames."""
        return bool(self.caption(shot, indices))

    def scene(self, shot: str) -> str:
        """The place that a shot shows. All shots of a scene are in the same part of the split."""
        return shot

    def move(self, shot: str) -> str:
        """The line of the move language that a shot's camera follows; empty where it follows none."""
        return ""

    def for_spec(self, spec: ClipSpec) -> Source:
        """The source as these clips need it. A source that renders its shots gives them the clips' size and length."""
        return self

    def renders(self, spec: ClipSpec) -> bool:
        """Whether a shot is rendered from a 3D scene at the size and length of one such clip. Recorded video is not."""
        return False

    def sample_shots(self, shots: Sequence[str]) -> ShotBatch:
        """The scenes and cameras of several shots, not yet rendered. Only for sources that render their shots."""
        raise SightlineError(f"{self.name} is recorded video: expected a source that renders its shots.")

    def knows_depth(self, spec: ClipSpec) -> bool:
        """Whether `depth` is known for such clips."""
        return False

    def depth(self, shot: str, frame: int, spec: ClipSpec) -> np.ndarray | None:  # -> [H, W]
        """Depth of a frame along the optical axis, in the unit of the clip's trajectory; None where it is unknown."""
        return None

    def settings(self) -> dict[str, Any]:
        """Everything that its clips depend on, apart from where the source is stored."""
        return {"kind": self.kind, "name": self.name, "eta": self.eta}

    def in_metres(self) -> Source:
        """The same shots with positions in metres, for a source that renders them; others have no such twin."""
        raise SightlineError(f"the source {self.name} renders no clips: expected procedural worlds.")

    def units_per_metre(self, reported: Tensor) -> Tensor:  # [B] -> [B]
        """The factor on metric positions that gives those of this source's clips. reported: the scale of each shot's world."""
        raise SightlineError(f"the source {self.name} renders no clips: expected procedural worlds.")


class FolderSource(Source):
    """A source that is stored in a folder. options: those of its kind, which its clips depend on."""

    def __init__(self, root: str | Path, *, name: str | None, eta: float | None, **options: Any) -> None:
        super().__init__(name, eta)
        self.options = options
        self.reads_near_depth = True
        self.root = Path(root)
        if not self.root.is_dir():
            raise SightlineError(f"{self.root}: found no folder there, expected {self.kind} data.")

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self.options}

    def for_spec(self, spec: ClipSpec) -> Source:
        """Points of a reconstruction are large, and are only read where clips are divided by their near depth."""
        source = copy.copy(self)
        source.reads_near_depth = spec.near_depth
        return source

    def with_near_depth(self, trajectory: Trajectory, models: Sequence[Path], names: Sequence[str]) -> Trajectory:
        """The trajectory with the near depth of the first sparse model that exists. names: the picture of each frame."""
        if not self.reads_near_depth or (model := find_sparse_model(models)) is None:
            return trajectory
        return trajectory.replace(near_depth=near_depth_from_points(model, trajectory, names))

    def folder(self, name: str | None, candidates: Sequence[str], what: str) -> Path:
        """The folder that an option names, or without one the first candidate that exists."""
        for candidate in [name] if name else candidates:
            if (self.root / candidate).is_dir():
                return self.root / candidate
        expected = name or " or ".join(candidates)
        raise SightlineError(f"{self.root}: found no folder of {what}, expected {expected}.")


def folders_with(root: Path, file_name: str) -> list[Path]:
    """All folders below `root` that contain this file, sorted. Folders inside such a folder are not searched.

    Links are followed, and a folder that several paths lead to is found once: loops end, and no scene is there twice. Its
    name is that of the path without links, if there is one.
    """
    found: list[Path] = []
    waiting, linked = [root], list[Path]()  # links come last
    seen: set[tuple[int, int]] = set()
    while waiting or linked:
        folder = waiting.pop() if waiting else linked.pop(0)
        try:
            status, items = folder.stat(), sorted(folder.iterdir())
        except OSError:  # not ours to read, such as lost+found
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        if (folder / file_name).is_file():
            found.append(folder)
            continue
        waiting += [item for item in items if item.is_dir() and not item.is_symlink()]
        linked += [item for item in items if item.is_dir() and item.is_symlink()]
    return sorted(found)


def video_or_frames(folder: Path, stem: str, frame_names: Sequence[str], frames: int) -> FrameReader:
    """`folder/stem.mp4`, or a folder `folder/stem` with one image per name, whatever its suffix."""
    for ending in VIDEO_SUFFIXES:
        if (folder / f"{stem}{ending}").is_file():
            return VideoFile(folder / f"{stem}{ending}", frames)
    if not (folder / stem).is_dir():
        raise SightlineError(f"{folder / stem}: found neither a video nor a folder of that name, expected the frames.")
    count = sum(name.lower().endswith(IMAGE_SUFFIXES) for name in os.listdir(folder / stem))
    if count > frames:  # a missing image is reported by name when it is read
        raise SightlineError(f"{folder / stem}: found {count} pictures, expected {frames}, one for each pose.")
    return ImageFiles(picture_files(folder / stem, frame_names))


def picture_files(folder: Path, stems: Sequence[str]) -> list[Path]:
    """The image file of each stem. A missing one is named with the first suffix, and raises when it is read."""
    try:
        existing = {Path(name).stem: name for name in os.listdir(folder) if name.lower().endswith(IMAGE_SUFFIXES)}
    except OSError as error:
        raise SightlineError(f"{folder}: cannot be listed ({reason(error)}), expected a folder of frames.") from None
    return [folder / existing.get(stem, f"{stem}{IMAGE_SUFFIXES[0]}") for stem in stems]


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line of a jsonl file."""
    lines = read_text(path, "one JSON object per line").split("\n")
    for line, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            entry = parse_json(text)
        except DocumentError:
            entry = None
        if not isinstance(entry, dict):
            raise SightlineError(f"{path}, line {line}: found no JSON object, expected one.")
        yield line, entry
