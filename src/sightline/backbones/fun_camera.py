"""Wan2.1-Fun-V1.1-Control-Camera and Wan2.2-Fun-Control-Camera (VideoX-Fun).

Their camera is CameraCtrl's: rays (o x d, d) of every pixel, relative to the first camera, four frames to a latent frame,
through a strided convolution and a residual block into the embedded tokens. Only the order of the channels differs, so the
weights are permuted when they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.backbones.fun_pipeline import FunCameraPipeline
from sightline.backbones.released_model import ReleasedModel
from sightline.backbones.wan_names import Shapes, diffusers_name
from sightline.cameras.tokens import FOLD
from sightline.encodings.cameractrl import CHANNELS, CameraCtrl
from sightline.errors import SightlineError

_ADAPTER = "control_adapter.conv.weight"
_RAY = CHANNELS // FOLD  # channels of one raw frame
_NAMES = {
    _ADAPTER: "patch_weight",
    "control_adapter.conv.bias": "patch_bias",
    **{
        f"control_adapter.residual_blocks.0.conv{number}.{kind}": f"conv_{number}_{kind}"
        for number in (1, 2)
        for kind in ("weight", "bias")
    },
}


@dataclass(frozen=True)
class FunCamera(ReleasedModel):
    """One of the Fun-Control-Camera releases, told apart by its channels and by the number of its experts."""

    family = "a Fun-Control-Camera model"
    marker = _ADAPTER
    pipeline_class = FunCameraPipeline

    @property
    def base(self) -> str:
        if len(self.weights) == 2:
            return "Wan-AI/Wan2.2-I2V-A14B-Diffusers"
        if self.configs["transformer"]["image_dim"] is not None:
            return "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers"
        return "Wan-AI/Wan2.2-TI2V-5B-Diffusers"

    @classmethod
    def encoding(cls, source: Path, shapes: Shapes, config: Mapping[str, Any]) -> CameraCtrl:
        _require_channels(source, config)
        adapter, patch = shapes[_ADAPTER], config["patch_size"][1]
        factor = _factor(adapter)
        if adapter[1:] != (CHANNELS * factor**2, patch, patch):
            raise SightlineError(
                f"{source}: {_ADAPTER} has shape {adapter}, expected [width, {CHANNELS} f f, {patch}, {patch}]: six ray "
                "coordinates of four frames."
            )
        return CameraCtrl(pixels=factor * patch, pinhole=True)

    @staticmethod
    def target(name: str) -> str | None:
        adapter = _NAMES.get(name)
        return diffusers_name(name) if adapter is None else f"blocks.0{ENCODING_KEY}{adapter}"

    @classmethod
    def target_shape(cls, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], torch.Size(shape[1:]).numel()) if name == _ADAPTER else shape

    @classmethod
    def convert(cls, name: str, tensor: Tensor) -> Tensor:
        return reorder_channels(tensor) if name == _ADAPTER else tensor


def reorder_channels(weight: Tensor) -> Tensor:  # [dim, 24 f f, k, k] -> [dim, 24 (k f)^2]
    """The adapter's convolution over unshuffled pixels as CameraCtrl's over a token's pixels.

    Theirs reads (coordinate, frame, y within f, x within f) at k x k positions, ours (frame, coordinate, y, x).
    """
    factor, kernel = _factor(tuple(weight.shape)), weight.shape[-1]
    parts = weight.reshape(-1, _RAY, FOLD, factor, factor, kernel, kernel)
    return parts.permute(0, 2, 1, 5, 3, 6, 4).flatten(1).contiguous()


def _factor(adapter: tuple[int, ...]) -> int:
    """The f by which the adapter's pixels are unshuffled; 0 where the shape has none."""
    return round((adapter[1] / CHANNELS) ** 0.5) if len(adapter) == 4 else 0


def _require_channels(source: Path, config: Mapping[str, Any]) -> None:
    inputs, latent = config["in_channels"], config["out_channels"]
    has_clip = config["image_dim"] is not None
    expected = 2 * latent if has_clip else 2 * latent + FOLD
    if inputs != expected:
        kind = "a model with an image encoder" if has_clip else "this model"
        raise SightlineError(
            f"{source}: patch_embedding.weight takes {inputs} channels, expected {expected} for {kind} with {latent} latent "
            "channels: those of the latents, of the first frame and of its mask."
        )
