"""Frames of a shot by index, from image files or from a video file, fitted to the size of the clips as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from sightline.errors import SightlineError
from sightline.images import fit_image, read_image
from sightline.video import read_video_frames


@dataclass(frozen=True, eq=False)
class FittedFrames:
    """Frames of a shot, scaled to cover a size and cropped in the middle."""

    frames: np.ndarray  # [T, H, W, 3] uint8
    original_size: tuple[int, int]  # (width, height) before fitting


class FrameReader(Protocol):
    """The frames of one shot."""

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        """Frames `indices` (ascending), each fitted to the size as Trajectory.fit_to does to the camera."""


@dataclass(frozen=True)
class ImageFiles:
    """One image file per frame, in order."""

    files: Sequence[Path]

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        return fit_frames((_read_frame(self.files[index]) for index in indices), width, height, self.files[0].parent)


@dataclass(frozen=True)
class VideoFile:
    """A video with one frame per pose."""

    file: Path
    expected_frames: int

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        return fit_frames(read_video_frames(self.file, indices, self.expected_frames), width, height, self.file)


def fit_frames(images: Iterable[Image.Image], width: int, height: int, place: str | Path) -> FittedFrames:
    """Images of one size, each fitted by `fit_image`. place: the file or folder that an error names."""
    frames, sizes = [], set()
    for image in images:
        sizes.add(image.size)
        frames.append(np.asarray(fit_image(image, width, height)))
    if len(sizes) > 1:
        raise SightlineError(f"{place}: found pictures of {len(sizes)} sizes, expected one for the whole clip.")
    return FittedFrames(np.stack(frames), sizes.pop())


def _read_frame(file: Path) -> Image.Image:
    if not file.exists():
        raise SightlineError(f"{file}: found nothing there, expected the picture of a frame.")
    return read_image(file, f"{file}:")
