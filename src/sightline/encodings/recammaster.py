"""ReCamMaster (Bai et al. 2025): a linear projection of the frame's pose is added to the input of self-attention.

    h = hidden + E c + b,   output = P attention(h),   with c the flattened 3x4 camera-to-world pose of the token's frame

E and b start at zero and P at the identity, so the layer starts as the pretrained one. The original generates a source video
again from other cameras and also attends to its tokens; here there is a first frame instead of a source video.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from sightline.cameras import se3
from sightline.cameras.tokens import has_camera
from sightline.encodings.frames import world_to_camera
from sightline.encodings.protocol import AttentionState, Encoding, EncodingLayer, linear


@dataclass(frozen=True)
class ReCamMaster(Encoding):
    """ReCamMaster has no settings."""

    name: ClassVar[str] = "recammaster"

    def layer(self, dim: int, heads: int) -> ReCamMasterLayer:
        return ReCamMasterLayer(dim)


class ReCamMasterLayer(EncodingLayer):
    reads_query_key = False

    pose_weight: Tensor  # [dim, 12]
    pose_bias: Tensor
    out_weight: Tensor  # [dim, dim]
    out_bias: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.add_linear("pose", dim, 12)
        self.add_linear("out", dim, dim)
        self.reset_parameters()

    def init_weights(self) -> None:
        for parameter in (self.pose_weight, self.pose_bias, self.out_bias):
            parameter.zero_()
        nn.init.eye_(self.out_weight)

    def input(self, hidden: Tensor, camera_rows: Tensor) -> Tensor:
        with torch.autocast(camera_rows.device.type, enabled=False):
            pose = se3.inverse(world_to_camera(camera_rows))[..., :3, :].flatten(-2)  # [B, N, 12], camera to world
            added = linear(pose, self.pose_weight, self.pose_bias) * has_camera(camera_rows)
            return (hidden + added).to(hidden.dtype)

    def output(self, output: Tensor, state: AttentionState, camera_rows: Tensor) -> Tensor:
        # A token without a camera keeps its output: the trained projection would change it.
        return torch.where(has_camera(camera_rows), linear(output, self.out_weight, self.out_bias), output)
