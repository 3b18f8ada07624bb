"""FreqSplit-RoPE, the paper's design-space rows: four ways to use the slow temporal channels of RoPE for the camera.

All four use the same channels of query and key: the last 4-blocks of the slow temporal half, 24 .. 43 of 128.
  projective  P^T q and P^-1 k with P = lift(K) T / (fx fy)^(1/4): ReRoPE with the intrinsics
  camera_uv   phases from the image positions, in the anchor camera, of a near and a far point of the ray
  plucker     phases W (d, m) added to the native ones, W learned from zero: the only row that starts as the base model
  four_dof    phases from the ray's direction (two angles) and its closest point to the origin (two coordinates)
The paper names these rows and gives no equations; the equations are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.plucker import closest_point_to_origin
from sightline.cameras.tokens import INTRINSICS, RAY, has_camera
from sightline.encodings.frames import projection, world_to_camera
from sightline.encodings.protocol import Encoding, EncodingLayer, linear
from sightline.encodings.rotary import apply_rope, multiply_blocks, rope_except, temporal_channels
from sightline.errors import SightlineError

Phases = Literal["projective", "camera_uv", "plucker", "four_dof"]
PHASES = ("projective", "camera_uv", "plucker", "four_dof")

NEAR, FAR, LARGEST_UV = 1.0, 10.0, 4.0  # depths in near-depth units


@dataclass(frozen=True)
class FreqSplit(Encoding):
    """phases: what the camera's channels hold, one of projective, camera_uv, plucker and four_dof."""

    name: ClassVar[str] = "freqsplit"

    phases: Phases = "projective"

    def __post_init__(self) -> None:
        if self.phases not in PHASES:
            raise SightlineError(f"phases is {self.phases!r}: expected one of {', '.join(PHASES)}.")

    def layer(self, dim: int, heads: int) -> FreqSplitLayer:
        return FreqSplitLayer(self.phases, dim, heads)


class FreqSplitLayer(EncodingLayer):
    weight: Tensor  # [H * pairs, 6], with phases "plucker" only

    def __init__(self, phases: Phases, dim: int, heads: int) -> None:
        super().__init__()
        self.phases, self.heads = phases, heads
        _, self.slot, self.end = temporal_channels(dim // heads)
        self.pairs = (self.end - self.slot) // 2
        if phases == "plucker":
            self.add_parameter("weight", heads * self.pairs, 6)
        self.reset_parameters()

    def init_weights(self) -> None:
        if self.phases == "plucker":
            self.weight.zero_()

    def rotate(
        self, query: Tensor, key: Tensor, value: Tensor, rotary: tuple[Tensor, Tensor], camera_rows: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast(query.device.type, enabled=False):
            present = has_camera(camera_rows)
            if self.phases == "projective":
                matrix, inverse = unit_projection(camera_rows)
                new_q = multiply_blocks(self.camera_channels(query), matrix.transpose(-1, -2))
                new_k = multiply_blocks(self.camera_channels(key), inverse)
            else:
                phase = self.phase(camera_rows).repeat_interleave(2, dim=-1)  # [B, N, 1 or H, 2 pairs]
                cos, sin = phase.cos(), phase.sin()
                learned = self.phases == "plucker"  # rotates the channels after RoPE; the others, instead of it
                slot_q, slot_k = (self.camera_channels(apply_rope(x, *rotary) if learned else x) for x in (query, key))
                new_q, new_k = apply_rope(slot_q, cos, sin), apply_rope(slot_k, cos, sin)
            query = rope_except(query, rotary, self.slot, new_q, present)
            key = rope_except(key, rotary, self.slot, new_k, present)
        return query, key, value

    def camera_channels(self, x: Tensor) -> Tensor:  # [B, N, H, D] -> [B, N, H, 2 pairs]
        return x[..., self.slot : self.end]

    def phase(self, camera_rows: Tensor) -> Tensor:  # [B, N, 90] -> [B, N, 1 or H, pairs], radians
        if self.phases == "plucker":
            return linear(camera_rows[..., RAY], self.weight).unflatten(-1, (self.heads, -1))
        phases = camera_uv_phases(camera_rows) if self.phases == "camera_uv" else four_dof_phases(camera_rows)
        return phases[..., None, : self.pairs]


def unit_projection(camera_rows: Tensor) -> tuple[Tensor, Tensor]:  # [B, N, 90] -> 2 x [B, N, 4, 4]
    """P and P^-1 scaled to determinant 1, so that intrinsics that change in a clip do not scale queries and keys."""
    matrix, inverse = projection(camera_rows)
    focal = torch.where(has_camera(camera_rows), camera_rows[..., INTRINSICS][..., :2], 1.0)
    size = focal.prod(dim=-1)[..., None, None] ** 0.25
    return matrix / size, inverse * size


def camera_uv_phases(camera_rows: Tensor) -> Tensor:  # [B, N, 90] -> [B, N, 10]
    """Phases from the image coordinates, in the anchor camera at focal length 1, of the ray's points at a near and a far depth.

    Ten phases: (2 pi / 32) 3^j times u and v of the near point for j = 0, 1, 2, and of the far point for j = 0, 1, in an
    order of which narrower heads use the first.
    """
    pose, direction = world_to_camera(camera_rows), camera_rows[..., RAY][..., :3]
    centre = se3.inverse(pose)[..., :3, 3]
    depth_per_length = (pose[..., 2, :3] * direction).sum(-1, keepdim=True).clamp_min(0.1)
    image_points = []
    for depth in (NEAR, FAR):
        point = centre + depth * direction / depth_per_length
        image_points.append((point[..., :2] / point[..., 2:].clamp_min(0.1 * depth)).clamp(-LARGEST_UV, LARGEST_UV))
    near, far = (2 * math.pi / 32 * point for point in image_points)
    return torch.cat([near, far, 3 * near, 3 * far, 9 * near], dim=-1)


def four_dof_phases(camera_rows: Tensor) -> Tensor:  # [B, N, 90] -> [B, N, 10]
    """Phases from the four degrees of freedom of a line: the longitude and latitude of its direction, and two coordinates of
    its closest point to the origin, along the directions in which longitude and latitude grow.

    Ten phases: the angles times 1 and 2, asinh of the coordinates times 0.52, 1.57 and 4.71; narrower heads use the first.
    """
    ray = camera_rows[..., RAY]
    x, y, z = ray[..., :3].unbind(-1)
    latitude, longitude = torch.asin(-y.clamp(-1, 1)), torch.atan2(x, z)
    zero = torch.zeros_like(x)
    east = torch.stack([longitude.cos(), zero, -longitude.sin()], dim=-1)
    north = torch.stack([-latitude.sin() * longitude.sin(), -latitude.cos(), -latitude.sin() * longitude.cos()], dim=-1)
    foot = closest_point_to_origin(torch.where(has_camera(camera_rows), ray, 1.0))
    angles = torch.stack([longitude, latitude], dim=-1)
    point = torch.stack([(foot * east).sum(-1), (foot * north).sum(-1)], dim=-1).asinh()
    return torch.cat([angles, 0.52 * point, 2 * angles, 1.57 * point, 4.71 * point], dim=-1)
