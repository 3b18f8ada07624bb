"""SSIM, and the preprocessing that networks share: frames to image tensors, resizing, cosine similarity."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sightline.errors import SightlineError
from sightline.images import as_frames, frames_to_tensor

_WINDOW, _SIGMA = 11, 1.5
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_FRAMES_AT_ONCE = 16


def ssim(video: Any, reference: Any) -> np.ndarray:  # [T, H, W, 3] twice -> [T]
    """Structural similarity of each frame (Wang et al. 2004): a Gaussian window of 11 pixels with sigma 1.5, constants 0.01
    and 0.03 of 255, population covariance, windows inside the frame only, mean over R, G and B."""
    video, reference = as_frames(video), as_frames(reference)
    if video.shape != reference.shape:
        raise SightlineError(f"video has shape {video.shape}: expected {reference.shape}, that of the truth.")
    if min(video.shape[1:3]) < _WINDOW:
        raise SightlineError(
            f"video is {video.shape[2]}x{video.shape[1]}: SSIM expected at least {_WINDOW} pixels a side."
        )
    scores = []
    for start in range(0, len(video), _FRAMES_AT_ONCE):
        chunk = slice(start, start + _FRAMES_AT_ONCE)
        scores.append(
            _ssim(frames_to_tensor(video[chunk], torch.float64), frames_to_tensor(reference[chunk], torch.float64))
        )
    return torch.cat(scores).numpy()


def resize(images: Tensor, side: int) -> Tensor:  # [T, 3, H, W] -> [T, 3, side, side]
    """The whole image, without keeping its aspect ratio."""
    return functional.interpolate(images, (side, side), mode="bilinear", align_corners=False, antialias=True)


def resize_and_crop(images: Tensor, side: int, crop: int | None = None, mode: str = "bicubic") -> Tensor:
    """[T, 3, H, W] -> [T, 3, crop, crop]: the short side is resized to `side`, then the centre is cropped."""
    height, width = images.shape[2:]
    scale, crop = side / min(height, width), crop or side
    size = max(side, round(height * scale)), max(side, round(width * scale))
    images = functional.interpolate(images, size, mode=mode, align_corners=False, antialias=True)
    top, left = (size[0] - crop) // 2, (size[1] - crop) // 2
    return images[:, :, top : top + crop, left : left + crop]


def cosine(features: Tensor, others: Tensor) -> np.ndarray:  # [T, D] twice -> [T]
    """Cosine similarity, row by row."""
    return functional.cosine_similarity(features.double(), others.double(), dim=-1).cpu().numpy()


def _ssim(video: Tensor, reference: Tensor) -> Tensor:  # [T, 3, H, W] twice -> [T]
    offsets = torch.arange(_WINDOW, dtype=video.dtype) - _WINDOW // 2
    weight = torch.exp(-(offsets**2) / (2 * _SIGMA**2))
    weight = weight / weight.sum()

    def blur(images: Tensor) -> Tensor:
        flat = images.flatten(0, 1)[:, None]
        flat = functional.conv2d(functional.conv2d(flat, weight[None, None, :, None]), weight[None, None, None, :])
        return flat.unflatten(0, images.shape[:2])[:, :, 0]

    mean_video, mean_reference = blur(video), blur(reference)
    product = mean_video * mean_reference
    squares = mean_video**2 + mean_reference**2
    covariance = blur(video * reference) - product
    variances = blur(video**2) + blur(reference**2) - squares
    return ((2 * product + _C1) * (2 * covariance + _C2) / ((squares + _C1) * (variances + _C2))).mean(dim=(1, 2, 3))
