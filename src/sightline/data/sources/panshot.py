"""PanShot, in the layout that UCPE's own loader reads: perspective shots cut from panoramic videos.

    ROOT/
      PanShot/meta-train/<video>-<clip>.json     [{"videos": [{"video", "pose", "x_fov", "xi"}]}]
      PanShot/pose-train/<pose>.npy              [81, 3, 4]
      PanShot/videos-train/<video>.mp4           or a folder of pictures 000000.png, 000001.png, ...
      PanShot/captioned-train.jsonl              optional: {"video", "caption"}
      PanFlow/near_plane_depth-train.jsonl       optional: {"video_id", "clip_id", "near_depth"}

Camera-to-world poses with OpenCV axes in a world whose y is down, first camera at the origin; x_fov in degrees across
the width, seen through the unified model's xi. Several shots of one panorama share a scene.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from sightline.cameras import formats
from sightline.cameras.formats._files import InputFile
from sightline.cameras.trajectory import Trajectory
from sightline.data.frames import FrameReader
from sightline.data.sources._source import FolderSource, json_lines, video_or_frames
from sightline.errors import SightlineError


class PanShot(FolderSource):
    kind = "panshot"

    def __init__(
        self,
        root: str | Path,
        *,
        split: str = "train",
        shots: str = "PanShot",
        depths: str = "PanFlow",
        width: int = 1280,
        height: int = 720,
        fps: float = 16.0,
        name: str | None = None,
        eta: float | None = None,
    ) -> None:
        """shots, depths: the two folders. width, height: of the original frames, whose aspect ratio determines the intrinsics."""
        lens = {"width": width, "height": height, "fps": fps}
        super().__init__(root, name=name, eta=eta, split=split, shots=shots, depths=depths, **lens)
        self.split = split
        self._folder = self.folder(shots, [], "shots")
        self._depth_file = self.root / depths / f"near_plane_depth-{split}.jsonl"
        self._lens = lens

    def shots(self) -> list[str]:
        return sorted(self._entries)

    def trajectory(self, shot: str) -> Trajectory:
        entry = self._entries[shot]
        near_depth = self._near_depths.get(entry["scene"])
        for broken in (entry.get("broken"), near_depth):
            if isinstance(broken, SightlineError):
                raise broken
        trajectory = formats.load(
            self._part("pose") / Path(str(entry.get("pose"))).with_suffix(".npy"),
            format="panshot", x_fov=_number(entry, "x_fov", shot), xi=_number(entry, "xi", shot), **self._lens,
        )  # fmt: skip
        return trajectory.replace(near_depth=near_depth, unit="metre")

    def frames(self, shot: str) -> FrameReader:
        frames = len(self.trajectory(shot))
        return video_or_frames(self._part("videos"), shot, [f"{index:06d}" for index in range(frames)], frames)

    def caption(self, shot: str, indices: Any) -> str | None:
        return self._captions.get(shot)

    def scene(self, shot: str) -> str:
        return str(self._entries[shot]["scene"])

    def _part(self, what: str) -> Path:
        return self._folder / f"{what}-{self.split}"

    @cached_property
    def _entries(self) -> dict[str, dict[str, Any]]:
        """Entries of the meta files by video name, each with the panorama it is cut from.

        A meta file that cannot be read has an entry with its error under its own name, so that the others can be used.
        """
        if not self._part("meta").is_dir():
            raise SightlineError(f"{self._part('meta')}: found no folder there, expected PanShot's json files.")
        entries: dict[str, dict[str, Any]] = {}
        for path in sorted(self._part("meta").glob("*.json")):
            try:
                entries |= _videos(InputFile(path))
            except SightlineError as error:
                entries[path.stem] = {"broken": error, "scene": path.stem}
        return entries

    @cached_property
    def _captions(self) -> dict[str, str]:
        path = self._folder / f"captioned-{self.split}.jsonl"
        entries = [entry for _, entry in json_lines(path)] if path.is_file() else []
        return {str(entry.get("video")): str(entry["caption"]) for entry in entries if entry.get("caption")}

    @cached_property
    def _near_depths(self) -> dict[str, float | SightlineError]:
        """Near depth of each scene, or the error in its line."""
        depths: dict[str, float | SightlineError] = {}
        if self._depth_file.is_file():
            for line, entry in json_lines(self._depth_file):
                depth, scene = entry.get("near_depth"), f"{entry.get('video_id')}-{entry.get('clip_id')}"
                if isinstance(depth, (int, float)) and not isinstance(depth, bool) and 0 < depth < float("inf"):
                    depths[scene] = float(depth)
                else:
                    where = f"{self._depth_file}, line {line}"
                    depths[scene] = SightlineError(
                        f"{where}: found {json.dumps(depth)} as near_depth, expected a number above 0."
                    )
        return depths


def _videos(file: InputFile) -> dict[str, dict[str, Any]]:
    """The shots that one meta file lists."""
    return {
        str(file.field(video, "video", "a video")): {**video, "scene": file.path.stem}
        for index, match in enumerate(file.frames(file.json, "the file"))
        for video in file.frames(file.field(match, "videos", f"entry {index}"), "videos")
    }


def _number(entry: dict[str, Any], key: str, shot: str) -> float:
    try:
        return float(entry[key])  # x_fov is written as text in places
    except (KeyError, TypeError, ValueError):
        raise SightlineError(f"{key} of {shot} is {entry.get(key)!r}: expected a number.") from None
