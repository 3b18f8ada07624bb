"""Images and frames in memory: reading image files, fitting to a size, conversion to bytes or tensors, and PSNR."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from sightline.documents import require_regular_file
from sightline.errors import SightlineError
from sightline.files import reason

# What is read, whatever the name ends in: EPS, for one, would start another program.
_FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM", "AVIF", "JPEG2000")
_SIXTEEN_BIT = ("PNG", "PPM")  # formats whose mode I has 16 bits
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_MAX_PSNR = 100.0  # decibels, of equal frames: JSON cannot hold the true value, which is infinite


def read_image(path: str | os.PathLike[str], name: str, apply_orientation: bool = False) -> Image.Image:
    """An image file as RGB. name: what the error calls it. apply_orientation: turn it as its EXIF data says."""
    try:
        require_regular_file(path, "a picture file")
        Image.init()  # knows the formats of this build of Pillow
        with Image.open(path, formats=[kind for kind in _FORMATS if kind in Image.OPEN]) as image:
            return to_rgb(ImageOps.exif_transpose(image) if apply_orientation else image, name)
    except SightlineError:
        raise
    except Exception as error:  # Pillow's decoders raise nearly anything on damaged files
        raise SightlineError(f"{name} cannot be read ({reason(error)}), expected a picture file.") from None


def to_rgb(image: Image.Image, name: str) -> Image.Image:
    """The image with 8 bits per channel. Pillow would clip grey values of 16 bits at 255 and cut fractions to 0.

    Floating-point pixels are taken from 0 to 1; others, and integers of 32 bits, say nothing about their white and are refused.
    """
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in _SIXTEEN_BIT):
        return Image.fromarray(np.rint(np.asarray(image) / 257).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("F", "I"):
        pixels = np.asarray(image)
        low, high = pixels.min(), pixels.max()
        if image.mode == "I" or not (low >= 0 and high <= 1):
            kind = "floating-point numbers" if image.mode == "F" else "integers of 32 bits"
            raise SightlineError(
                f"{name} holds {kind} from {low:g} to {high:g}: expected 8 or 16 bits, or floating-point numbers from 0 to 1."
            )
        return Image.fromarray(np.rint(pixels * 255).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def fit_image(image: Image.Image, width: int, height: int) -> Image.Image:
    """The image scaled to cover the size and cropped in the middle, as Trajectory.fit_to does to the camera.

    Lanczos with antialiasing, on a crop of fractional pixels.
    """
    return ImageOps.fit(image, (width, height), Image.Resampling.LANCZOS)


def load_image(image: Any, width: int, height: int) -> Image.Image:
    """An image (a path, a PIL image or an array [H, W, 3]), fitted to the size by `fit_image`."""
    if isinstance(image, str | os.PathLike):
        if not Path(image).exists():
            raise SightlineError(f"image {image} does not exist: expected a picture file.")
        image = read_image(image, f"image {image}", apply_orientation=True)
    elif not isinstance(image, Image.Image):
        array = np.asarray(_off_torch(image))
        if array.ndim != 3 or array.shape[-1] != 3 or 0 in array.shape:
            raise SightlineError(f"image has shape {array.shape}: expected a picture file, a PIL image or [H, W, 3].")
        image = Image.fromarray(as_frames(array[None], "image")[0])
    return fit_image(to_rgb(image, "image"), width, height)


def as_frames(video: Any, name: str = "video") -> np.ndarray:  # -> [T, H, W, 3] uint8
    """Frames as bytes, from [T, H, W, 3], an array or tensor (uint8, or float in 0..1), or from a list of T images.
    name: what the errors call them."""
    video = _off_torch(video)
    try:
        frames = np.asarray(video if hasattr(video, "shape") else [np.asarray(frame) for frame in video])
    except (ValueError, TypeError):
        raise SightlineError(f"{name} is no list of equal pictures: expected frames of one size.") from None
    if frames.ndim != 4 or frames.shape[-1] != 3 or 0 in frames.shape:
        raise SightlineError(f"{name} has shape {frames.shape}: expected [T, H, W, 3] with at least one frame.")
    if frames.dtype == np.uint8:
        return frames
    if not np.issubdtype(frames.dtype, np.floating):
        raise SightlineError(f"{name} holds {frames.dtype}: expected uint8, or floating point from 0 to 1.")
    low, high = frames.min(), frames.max()
    if not (low > -0.5 and high < 1.5):  # a little over is a decoder's overshoot; more is another scale, or nan
        raise SightlineError(f"{name} holds values from {low:g} to {high:g}: expected numbers from 0 to 1, or uint8.")
    return np.rint(frames.clip(0, 1) * 255).astype(np.uint8)


def _off_torch(pixels: Any) -> Any:
    """A tensor of any device and dtype as an array; anything else as it is."""
    if not isinstance(pixels, Tensor):
        return pixels
    return pixels.detach().float().cpu().numpy() if pixels.is_floating_point() else pixels.cpu().numpy()


def frames_to_tensor(frames: np.ndarray, dtype: torch.dtype = torch.float32) -> Tensor:  # -> [T, 3, H, W] in 0..255
    """Frames [T, H, W, 3] with the channels first, as networks take them."""
    return torch.from_numpy(np.array(frames)).permute(0, 3, 1, 2).to(dtype)


def psnr(video: Any, truth: Any) -> np.ndarray:  # [T, H, W, 3] twice -> [T]
    """Peak signal-to-noise ratio of each frame in decibels, at most 100."""
    frames, true_frames = as_frames(video), as_frames(truth)
    if frames.shape != true_frames.shape:
        raise SightlineError(f"video has shape {frames.shape}: expected {true_frames.shape}, that of the truth.")
    squared_error = np.square(frames.astype(np.float64) - true_frames).mean(axis=(1, 2, 3))  # [T]
    return np.minimum(10 * np.log10(255.0**2 / np.maximum(squared_error, 1e-12)), _MAX_PSNR)
