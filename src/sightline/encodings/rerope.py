"""ReRoPE (Li et al. 2026): the slow half of temporal RoPE is replaced by the relative pose of the two cameras.

The slow temporal pairs are not rotated. On their last blocks of four channels q becomes T^T q and k becomes T^-1 k, with T the
world-to-camera pose, so that the score depends on T_i T_j^-1. It has no parameters and no extra attention, and it does not
start as the pretrained model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.tokens import has_camera
from sightline.encodings.frames import world_to_camera
from sightline.encodings.protocol import Encoding, EncodingLayer
from sightline.encodings.rotary import multiply_blocks, rope_except, temporal_channels


@dataclass(frozen=True)
class ReRope(Encoding):
    """ReRoPE has no settings."""

    name: ClassVar[str] = "rerope"

    def layer(self, dim: int, heads: int) -> ReRopeLayer:
        return ReRopeLayer(dim, heads)


class ReRopeLayer(EncodingLayer):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.channels = temporal_channels(dim // heads)

    def rotate(
        self, query: Tensor, key: Tensor, value: Tensor, rotary: tuple[Tensor, Tensor], camera_rows: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        slow = self.channels.slow
        with torch.autocast(query.device.type, enabled=False):
            pose, present = world_to_camera(camera_rows), has_camera(camera_rows)
            query = rope_except(query, rotary, slow, self.apply_pose(query, pose.transpose(-1, -2)), present)
            key = rope_except(key, rotary, slow, self.apply_pose(key, se3.inverse(pose)), present)
        return query, key, value

    def apply_pose(self, x: Tensor, matrix: Tensor) -> Tensor:  # [B, N, H, D] -> [B, N, H, slow channels]
        """The slow channels: blocks of four are multiplied by the matrix, channels that do not fill a block stay as they are."""
        slow, slot, end = self.channels
        return torch.cat([x[..., slow:slot], multiply_blocks(x[..., slot:end], matrix).to(x.dtype)], dim=-1)
