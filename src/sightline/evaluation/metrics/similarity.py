"""SSIM, and the few steps that every network's pictures go through."""

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
_AT_ONCE = 16  # frames


def ssim(video: Any, truth: Any) -> np.ndarray:  # [T, H, W, 3] twice -> [T]
    """Structural similarity of each frame (Wang et al. 2004): Gaussian window of 11 pixels and sigma 1.5, constants 0.01 and
    0.03 of 255, population covariance, over whole windows only, mean over R, G and B."""
    one, other = as_frames(video), as_frames(truth)
    if one.shape != other.shape:
        raise SightlineError(f"video has shape {one.shape}: expected {other.shape}, that of the truth.")
    if min(one.shape[1:3]) < _WINDOW:
        raise SightlineError(f"video is {one.shape[2]}x{one.shape[1]}: SSIM expected at least {_WINDOW} pixels a side.")
    found = [
        _ssim(
            frames_to_tensor(one[at : at + _AT_ONCE], torch.float64),
            frames_to_tensor(other[at : at + _AT_ONCE], torch.float64),
        )
        for at in range(0, len(one), _AT_ONCE)
    ]
    return torch.cat(found).numpy()


def stretched(images: Tensor, side: int, mode: str = "bilinear") -> Tensor:  # [T, 3, H, W] -> [T, 3, side, side]
    """The whole picture, its aspect ratio given up."""
    return functional.interpolate(images, (side, side), mode=mode, align_corners=False, antialias=True)


def centred(images: Tensor, side: int, crop: int | None = None, mode: str = "bicubic") -> Tensor:
    """[T, 3, H, W] -> [T, 3, crop, crop]: the short side scaled to `side`, then the middle of it."""
    height, width = images.shape[2:]
    scale, crop = side / min(height, width), crop or side
    size = max(side, round(height * scale)), max(side, round(width * scale))
    images = functional.interpolate(images, size, mode=mode, align_corners=False, antialias=True)
    top, left = (size[0] - crop) // 2, (size[1] - crop) // 2
    return images[:, :, top : top + crop, left : left + crop]


def cosine(features: Tensor, others: Tensor) -> np.ndarray:  # [T, D] twice -> [T]
    return functional.cosine_similarity(features.double(), others.double(), dim=-1).cpu().numpy()


def _ssim(one: Tensor, other: Tensor) -> Tensor:  # [T, 3, H, W] twice -> [T]
    at = torch.arange(_WINDOW, dtype=one.dtype) - _WINDOW // 2
    weight = torch.exp(-(at**2) / (2 * _SIGMA**2))
    weight = weight / weight.sum()

    def blurred(images: Tensor) -> Tensor:
        flat = images.flatten(0, 1)[:, None]
        flat = functional.conv2d(functional.conv2d(flat, weight[None, None, :, None]), weight[None, None, None, :])
        return flat.unflatten(0, images.shape[:2])[:, :, 0]

    mean_one, mean_other = blurred(one), blurred(other)
    both = mean_one * mean_other
    squares = mean_one**2 + mean_other**2
    covariance = blurred(one * other) - both
    variances = blurred(one**2) + blurred(other**2) - squares
    return ((2 * both + _C1) * (2 * covariance + _C2) / ((squares + _C1) * (variances + _C2))).mean(dim=(1, 2, 3))
