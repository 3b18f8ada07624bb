"""Pictures in and out: video files through PyAV, first frames through Pillow."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from sightline.checks import number
from sightline.errors import SightlineError
from sightline.files import atomic_write, reason


def save_video(video: Any, path: str | Path, fps: float = 16.0) -> None:
    """Write frames as H.264 (.mp4, .mov, .mkv) or as an animated .gif.

    video: [T, H, W, 3], an array or tensor (uint8, or float in 0..1), or a list of T pictures.
    """
    path = Path(path)
    frames = as_frames(video)
    if not 0 < number("fps", fps) <= 1000:
        raise SightlineError(f"fps is {fps}: expected a number above 0, at most 1000.")
    writers = {".mp4": _write_h264, ".mov": _write_h264, ".mkv": _write_h264, ".gif": _write_gif}
    if path.suffix.lower() not in writers:
        raise SightlineError(f"{path} has the extension {path.suffix!r}: expected one of {sorted(writers)}.")
    with atomic_write(path) as temporary:  # PyAV's own errors are OSErrors and ValueErrors too
        writers[path.suffix.lower()](frames, temporary, fps)


def load_image(image: Any, width: int, height: int) -> Image.Image:
    """A picture (a path, a PIL image or an array), scaled to cover (width, height) and cropped in the middle."""
    if isinstance(image, str | os.PathLike):
        try:
            with Image.open(image) as opened:
                image = ImageOps.exif_transpose(opened).convert("RGB")
        except FileNotFoundError:
            raise SightlineError(f"image {image} does not exist: expected a picture file.") from None
        except (UnidentifiedImageError, OSError) as error:
            raise SightlineError(f"image {image} cannot be read ({reason(error)}): expected a picture file.") from None
    elif not isinstance(image, Image.Image):
        picture = np.asarray(image)
        if picture.ndim != 3 or picture.shape[-1] != 3:
            raise SightlineError(f"image has shape {picture.shape}: expected a picture file, a PIL image or [H, W, 3].")
        image = Image.fromarray(as_frames(picture[None])[0])
    return ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.LANCZOS)


def as_frames(video: Any) -> np.ndarray:  # -> [T, H, W, 3] uint8
    """Frames as bytes, from what `save_video` takes."""
    if hasattr(video, "detach"):
        video = video.detach().float().cpu().numpy() if video.is_floating_point() else video.cpu().numpy()
    try:
        frames = np.asarray(video if hasattr(video, "shape") else [np.asarray(frame) for frame in video])
    except (ValueError, TypeError):
        raise SightlineError("video is no list of equal pictures: expected frames of one size.") from None
    if frames.ndim != 4 or frames.shape[-1] != 3 or 0 in frames.shape:
        raise SightlineError(f"video has shape {frames.shape}: expected [T, H, W, 3] with at least one frame.")
    if frames.dtype == np.uint8:
        return frames
    if not np.issubdtype(frames.dtype, np.floating):
        raise SightlineError(f"video holds {frames.dtype}: expected uint8, or floating point from 0 to 1.")
    low, high = frames.min(), frames.max()
    if not (low > -0.5 and high < 1.5):  # a little over is a decoder's overshoot; more is another scale, or nan
        raise SightlineError(f"video holds values from {low:g} to {high:g}: expected numbers from 0 to 1, or uint8.")
    return np.rint(frames.clip(0, 1) * 255).astype(np.uint8)


def _write_h264(frames: np.ndarray, path: Path, fps: float) -> None:
    import av  # here, so that machines without it can still generate

    height, width = frames.shape[1:3]
    # H.264 in its usual 4:2:0 form wants even sides: odd ones are padded by repeating the last row or column.
    frames = np.pad(frames, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        stream.width, stream.height = frames.shape[2], frames.shape[1]
        stream.pix_fmt = "yuv420p"
        # Without its macroblock tree, whose numbers vary from run to run on very small pictures: same film, same bytes.
        stream.options = {"crf": "17", "preset": "medium", "x264-params": "mbtree=0"}
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _write_gif(frames: np.ndarray, path: Path, fps: float) -> None:
    pictures = [Image.fromarray(frame) for frame in frames]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0)
