"""CameraCtrl (He et al. 2025): an image of Pluecker rays, one per pixel, is encoded by convolutions and added to the tokens.

Every pixel of the four raw frames of a latent frame has a ray (o x d, d) in the anchored world: 24 channels. A strided
convolution maps a token's pixels to the model's width, and a residual block of two 3x3 convolutions follows. In the ports to
Wan the result is added to the embedded tokens (placement "tokens"). In the original, a linear layer that starts at zero merges
it into every temporal attention; here it merges it into every self-attention (placement "blocks").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.cameras import lens, plucker, se3
from sightline.cameras.tokens import FOLD, POSITION, RAW_FRAMES, ROW_WIDTH, XI, has_camera
from sightline.checks import whole_number
from sightline.encodings.protocol import Encoding, EncodingLayer, init_linear, linear
from sightline.errors import SightlineError

CHANNELS = 6 * FOLD  # of a pixel: a ray for each raw frame


@dataclass(frozen=True)
class CameraCtrl(Encoding):
    """Settings of CameraCtrl.

    placement: where the encoder's result is added, "tokens" or "blocks".
    pixels: the width and height of a token in pixels: 32 for TI2V-5B, 16 for A14B.
    pinhole: whether the weights know pinhole cameras alone, so that a distorted lens is refused.
    """

    name: ClassVar[str] = "cameractrl"

    placement: Literal["tokens", "blocks"] = "tokens"
    pixels: int = 32
    pinhole: bool = False

    def __post_init__(self) -> None:
        if self.placement not in ("tokens", "blocks"):
            raise SightlineError(f"placement is {self.placement!r}: expected 'tokens' or 'blocks'.")
        whole_number("pixels", self.pixels)

    def layer(self, dim: int, heads: int) -> CameraCtrlLayer:
        return CameraCtrlLayer(self, dim, first=True)

    def layers(self, dim: int, heads: int, count: int) -> list[EncodingLayer]:
        return [CameraCtrlLayer(self, dim, first=index == 0) for index in range(count)]


class CameraCtrlLayer(EncodingLayer):
    """The first layer holds the encoder for all layers. With placement "blocks", every layer has a merge layer."""

    patch_weight: Tensor  # [dim, 24 p p]
    patch_bias: Tensor
    conv_1_weight: Tensor  # [dim, dim, 3, 3]
    conv_1_bias: Tensor
    conv_2_weight: Tensor
    conv_2_bias: Tensor
    merge_weight: Tensor  # [dim, dim]
    merge_bias: Tensor

    def __init__(self, settings: CameraCtrl, dim: int, first: bool) -> None:
        super().__init__()
        self.settings, merges = settings, settings.placement == "blocks"
        self.stages = frozenset(stage for stage, used in (("embed", first), ("input", merges)) if used)
        if first:
            self.add_linear("patch", dim, CHANNELS * settings.pixels**2)
            for name in ("conv_1", "conv_2"):
                self.add_parameter(f"{name}_weight", dim, dim, 3, 3)
                self.add_parameter(f"{name}_bias", dim)
        if merges:
            self.add_linear("merge", dim, dim)
        self.reset_parameters()

    def init_weights(self) -> None:
        merges = "input" in self.stages
        if "embed" in self.stages:
            for name in ("patch", "conv_1", "conv_2"):
                init_linear(getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))
            if not merges:  # both branches of the residual start at zero
                for name in ("patch", "conv_2"):
                    getattr(self, f"{name}_weight").zero_()
                    getattr(self, f"{name}_bias").zero_()
        if merges:
            self.merge_weight.zero_()
            self.merge_bias.zero_()

    def embed(self, camera_rows: Tensor, grid: tuple[int, int, int]) -> tuple[Tensor | None, Tensor]:
        with torch.autocast(camera_rows.device.type, enabled=False):  # bfloat16 is too coarse for rays
            rays = pixel_rays(camera_rows, grid, self.settings.pixels)  # [B, N, 24 p p]
            tokens = linear(rays, self.patch_weight, self.patch_bias).unflatten(1, grid)  # [B, t, h, w, dim]
        picture = tokens.flatten(0, 1).movedim(-1, 1)  # [B t, dim, h, w]
        hidden = _convolve(picture, self.conv_1_weight, self.conv_1_bias).relu()
        picture = picture + _convolve(hidden, self.conv_2_weight, self.conv_2_bias)
        tokens = picture.movedim(1, -1).unflatten(0, (-1, grid[0])).flatten(1, 3)  # [B, N, dim]
        tokens = tokens * has_camera(camera_rows)
        if "input" in self.stages:
            return None, torch.cat([camera_rows, tokens.to(camera_rows.dtype)], dim=-1)
        return tokens, camera_rows

    def input(self, hidden: Tensor, camera_rows: Tensor) -> Tensor:
        encoded = camera_rows[..., ROW_WIDTH:].to(hidden.dtype)
        merged = linear(hidden + encoded, self.merge_weight, self.merge_bias)
        return hidden + merged.to(hidden.dtype) * has_camera(camera_rows)


def pixel_rays(camera_rows: Tensor, grid: tuple[int, int, int], pixels: int) -> Tensor:  # [B, N, 90] -> [B, N, 24 p p]
    """(o x d, d) of every pixel of a token in each of its four raw frames, in the order (frame, coordinate, y, x)."""
    raw = torch.where(has_camera(camera_rows), camera_rows[..., RAW_FRAMES], 1.0).unflatten(-1, (FOLD, 16))
    camera_to_world = se3.inverse(se3.from_parts(*_rotation_and_translation(raw[..., :12])))  # [B, N, 4, 4, 4]
    inside = (torch.arange(pixels, dtype=camera_rows.dtype, device=camera_rows.device) + 0.5) / pixels
    row, column = (camera_rows[..., POSITION][..., axis, None, None] + inside for axis in (0, 1))  # [B, N, 1, p]
    fx, fy, cx, cy = raw[..., 12:, None].unbind(-2)  # [B, N, 4, 1]
    x = ((column / grid[2] - 0.5 - cx) / fx)[..., None, :]  # [B, N, 4, 1, p]
    y = ((row / grid[1] - 0.5 - cy) / fy)[..., :, None]  # [B, N, 4, p, 1]
    x, y = torch.broadcast_tensors(x, y)
    seen = lens.unproject(x, y, camera_rows[..., XI][..., None, None])  # [B, N, 4, p, p, 3]
    direction = (seen.flatten(-3, -2) @ camera_to_world[..., :3, :3].transpose(-1, -2)).unflatten(-2, (pixels, pixels))
    line = plucker.line_through(camera_to_world[..., None, None, :3, 3], direction)  # (d, m)
    line = torch.cat([line[..., 3:], line[..., :3]], dim=-1)
    return line.movedim(-1, 3).flatten(2)


def _rotation_and_translation(pose: Tensor) -> tuple[Tensor, Tensor]:  # [..., 12] -> [..., 3, 3], [..., 3]
    pose = pose.unflatten(-1, (3, 4))
    return pose[..., :3], pose[..., 3]


def _convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.conv2d(x, weight.to(x.dtype), bias.to(x.dtype), padding=1)
