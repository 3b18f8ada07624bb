"""CameraBatch: the cameras of several clips of one size, as they are kept until a batch needs its token rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class CameraBatch:
    """Poses and lenses of B clips of T frames, on any device and unchecked.

    The token rows of a clip take many times this memory (207 KB instead of 7 KB for 33 frames and 576 tokens), and are
    quickly computed for a whole batch: see `CameraTokens.from_cameras`.
    """

    camera_to_world: Tensor  # [B, T, 4, 4] float64
    intrinsics: Tensor  # [B, T, 3, 3] float64, pixels
    xi: Tensor  # [B] float64, of the unified camera model
    width: int
    height: int

    @classmethod
    def from_trajectory(cls, trajectory: Trajectory) -> CameraBatch:
        xi = torch.tensor([trajectory.xi], dtype=torch.float64)
        return cls(
            trajectory.camera_to_world[None], trajectory.intrinsics[None], xi, trajectory.width, trajectory.height
        )

    @classmethod
    def cat(cls, batches: Sequence[CameraBatch]) -> CameraBatch:
        """The clips of several batches of one size as one batch."""
        poses, lenses, xi = (
            torch.cat([getattr(batch, name) for batch in batches]) for name in ("camera_to_world", "intrinsics", "xi")
        )
        return cls(poses, lenses, xi, batches[0].width, batches[0].height)

    def __len__(self) -> int:
        return len(self.camera_to_world)

    def select(self, rows: Tensor) -> CameraBatch:  # [W] whole numbers
        """Some of the clips, in this order."""
        rows = rows.to(self.camera_to_world.device)
        return CameraBatch(self.camera_to_world[rows], self.intrinsics[rows], self.xi[rows], self.width, self.height)

    def to(self, device: torch.device | str) -> CameraBatch:
        poses, lenses, xi = (tensor.to(device) for tensor in (self.camera_to_world, self.intrinsics, self.xi))
        return CameraBatch(poses, lenses, xi, self.width, self.height)

    def anchored(self, frame: int = 0) -> CameraBatch:
        """The same poses in the coordinates of one camera of each clip, which becomes the identity."""
        poses = se3.anchor(self.camera_to_world, frame)
        return CameraBatch(poses, self.intrinsics, self.xi, self.width, self.height)

    def scaled(self, factor: Tensor) -> CameraBatch:  # [B]
        """The positions of each clip multiplied by its factor."""
        poses = self.camera_to_world.clone()
        poses[..., :3, 3] *= factor.to(poses)[:, None, None]
        return CameraBatch(poses, self.intrinsics, self.xi, self.width, self.height)

    def fit_to(self, width: int, height: int) -> CameraBatch:
        """As `Trajectory.fit_to`: the pictures scaled evenly to cover (width, height) and cropped in the middle."""
        scale = max(width / self.width, height / self.height)
        lens = self.intrinsics.clone()
        lens[..., :2, :] *= scale
        lens[..., 0, 2] -= (self.width * scale - width) / 2
        lens[..., 1, 2] -= (self.height * scale - height) / 2
        return CameraBatch(self.camera_to_world, lens, self.xi, width, height)
