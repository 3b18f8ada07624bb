"""The protocol of pose estimators: from a video and what is known about it to a trajectory, or the reason for a failure."""

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
    """What is known about a video before its cameras are estimated.

    lens: a trajectory whose intrinsics, xi and image size hold for the video; its poses are not used.
    depth: [H, W] of frame 0 along the optical axis, in the unit that the estimate shall have; large or infinite in the sky.
    first: [H, W, 3] uint8, the image that the depth belongs to. A video that starts with another image is a failure.
    name: of the video, for estimators that read files by name.
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
        """The lens of every frame, or None if it is unknown."""
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
        """The checked depth of frame 0, or None if it is unknown."""
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

    def first_image(self, video: np.ndarray) -> np.ndarray | None:  # [1, H, W, 3] uint8
        """The checked image that frame 0 should show, or None if it is unknown."""
        if self.first is None:
            return None
        image = check_video(np.asarray(self.first)[None])
        if image.shape[1:] != video.shape[1:]:
            raise SightlineError(f"first is {list(image.shape[1:])}: expected {list(video.shape[1:])}, as the video.")
        return image


@dataclass(frozen=True, eq=False)
class Estimate:
    """The cameras of a video according to an estimator.

    trajectory: anchored at frame 0, camera-to-world. Its unit is that of the hints' lens where their depth gave the scale,
        "metre" where the estimator knows metres itself, otherwise "arbitrary". None for a failure.
    failure: one sentence for a failure, otherwise None.
    confidence: 0..1, the fraction of the evidence that agrees with the estimate.
    details: the estimator's own numbers, serializable as json.
    """

    trajectory: Trajectory | None
    failure: str | None
    confidence: float
    details: dict[str, Any] = field(default_factory=dict)


class Estimator(Protocol):
    """reads_files: whether estimates come from files that another program writes, one for each video."""

    name: str
    reads_files: bool

    def unit(self, clip_unit: str, has_depth: bool) -> str | None:
        """The unit that estimates will have (see Trajectory.unit), for clips in this unit, with or without the depth of frame 0;
        None where only the file of an estimate tells."""
        ...

    def require_installed(self) -> None:
        """Refuse an estimator whose program, package or files are missing, before a model is loaded for it."""
        ...

    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        """Estimate the cameras of a video [T, H, W, 3] uint8. A video that cannot be estimated gives a failure; wrong arguments
        or a missing installation raise SightlineError."""
        ...


def failure(reason: str, confidence: float = 0.0, **details: Any) -> Estimate:
    """An estimate without a trajectory. reason: one sentence."""
    return Estimate(None, reason, confidence, details)


def check_video(video: np.ndarray) -> np.ndarray:  # [T, H, W, 3] uint8
    """The video as an array; anything but uint8 [T, H, W, 3] is refused."""
    frames = np.asarray(video)
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8 or 0 in frames.shape:
        raise SightlineError(f"video is {frames.dtype} of shape {list(frames.shape)}: expected uint8 [T, H, W, 3].")
    return frames
