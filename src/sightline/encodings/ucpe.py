"""UCPE (Zhang et al. 2026): a second, narrow attention in which every token's ray is its frame.

The frame of a token is at its camera's centre and looks along its ray: z the ray, x = camera_y x z, y = z x x. The branch is an
eighth as wide as the layer; its input is the hidden state plus a latitude-and-up map, and its output projection starts at
zero. The rays come from the trajectory's own lens model, so wide lenses need no special treatment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.tokens import RAY, XI, has_camera
from sightline.checks import whole_number
from sightline.encodings.frames import attend_in_frames, require_frame_layout, world_to_camera
from sightline.encodings.protocol import AttentionState, Encoding, EncodingLayer, init_linear, linear
from sightline.errors import SightlineError


@dataclass(frozen=True)
class Ucpe(Encoding):
    """Settings of UCPE.

    ratio: how many times narrower the branch is than the layer; it has heads / ratio heads of the same width.
    latitude_up: add each token's image-plane up vector and latitude to the branch's input. Up is minus y of the tokens' world:
        the vertical if the trajectory keeps an upright world (anchor=None), else the up direction of the first camera.
    """

    name: ClassVar[str] = "ucpe"

    ratio: int = 8
    latitude_up: bool = True

    def __post_init__(self) -> None:
        whole_number("ratio", self.ratio)
        if not isinstance(self.latitude_up, bool):
            raise SightlineError(f"latitude_up is {self.latitude_up!r}: expected True or False.")

    def layer(self, dim: int, heads: int) -> UcpeLayer:
        return UcpeLayer(self, dim, heads)


class UcpeLayer(EncodingLayer):
    """The branch of one self-attention layer. Frames are computed in float32, attention in the model's dtype."""

    reads_query_key = False

    qkv_weight: Tensor  # [3 dim / ratio, dim]
    qkv_bias: Tensor
    out_weight: Tensor  # [dim, dim / ratio]
    out_bias: Tensor
    map_weight: Tensor  # [dim, 3]
    map_bias: Tensor

    def __init__(self, settings: Ucpe, dim: int, heads: int) -> None:
        super().__init__()
        if heads % settings.ratio:
            raise SightlineError(f"ratio is {settings.ratio}: expected a divisor of the layer's {heads} heads.")
        require_frame_layout(dim // heads)
        self.settings, self.heads = settings, heads // settings.ratio
        width = dim // settings.ratio
        self.add_linear("qkv", 3 * width, dim)
        self.add_linear("out", dim, width)
        if settings.latitude_up:
            self.add_linear("map", dim, 3)
        self.reset_parameters()

    def init_weights(self) -> None:
        init_linear(self.qkv_weight, self.qkv_bias)
        if self.settings.latitude_up:
            init_linear(self.map_weight, self.map_bias)
        self.out_weight.zero_()
        self.out_bias.zero_()

    def output(self, output: Tensor, state: AttentionState, camera_rows: Tensor) -> Tensor:
        hidden = state.hidden
        with torch.autocast(camera_rows.device.type, enabled=False):
            frame = world_to_ray(camera_rows)
            if self.settings.latitude_up:
                added = linear(latitude_up(camera_rows), self.map_weight, self.map_bias)
                hidden = (hidden + added).to(hidden.dtype)
        query, key, value = linear(hidden, self.qkv_weight, self.qkv_bias).unflatten(-1, (3, self.heads, -1)).unbind(2)
        branch = attend_in_frames(query, key, value, frame, se3.inverse(frame), camera_rows, state.attend)
        return output + linear(branch.flatten(2), self.out_weight, self.out_bias) * has_camera(camera_rows)


def world_to_ray(camera_rows: Tensor) -> Tensor:  # [B, N, 90] -> [B, N, 4, 4]
    """World to the frame at the camera's centre that looks along the token's ray; the identity without a camera."""
    pose = world_to_camera(camera_rows)
    forward = camera_rows[..., RAY][..., :3]
    camera_y = pose[..., 1, :3]  # a row of world-to-camera is a camera axis in the world
    right = F.normalize(torch.linalg.cross(camera_y, forward), dim=-1, eps=1e-6)
    rotation = torch.stack(
        [right, torch.linalg.cross(forward, right), forward], dim=-2
    )  # rows are the axes of the ray's frame
    centre = -(pose[..., :3, :3].transpose(-1, -2) @ pose[..., :3, 3:])
    frame = se3.from_parts(rotation, -(rotation @ centre)[..., 0])
    return torch.where(has_camera(camera_rows)[..., None], frame, pose)


def latitude_up(camera_rows: Tensor) -> Tensor:  # [B, N, 90] -> [B, N, 3]
    """The up direction in an image with square pixels (a unit vector, x right, y down), and the ray's latitude in radians."""
    direction = camera_rows[..., RAY][..., :3]
    x, y, z = direction.unbind(-1)
    level = (x * x + z * z).clamp_min(1e-12).sqrt()
    latitude = torch.atan2(-y, level)
    # The direction in which the ray moves as its latitude grows: in the camera, then through the lens u = x / (z + xi).
    rise = torch.stack([y * x / level, -level, y * z / level], dim=-1)
    rotation = world_to_camera(camera_rows)[..., :3, :3]
    seen, moved = ((rotation @ vector[..., None])[..., 0] for vector in (direction, rise))
    depth = seen[..., 2:] + camera_rows[..., XI]
    up = F.normalize(moved[..., :2] * depth - seen[..., :2] * moved[..., 2:], dim=-1, eps=1e-8)
    return torch.cat([up, latitude[..., None]], dim=-1)
