"""RealEstate10K: one txt of poses per clip, and its frames as a video or as pictures named by timestamp.

    ROOT/
      pose_files/[train/]0000cc6d8b108390.txt         also train/*.txt, as the original archive unpacks
      video_clips/[train/]0000cc6d8b108390.mp4        one frame per pose line, as CameraCtrl cuts them
      frames/[train/]0000cc6d8b108390/52553000.png    or pictures named by the timestamp of their pose line
      annotations/train.json                          optional, CameraCtrl: [{clip_name, clip_path, pose_file, caption}]
      captions/train.json                             optional: {"0000cc6d8b108390.mp4": ["caption"]}
      sparse/[train/]0000cc6d8b108390/images.bin      optional: a COLMAP model, for the near depth; also points3D.bin, or .txt

World-to-camera poses, OpenCV axes, intrinsics as fractions of the picture. sightline.data.cut makes shots of YouTube videos.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from sightline.cameras import formats
from sightline.cameras.formats import re10k as txt
from sightline.cameras.formats._files import InputFile, shown
from sightline.cameras.trajectory import Trajectory
from sightline.data.frames import FrameReader, VideoFile
from sightline.data.sources._source import FolderSource, video_or_frames
from sightline.errors import SightlineError
from sightline.video import VIDEO_SUFFIXES


class RealEstate10K(FolderSource):
    kind = "re10k"
    intrinsics_are_relative = True

    def __init__(
        self,
        root: str | Path,
        *,
        split: str = "train",
        poses: str | None = None,
        pictures: str | None = None,
        annotations: str | None = None,
        captions: str | None = None,
        points: str = "sparse",
        name: str | None = None,
        eta: float | None = None,
    ) -> None:
        """poses, pictures, annotations, captions, points: folders and files below the root, if named otherwise than above."""
        options = {
            "split": split,
            "poses": poses,
            "pictures": pictures,
            "annotations": annotations,
            "captions": captions,
            "points": points,
        }
        super().__init__(root, name=name, eta=eta, **options)
        self.split = split
        self._poses, self._pictures, self._points = poses, pictures, points
        self._annotations = self._file(annotations, f"annotations/{split}.json")
        self._captions = self._file(captions, f"captions/{split}.json")

    def shots(self) -> list[str]:
        if self._annotations is not None:
            return sorted(self._listed)
        return sorted(path.stem for path in self._pose_folder.glob("*.txt"))

    def trajectory(self, shot: str) -> Trajectory:
        trajectory = formats.load(self.pose_file(shot), format="re10k")
        if not self.reads_near_depth:
            return trajectory
        folders = [self.root / self._points / self.split / shot, self.root / self._points / shot]
        models = [folder / inside for folder in folders for inside in ("", "0", "sparse/0")]
        names = [str(stamp) for stamp in txt.timestamps(InputFile(self.pose_file(shot)))]
        return self.with_near_depth(trajectory, models, names)

    def frames(self, shot: str) -> FrameReader:
        stamps = txt.timestamps(InputFile(self.pose_file(shot)))
        listed = self._listed.get(shot, {}).get("clip_path")
        if isinstance(listed, str) and listed.endswith(VIDEO_SUFFIXES):
            return VideoFile(self.root / listed, len(stamps))
        names = [f"{self.split}/", ""]
        folder = self.folder(
            self._pictures, [f"{kind}/{name}" for kind in ("frames", "video_clips") for name in names], "frames"
        )
        return video_or_frames(folder, shot, [str(stamp) for stamp in stamps], len(stamps))

    def caption(self, shot: str, indices: Any) -> str | None:
        caption = self._listed.get(shot, {}).get("caption") or self._named_captions.get(shot)
        caption = caption[0] if isinstance(caption, list) and caption else caption
        return caption if isinstance(caption, str) and caption.strip() else None

    def _file(self, name: str | None, default: str) -> Path | None:
        path = self.root / (name or default)
        if name and not path.is_file():
            raise SightlineError(f"{path}: found no file there, expected a json.")
        return path if path.is_file() else None

    @cached_property
    def _pose_folder(self) -> Path:
        return self.folder(self._poses, [f"pose_files/{self.split}", "pose_files", self.split], "pose files")

    def pose_file(self, shot: str) -> Path:
        """The txt of a shot's poses."""
        listed = self._listed.get(shot, {}).get("pose_file")
        return self.root / listed if isinstance(listed, str) else self._pose_folder / f"{shot}.txt"

    @cached_property
    def _listed(self) -> dict[str, dict[str, Any]]:
        """Entries of CameraCtrl's list by clip name."""
        if self._annotations is None:
            return {}
        file = InputFile(self._annotations)
        entries = {}
        for index, entry in enumerate(file.frames(file.json, "the file")):
            clip = file.field(entry, "clip_name", f"entry {index}")
            if not isinstance(clip, str) or clip in entries:
                raise file.error(f"found {shown(clip)} as clip_name of entry {index}, expected a name of its own.")
            entries[clip] = entry
        return entries

    @cached_property
    def _named_captions(self) -> dict[str, Any]:
        if self._captions is None:
            return {}
        document = InputFile(self._captions).json
        if not isinstance(document, dict):
            raise SightlineError(f"{self._captions}: found {shown(document)}, expected an object of captions by name.")
        return {Path(clip).stem: caption for clip, caption in document.items()}
