"""Frames by index: from a folder of pictures through Pillow, from a video file through PyAV. Fitted as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from PIL import Image, ImageOps

from sightline.errors import SightlineError
from sightline.files import reason

if TYPE_CHECKING:
    import av

PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
VIDEO_ENDINGS = (".mp4", ".mkv", ".mov", ".webm", ".avi")


@dataclass(frozen=True, eq=False)
class FittedFrames:
    """Frames of a shot, scaled to cover a size and cropped in the middle."""

    frames: np.ndarray  # [T, H, W, 3] uint8
    original_size: tuple[int, int]  # (width, height) before fitting


class Pictures(Protocol):
    """The frames of one shot."""

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        """Frames `indices` (ascending), each fitted to the size as Trajectory.fitted does to the camera."""


@dataclass(frozen=True)
class PictureFiles:
    """One picture file per frame, in order."""

    files: Sequence[Path]

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        return fitted((self._opened(self.files[index]) for index in indices), width, height, self.files[0].parent)

    @staticmethod
    def _opened(file: Path) -> Image.Image:
        try:
            with Image.open(file) as opened:
                return opened.convert("RGB")
        except FileNotFoundError:
            raise SightlineError(f"{file}: found nothing there, expected the picture of a frame.") from None
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # what Pillow raises
            raise SightlineError(f"{file}: cannot be read ({reason(error)}), expected a picture.") from None


@dataclass(frozen=True)
class VideoFile:
    """A video with one frame per pose. Decoded from its start, so that an index is a frame and not a guess of a seek."""

    file: Path
    expected_frames: int

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        import av  # here, so that sources without videos do not need it

        if not self.file.is_file():
            raise SightlineError(f"{self.file}: found nothing there, expected a video.")
        try:
            with av.open(str(self.file)) as container:
                self._check_count(container)
            with av.open(str(self.file)) as container:
                return fitted(self._decoded(container, indices), width, height, self.file)
        except SightlineError:
            raise
        except (OSError, ValueError, IndexError) as error:  # PyAV's errors are OSErrors and ValueErrors
            raise SightlineError(f"{self.file}: cannot be decoded ({reason(error)}), expected a video.") from None

    def _check_count(self, container: av.container.InputContainer) -> None:
        stream = container.streams.video[0]
        # Some containers do not state the count: then the packets are counted, which decodes nothing.
        found = stream.frames or sum(1 for packet in container.demux(stream) if packet.size)
        if found != self.expected_frames:
            raise SightlineError(
                f"{self.file}: found {found} frames, expected {self.expected_frames}, one for each pose."
            )

    def _decoded(self, container: av.container.InputContainer, indices: Sequence[int]) -> Iterator[Image.Image]:
        wanted, last = set(indices), max(indices)
        for index, frame in enumerate(container.decode(video=0)):
            if index in wanted:
                yield frame.to_image()
            if index == last:
                return
        raise SightlineError(f"{self.file}: ends before frame {last}, expected {self.expected_frames} frames.")


def fitted(pictures: Iterable[Image.Image], width: int, height: int, place: str | Path) -> FittedFrames:
    """Lanczos with antialiasing, on a crop of fractional pixels: as load_image does to a first frame."""
    frames, sizes = [], set()
    for picture in pictures:
        sizes.add(picture.size)
        frames.append(np.asarray(ImageOps.fit(picture, (width, height), Image.Resampling.LANCZOS)))
    if len(sizes) > 1:
        raise SightlineError(f"{place}: found pictures of {len(sizes)} sizes, expected one for the whole clip.")
    return FittedFrames(np.stack(frames), sizes.pop())
