"""OmniWorld-Game: one folder per scene, its frames group_by_name into splits; a split is a shot.

    ROOT/                                      any depth: every folder that holds a split_info.json is a scene
      <scene>/split_info.json                  {"split": [[0, 1, 2, ...], ...], ...}: frame numbers of each split
      <scene>/camera/split_0.json              focals, cx, cy, quats (w x y z), trans
      <scene>/color/000000.png                 named by frame number; also videos/... where poses lie in annotations/...
      <scene>/text/<first>_<last>.json         optional captions of 81-frame segments, by frame number
      <scene>/fps.txt                          optional

World-to-camera poses, OpenCV axes, in the scale of DROID-SLAM; hence eta is 20.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from sightline.cameras import formats
from sightline.cameras.formats._files import InputFile, shown
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number
from sightline.data.frames import FrameReader, ImageFiles
from sightline.data.sources._source import FolderSource, folders_with, picture_files
from sightline.documents import read_text
from sightline.errors import SightlineError

_RELEASE_FPS = 24.0
_SPLITS = "split_info.json"


class OmniWorld(FolderSource):
    kind = "omniworld"
    default_eta = 20.0

    def __init__(
        self,
        root: str | Path,
        *,
        color: str = "color",
        caption: str = "Video_Caption",
        name: str | None = None,
        eta: float | None = None,
    ) -> None:
        """color: the folder of frames in each scene. caption: the key of the caption; Short_Caption where it is missing."""
        super().__init__(root, name=name, eta=eta, color=color, caption=caption)
        self._color, self._caption_keys = color, (caption, "Short_Caption")

    def shots(self) -> list[str]:
        names = []
        for scene in folders_with(self.root, _SPLITS):
            named = [re.fullmatch(r"split_(\d{1,9})", path.stem) for path in (scene / "camera").glob("split_*.json")]
            cameras = [int(name[1]) for name in named if name]
            names += [f"{scene.relative_to(self.root).as_posix()}/split_{index}" for index in sorted(cameras)]
        return names

    def trajectory(self, shot: str) -> Trajectory:
        folder, camera = self._parts(shot)
        trajectory = formats.load(camera, format="omniworld", fps=self._fps(folder))
        frames = self._frame_numbers(shot)
        if len(trajectory) != len(frames):
            raise SightlineError(f"{camera}: found {len(trajectory)} poses, expected {len(frames)} as {_SPLITS} says.")
        return trajectory

    def frames(self, shot: str) -> FrameReader:
        folder, _ = self._parts(shot)
        color = folder / self._color
        if not color.is_dir():
            color = Path(*("videos" if part == "annotations" else part for part in color.parts))
        return ImageFiles(picture_files(color, [f"{frame:06d}" for frame in self._frame_numbers(shot)]))

    def caption(self, shot: str, indices: Sequence[int]) -> str | None:
        """The caption of the segment that shares the most frames with the window."""
        frames = self._frame_numbers(shot)
        first, last = frames[indices[0]], frames[indices[-1]]
        shared = [
            (min(last, end) - max(first, start), -start, path)
            for start, end, path in _segments(self._parts(shot)[0] / "text")
        ]
        if not shared or max(shared)[0] < 0:
            return None
        document = InputFile(max(shared)[2]).json
        texts = [document.get(key) for key in self._caption_keys] if isinstance(document, dict) else []
        return next((text for text in texts if isinstance(text, str) and text.strip()), None)

    def scene(self, shot: str) -> str:
        return shot.rpartition("/")[0]

    def _parts(self, shot: str) -> tuple[Path, Path]:
        """The scene's folder and the split's camera file."""
        scene, _, split = shot.rpartition("/")
        return self.root / scene, self.root / scene / "camera" / f"{split}.json"

    def _frame_numbers(self, shot: str) -> list[int]:
        folder, camera = self._parts(shot)
        file, index = InputFile(folder / _SPLITS), int(camera.stem.removeprefix("split_"))
        splits = file.field(file.json, "split")
        if not isinstance(splits, list) or index >= len(splits):
            raise file.error(f"found {shown(splits)} as splits, expected one for {camera.name}.")
        frames = file.frames(splits[index], f"split {index}")
        numbers = [file.whole_number(frame, f"a frame of split {index}", least=0, most=10**9) for frame in frames]
        if any(after <= before for before, after in pairwise(numbers)):
            raise file.error(f"found frame numbers of split {index} out of order, expected them to ascend.")
        return numbers

    @staticmethod
    def _fps(folder: Path) -> float:
        path = folder / "fps.txt"
        if not path.is_file():
            return _RELEASE_FPS
        expected = "frames per second"
        words = read_text(path, expected, max_bytes=2**10).split()
        return number(f"{path}: the frame rate", words[0] if words else "", above=0.0)


def _segments(folder: Path) -> list[tuple[int, int, Path]]:
    """(first frame, last frame, file) of each caption."""
    named = [(re.fullmatch(r"(\d+)_(\d+)", path.stem), path) for path in sorted(folder.glob("*.json"))]
    return [(int(name[1]), int(name[2]), path) for name, path in named if name]
