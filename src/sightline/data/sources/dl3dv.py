"""DL3DV: one folder per scene, with nerfstudio's transforms.json beside the pictures.

    ROOT/
      [1K/]<scene hash>/[nerfstudio/]transforms.json    any depth: every folder that holds one is a scene
      [1K/]<scene hash>/[nerfstudio/]images_4/frame_00001.png
      [1K/]<scene hash>/colmap/sparse/0/points3D.bin    optional: a COLMAP model with images.bin, for the near depth

Camera-to-world poses with OpenGL axes; intrinsics in pixels of the full picture, whatever size the folder of pictures
has. Lens distortion is ignored; the images keep it. The scenes have no captions.
"""

from __future__ import annotations

from pathlib import Path

from sightline.cameras import formats
from sightline.cameras.formats import nerfstudio
from sightline.cameras.formats._files import InputFile
from sightline.cameras.trajectory import Trajectory
from sightline.data.frames import FrameReader, ImageFiles
from sightline.data.sources._source import FolderSource, folders_with, picture_files
from sightline.errors import SightlineError

_POSES = "transforms.json"
_POINT_FOLDERS = ("colmap/sparse/0", "sparse/0")
_PICTURE_FOLDERS = ("images_4", "images_2", "images", "images_8")  # 960x540 suits 832x480 best


class DL3DV(FolderSource):
    kind = "dl3dv"

    def __init__(
        self,
        root: str | Path,
        *,
        images: str | None = None,
        fps: float = 16.0,
        points: str | None = None,
        name: str | None = None,
        eta: float | None = None,
    ) -> None:
        """images: the folder of images in each scene; by default the first of images_4, images_2, images, images_8.

        points: the folder of a COLMAP model in each scene; by default colmap/sparse/0 or sparse/0, in the scene or above it.
        """
        super().__init__(root, name=name, eta=eta, images=images, fps=fps, points=points)
        self._images, self._fps, self._points = images, fps, points

    def shots(self) -> list[str]:
        return [folder.relative_to(self.root).as_posix() for folder in folders_with(self.root, _POSES)]

    def trajectory(self, shot: str) -> Trajectory:
        trajectory = formats.load(self.root / shot / _POSES, format="nerfstudio", fps=self._fps)
        if not self.reads_near_depth:
            return trajectory
        folders = (
            [self.root / shot, (self.root / shot).parent] if self._points is None else [self.root / shot / self._points]
        )
        inside = _POINT_FOLDERS if self._points is None else ("",)
        models = [folder / place for folder in folders for place in inside]
        return self.with_near_depth(trajectory, models, self._frame_names(shot))

    def frames(self, shot: str) -> FrameReader:
        stems = self._frame_names(shot)
        candidates = (self._images,) if self._images else _PICTURE_FOLDERS
        for folder in candidates:
            if (self.root / shot / folder).is_dir():
                return ImageFiles(picture_files(self.root / shot / folder, stems))
        raise SightlineError(f"{self.root / shot}: found no folder of pictures, expected {' or '.join(candidates)}.")

    def _frame_names(self, shot: str) -> list[str]:
        return [Path(path).stem for path in nerfstudio.picture_paths(InputFile(self.root / shot / _POSES))]
