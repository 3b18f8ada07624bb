"""What every pose estimator takes and gives: a video and what is known of it, a trajectory or the reason there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.errors import SightlineError


@dataclass(frozen=True, eq=False)
class Hints:
    """What is known of a video before its cameras are estimated.

    lens: a trajectory whose intrinsics, xi and picture size hold for the video; its poses are never looked at.
    depth: [H, W] of frame 0 along the optical axis, in the unit the answer shall have; the sky is large or infinite.
    first: [H, W, 3] uint8, the picture the depth belongs to: a video that starts with another one is a failure.
    name: what the video is called where an estimator reads files by name.
    """

    lens: Trajectory | None = None
    depth: Any = None
    first: np.ndarray | None = None
    name: str | None = None

    @classmethod
    def from_clip(cls, clip: Clip) -> Hints:
        """The hints of a true video: its lens, its depth where it is known, and its name."""
        return cls(lens=clip.trajectory, depth=clip.depth, name=clip.name)

    def intrinsics(self, video: np.ndarray) -> tuple[Tensor, float] | None:  # [T, 3, 3] in the video's pixels, xi
        """The lens of every frame, or None where it is unknown."""
        if self.lens is None:
            return None
        frames, height, width = video.shape[:3]
        known = (
            self.lens.resized(width, height) if (self.lens.width, self.lens.height) != (width, height) else self.lens
        )
        if len(known) == 1:
            return known.intrinsics.expand(frames, 3, 3), known.xi
        if len(known) != frames:
            raise SightlineError(f"lens has {len(known)} frames: expected {frames} as the video has, or 1.")
        return known.intrinsics, known.xi

    def depth_map(self, video: np.ndarray) -> Tensor | None:  # [H, W] float32
        """The depth of frame 0, checked, or None where it is unknown."""
        if self.depth is None:
            return None
        depth = torch.as_tensor(self.depth).detach().cpu().float()
        if depth.shape != video.shape[1:3]:
            raise SightlineError(
                f"depth has shape {list(depth.shape)}: expected {list(video.shape[1:3])}, as the video."
            )
        if bool(depth.isnan().any()) or bool((depth <= 0).any()):
            raise SightlineError("depth holds numbers that are not above 0: expected distances along the optical axis.")
        return depth

    def first_picture(self, video: np.ndarray) -> np.ndarray | None:  # [1, H, W, 3] uint8
        """The picture of frame 0 as it should be, checked, or None where it is unknown."""
        if self.first is None:
            return None
        picture = checked_video(np.asarray(self.first)[None])
        if picture.shape[1:] != video.shape[1:]:
            raise SightlineError(f"first is {list(picture.shape[1:])}: expected {list(video.shape[1:])}, as the video.")
        return picture


@dataclass(frozen=True, eq=False)
class Estimate:
    """The cameras of a video as an estimator sees them.

    trajectory: anchored at frame 0, camera-to-world; in the unit of the given depth where one was given, otherwise in a
        scale of the estimator's own (unit "arbitrary"). None where it failed.
    failure: one sentence where it failed, otherwise None.
    confidence: 0..1, the share of what should agree with the answer and does.
    details: numbers of the estimator's own, json-able.
    """

    trajectory: Trajectory | None
    failure: str | None
    confidence: float
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.trajectory is not None


class Estimator(Protocol):
    name: str

    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        """Cameras of a video [T, H, W, 3] uint8. What cannot be estimated is a failure, told in the answer; what is wrong
        with the arguments or the installation is a SightlineError."""
        ...


def failed(sentence: str, confidence: float = 0.0, **details: Any) -> Estimate:
    return Estimate(None, sentence, confidence, details)


def checked_video(video: np.ndarray) -> np.ndarray:  # [T, H, W, 3] uint8
    found = np.asarray(video)
    if found.ndim != 4 or found.shape[-1] != 3 or found.dtype != np.uint8 or 0 in found.shape:
        raise SightlineError(f"video is {found.dtype} of shape {list(found.shape)}: expected uint8 [T, H, W, 3].")
    return found
