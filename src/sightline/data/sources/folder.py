"""Any folder of videos with cameras, in any trajectory format that the package reads.

    ROOT/
      [VIDEOS/]name.mp4             or a folder `name` of pictures; at any depth, whose path is part of the name
      [CAMERAS/]name.json           the cameras of that video, one per frame: any ending, any format of docs/formats.md
      [CAMERAS/]name/sparse/0/      or a COLMAP model, also directly in the folder `name`
      captions.json                 optional: {"name": "caption"}

VIDEOS and CAMERAS are the options `videos` and `cameras`, by default ROOT itself. The output folder of ViPE is read with
`folder:OUT?videos=rgb&cameras=pose&unit=metre`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from sightline.cameras import formats
from sightline.cameras.formats._files import natural_key
from sightline.cameras.trajectory import Trajectory
from sightline.data.frames import FrameReader, ImageFiles, VideoFile
from sightline.data.sources._source import FolderSource
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.images import IMAGE_SUFFIXES, read_image
from sightline.video import VIDEO_SUFFIXES, video_info

# Formats that do not carry the size of the picture: their lens is for the video's own.
_SIZED_BY_VIDEO = ("re10k", "panshot", "recammaster", "motionctrl", "tum", "kitti", "matrices")
_CAPTIONS = "captions.json"
_IN_A_MODEL = re.compile(r"(/colmap)?(/sparse)?(/0)?$")  # where COLMAP's models lie in the folder of a video


class VideoFolder(FolderSource):
    kind = "folder"

    def __init__(
        self,
        root: str | Path,
        *,
        videos: str = ".",
        cameras: str = ".",
        format: str | None = None,
        focal_mm: float | None = None,
        axes: str | None = None,
        direction: str | None = None,
        captions: str | None = None,
        unit: str = "scene",
        name: str | None = None,
        eta: float | None = None,
    ) -> None:
        """videos, cameras: folders below the root. format: of the camera files; by default detected from each.

        focal_mm: for formats without a lens, on a sensor 36 mm wide. axes, direction: of files of plain matrices.
        captions: the file of captions below the root.
        unit: of positions, `scene` or `metre`, where a camera file does not state it.
        """
        self._reader_options = {"focal_mm": focal_mm, "axes": axes, "direction": direction}
        options = {"videos": videos, "cameras": cameras, "format": format, "captions": captions, "unit": unit}
        super().__init__(root, name=name, eta=eta, **options, **self._reader_options)
        if unit not in ("scene", "metre"):
            raise SightlineError(f"unit of {self.kind} is {unit!r}: expected scene or metre.")
        self._videos, self._cameras = (self.folder(place, [], "videos or cameras") for place in (videos, cameras))
        self._format, self._unit = format, unit
        self._captions_file = self.root / (captions or _CAPTIONS)
        if captions and not self._captions_file.is_file():
            raise SightlineError(f"{self._captions_file}: found no file there, expected a json of captions.")

    def shots(self) -> list[str]:
        return sorted(self._pairs)

    def trajectory(self, shot: str) -> Trajectory:
        video, cameras = self._pairs[shot]
        chosen = self._format or formats.detect(cameras)
        accepted = formats.FORMATS[chosen].read_options if chosen in formats.FORMATS else []
        width, height, fps = _size(video)
        options: dict[str, Any] = {}
        if chosen in _SIZED_BY_VIDEO:
            options = {"width": width, "height": height}
        if fps is not None and "fps" in accepted:
            options["fps"] = fps
        options |= {
            name: value for name, value in self._reader_options.items() if value is not None and name in accepted
        }
        trajectory = formats.load(cameras, format=chosen, **options)
        return trajectory.replace(unit=self._unit) if trajectory.unit == "scene" else trajectory

    def frames(self, shot: str) -> FrameReader:
        video, length = self._pairs[shot][0], self.length(shot)
        if video.is_file():
            return VideoFile(video, length)
        files = _pictures(video)
        if len(files) != length:
            raise SightlineError(f"{video}: found {len(files)} pictures, expected {length}, one for each pose.")
        return ImageFiles(files)

    def caption(self, shot: str, indices: Any) -> str | None:
        caption = self._captions.get(shot)
        return caption if isinstance(caption, str) and caption.strip() else None

    @cached_property
    def _captions(self) -> dict[str, Any]:
        return read_json(self._captions_file, "captions by name") if self._captions_file.is_file() else {}

    @cached_property
    def _pairs(self) -> dict[str, tuple[Path, Path]]:
        """The video (or its folder of pictures) and the camera file of each shot."""
        cameras: dict[str, Path] = {}
        for path in self._camera_paths():
            name = path.relative_to(self._cameras).as_posix()
            name = _IN_A_MODEL.sub("", name) if path.is_dir() else name.removesuffix(path.suffix)
            if name in cameras:
                raise SightlineError(
                    f"{cameras[name]} and {path.name} are both the cameras of {name}: expected one file."
                )
            cameras[name] = path
        pairs = {}
        for name, file in cameras.items():
            candidates = [self._videos / f"{name}{ending}" for ending in VIDEO_SUFFIXES]
            found = next((video for video in candidates if video.is_file()), self._videos / name)
            if found.is_file() or (found.is_dir() and _pictures(found)):
                pairs[name] = (found, file)
        if not pairs:
            raise SightlineError(
                f"{self.root}: found no video with a camera file of the same name, expected some (see the options videos and "
                "cameras)."
            )
        return pairs

    def _camera_paths(self) -> Iterator[Path]:
        """The files that may hold cameras, and the folders of COLMAP models."""
        files = dict.fromkeys(sorted(path for path in self._cameras.rglob("*") if path.is_file()))
        models = {
            file.parent
            for file in files
            if file.stem == "images" and file.suffix in (".txt", ".bin") and file.with_stem("cameras") in files
        }
        yield from sorted(models)
        for file in files:
            is_other = file.name.startswith(".") or file == self._captions_file or file.parent in models
            if not is_other and not file.name.lower().endswith((*VIDEO_SUFFIXES, *IMAGE_SUFFIXES)):
                yield file


def _pictures(folder: Path) -> list[Path]:
    names = [name for name in os.listdir(folder) if name.lower().endswith(IMAGE_SUFFIXES)]
    return [folder / name for name in sorted(names, key=natural_key)]


def _size(video: Path) -> tuple[int, int, float | None]:
    """Width, height, and frames per second where they are known."""
    if video.is_file():
        info = video_info(video)
        return info.width, info.height, info.fps
    first = _pictures(video)[0]
    return *read_image(first, f"{first}:").size, None
