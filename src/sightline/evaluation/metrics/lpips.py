"""LPIPS v0.1 on AlexNet (Zhang et al. 2018), computed by the package `lpips`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch

from sightline.documents import require_regular_file
from sightline.errors import SightlineError
from sightline.files import reason
from sightline.images import as_frames, frames_to_tensor
from sightline.tensors import read_tensors

_FRAMES_AT_ONCE = 16
_MIN_SIDE = 31  # pixels: a smaller frame is empty after AlexNet's second pooling


class Lpips:
    """The package's network. weights: a file with its state dict (.safetensors, or .pth of tensors alone); without one, the
    package brings the heads and torchvision downloads AlexNet, whose digest it checks then."""

    def __init__(self, weights: str | None, device: torch.device) -> None:
        self.device = device
        try:
            package = importlib.import_module("lpips")
        except ImportError as error:
            raise SightlineError(
                f"the package lpips cannot be imported ({reason(error)}): expected `pip install lpips` for the metric LPIPS."
            ) from None
        try:
            # Without the package's own weights nothing is downloaded: the state dict below holds all of them.
            self.network = package.LPIPS(
                net="alex", version="0.1", pretrained=weights is None, pnet_rand=weights is not None, verbose=False
            )
            if weights is not None:
                self.network.load_state_dict(_read_state(weights))
        except Exception as error:  # what torch raises for files that are no weights, or another network's
            raise SightlineError(
                f"the weights of lpips cannot be had from {weights or 'torchvision'} ({reason(error)}): expected "
                "--weights lpips=PATH, or the network."
            ) from None
        self.network.eval().requires_grad_(False).to(device)

    @torch.no_grad()
    def frames(self, video: Any, reference: Any) -> np.ndarray:  # [T, H, W, 3] twice -> [T]
        """The distance of each frame; a reference of one frame [1, H, W, 3] is compared with all."""
        video, reference = as_frames(video), as_frames(reference)
        if video.shape[1:] != reference.shape[1:] or len(reference) not in (1, len(video)):
            raise SightlineError(f"video has shape {video.shape}: expected {reference.shape}, that of the truth.")
        if min(video.shape[1:3]) < _MIN_SIDE:
            raise SightlineError(
                f"video is {video.shape[2]}x{video.shape[1]}: LPIPS expected at least {_MIN_SIDE} a side."
            )
        reference = np.broadcast_to(reference, video.shape)
        distances = []
        for start in range(0, len(video), _FRAMES_AT_ONCE):
            images, references = (
                frames_to_tensor(frames[start : start + _FRAMES_AT_ONCE]).to(self.device) / 127.5 - 1
                for frames in (video, reference)
            )
            distances.append(self.network(images, references).flatten())
        return torch.cat(distances).float().cpu().numpy()


def _read_state(file: str) -> dict[str, torch.Tensor]:
    expected = "the weights of lpips"
    if file.endswith(".safetensors"):
        return read_tensors(file, expected)[1]
    require_regular_file(file, expected)
    return torch.load(file, map_location="cpu", weights_only=True)
