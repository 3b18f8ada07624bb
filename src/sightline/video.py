"""Video files through PyAV: writing, and reading frames by index."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from sightline.checks import check_fps
from sightline.documents import require_regular_file
from sightline.errors import SightlineError
from sightline.files import atomic_write, reason
from sightline.images import as_frames

if TYPE_CHECKING:
    import av

VIDEO_SUFFIXES = (".mp4", ".mkv", ".mov", ".webm", ".avi")  # of files that are read
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"  # FFmpeg's names of their formats
_MAX_PIXELS = 2**26  # of a frame, 8192 x 8192: a damaged header may claim far more than fits into memory


def can_write_mp4() -> bool:
    """Whether PyAV is installed."""
    return importlib.util.find_spec("av") is not None


def save_video(video: Any, path: str | Path, fps: float = 16.0) -> None:
    """Write frames as H.264 (.mp4, .mov, .mkv) or as an animated .gif.

    video: [T, H, W, 3], an array or tensor (uint8, or float in 0..1), or a list of T pictures.
    """
    path = Path(path)
    frames = as_frames(video)
    fps = check_fps(fps)
    writers = {".mp4": _write_h264, ".mov": _write_h264, ".mkv": _write_h264, ".gif": _write_gif}
    if path.suffix.lower() not in writers:
        raise SightlineError(f"{path} has the extension {path.suffix!r}: expected one of {sorted(writers)}.")
    with atomic_write(path) as temporary:  # PyAV's own errors are OSErrors and ValueErrors too
        writers[path.suffix.lower()](frames, temporary, fps)


def read_video_frames(path: Path, indices: Sequence[int], expected_frames: int) -> Iterator[Image.Image]:
    """The frames of a video of `expected_frames` frames at some indices, which must ascend.

    The video is decoded from its start: seeking would only guess which frame an index is.
    """
    if not path.exists():
        raise SightlineError(f"{path}: found nothing there, expected a video.")
    require_regular_file(path, "a video")
    wanted, last = set(indices), max(indices)
    try:
        with _open(path) as container:
            _require_frame_count(container, path, expected_frames)
        with _open(path) as container:
            for index, frame in enumerate(container.decode(video=0)):
                if index in wanted:
                    yield frame.to_image()
                if index == last:
                    return
    except SightlineError:
        raise
    except Exception as error:  # PyAV's own, and what it raises for unknown codecs, odd sizes and damaged metadata
        raise SightlineError(f"{path}: cannot be decoded ({reason(error)}), expected a video.") from None
    raise SightlineError(f"{path}: ends before frame {last}, expected {expected_frames} frames.")


@dataclass(frozen=True)
class VideoInfo:
    """Size and frame rate of a video; fps is None where the file does not state it."""

    width: int
    height: int
    fps: float | None


def video_info(path: Path) -> VideoInfo:
    """What the header of a video states. Nothing is decoded."""
    require_regular_file(path, "a video")
    try:
        with _open(path) as container:
            stream = container.streams.video[0]
            rate = stream.average_rate
            return VideoInfo(stream.width, stream.height, float(rate) if rate else None)
    except Exception as error:  # as in read_video_frames
        raise SightlineError(f"{path}: cannot be read ({reason(error)}), expected a video.") from None


def compress(frames: np.ndarray, fps: float = 16.0) -> np.ndarray:  # [T, H, W, 3] uint8, twice
    """The frames after H.264 compression, as `save_video` writes them to an .mp4."""
    with tempfile.TemporaryDirectory(prefix="sightline-video-") as folder:
        file = Path(folder) / "video.mp4"
        save_video(frames, file, fps)
        decoded = [np.asarray(image) for image in read_video_frames(file, range(len(frames)), len(frames))]
    return np.stack(decoded)[:, : frames.shape[1], : frames.shape[2]]  # without the padding of odd sides


def read_video_at(path: Path, seconds: Sequence[float]) -> Iterator[Image.Image]:
    """The frame of a video that is nearest to each of these times, which must ascend.

    Only the part of the video around them is decoded. A time with no frame within the duration of one is refused.
    """
    if not path.exists():
        raise SightlineError(f"{path}: found nothing there, expected a video.")
    require_regular_file(path, "a video")
    try:
        with _open(path) as container:
            stream = container.streams.video[0]
            start, tolerance = float((stream.start_time or 0) * stream.time_base), 1 / float(stream.average_rate)
            container.seek(int((start + seconds[0] - tolerance) * 1_000_000), backward=True)  # to a key frame before
            nearest: tuple[float, av.VideoFrame] | None = None
            wanted = list(seconds)
            for frame in container.decode(stream):
                time = float(frame.time) - start
                while wanted and time >= wanted[0]:
                    if nearest is None or time - wanted[0] <= wanted[0] - nearest[0]:
                        nearest = (time, frame)
                    yield _frame_at(path, wanted.pop(0), nearest, tolerance)
                nearest = (time, frame)
                if not wanted:
                    return
            for second in wanted:  # the last of them may be a little later than the video's last frame
                yield _frame_at(path, second, nearest, tolerance)
    except SightlineError:
        raise
    except Exception as error:  # as above, and of a stream without times or rate
        raise SightlineError(f"{path}: cannot be decoded ({reason(error)}), expected a video.") from None


def _frame_at(path: Path, second: float, nearest: tuple[float, Any] | None, tolerance: float) -> Image.Image:
    if nearest is None or abs(nearest[0] - second) > tolerance:
        found = "nothing" if nearest is None else f"one at {nearest[0]:.3f} s"
        raise SightlineError(f"{path}: found {found}, expected a frame at {second:.3f} s.")
    image: Image.Image = nearest[1].to_image()
    return image


def _open(path: Path) -> av.container.InputContainer:
    """The file alone: not a playlist that names other files or addresses."""
    import av  # here, so that datasets without videos do not need it

    container = av.open(f"file:{path}", options={"format_whitelist": _FORMATS, "protocol_whitelist": "file"})
    for stream in container.streams.video[:1]:
        if stream.codec_context is not None:  # None for a codec that this build does not know: decoding says so
            stream.codec_context.options = {"max_pixels": str(_MAX_PIXELS)}
    return container


def _require_frame_count(container: av.container.InputContainer, path: Path, expected_frames: int) -> None:
    if not container.streams.video:
        raise SightlineError(f"{path}: found no video in it, expected one.")
    stream = container.streams.video[0]
    # Some containers do not state the count: then the packets are counted, which decodes nothing.
    count = stream.frames or sum(1 for packet in container.demux(stream) if packet.size)
    if count != expected_frames:
        raise SightlineError(f"{path}: found {count} frames, expected {expected_frames}, one for each pose.")


def _write_h264(frames: np.ndarray, path: Path, fps: float) -> None:
    import av  # here, so that machines without it can still generate

    height, width = frames.shape[1:3]
    # H.264 in its usual 4:2:0 form needs even sides: odd ones are padded by repeating the last row or column.
    frames = np.pad(frames, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        stream.width, stream.height = frames.shape[2], frames.shape[1]
        stream.pix_fmt = "yuv420p"
        # Without x264's macroblock tree, whose numbers vary from run to run on very small pictures, equal frames give
        # equal bytes.
        stream.options = {"crf": "17", "preset": "medium", "x264-params": "mbtree=0"}
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _write_gif(frames: np.ndarray, path: Path, fps: float) -> None:
    images = [Image.fromarray(frame) for frame in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=1000 / fps, loop=0)
