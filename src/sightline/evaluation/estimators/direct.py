"""Direct photometric alignment: the cameras of a small video from its pixels, given the depth of frame 0.

Each frame is aligned to the keyframes so far, which always include frame 0; a frame that sees too little of them becomes a
keyframe itself (see `_tracking` and `_keyframes`). Then the depths of all keyframes and all poses are refined alternately. It
uses no features and no training, and is made for videos of 64 to 256 pixels whose views overlap from frame to frame. Runs on the
CPU and on CUDA.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.estimators._agreement import agreement
from sightline.evaluation.estimators._alignment import Pyramid
from sightline.evaluation.estimators._tracking import Tracks
from sightline.evaluation.estimators.protocol import Estimate, Hints, check_video, failure

_VIDEOS_AT_ONCE = 16  # on a GPU; a CPU gains nothing by more than one
_SMALLEST = 12  # pixels of the shorter side of the coarsest level
# For the progress alone, as measured on a film of 33 frames of 128 x 128: the time of one refinement relative to the tracking.
_REFINING_COST = 0.5


@dataclass(frozen=True)
class Direct:
    """device: where to compute; by default on CUDA if it is available."""

    device: str | None = None
    refinements: int = 2
    """Rounds over all depths and poses after tracking."""
    confident: float = 0.55
    """Fraction of what a frame should show that must match; below it the frame counts as lost."""
    max_lost: float = 0.25
    """Fraction of lost frames above which the video is a failure."""
    videos_at_once: int | None = None
    """Videos that `estimate_all` aligns in one batch; by default 16 on CUDA and one on a CPU."""
    name: str = "direct"
    reads_files: ClassVar[bool] = False

    def unit(self, clip_unit: str, has_depth: bool) -> str | None:
        return clip_unit

    def require_installed(self) -> None:
        """It needs nothing but torch."""

    def estimate(
        self, video: np.ndarray, hints: Hints, on_progress: Callable[[float], None] = lambda fraction: None
    ) -> Estimate:
        """on_progress: called with the fraction that is done, after every few frames; what it raises ends the work."""
        return self._estimate_batch([self._request(video, hints)], on_progress)[0]

    def estimate_all(self, videos: Sequence[np.ndarray], hints: Sequence[Hints]) -> list[Estimate]:
        """The same as `estimate` for each video. Videos of the same shape and lens model are aligned together, which is much
        faster on a GPU."""
        requests = [self._request(*pair) for pair in zip(videos, hints, strict=True)]
        alike: dict[Any, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            alike[request.video.shape, request.xi].append(number)
        batch = self.videos_at_once or (_VIDEOS_AT_ONCE if self._device == "cuda" else 1)
        found: dict[int, Estimate] = {}
        for numbers in alike.values():
            for start in range(0, len(numbers), batch):
                some = numbers[start : start + batch]
                found |= dict(zip(some, self._estimate_batch([requests[number] for number in some]), strict=True))
        return [found[number] for number in range(len(requests))]

    @property
    def _device(self) -> str:
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def _request(self, video: np.ndarray, hints: Hints) -> _Request:
        video = check_video(video)
        optics, depth = hints.intrinsics(video), hints.depth_map(video)
        if optics is None or depth is None:
            missing = "lens" if optics is None else "depth"
            raise SightlineError(f"{missing} is not given: direct alignment expects the lens and the depth of frame 0.")
        return _Request(video, *optics, depth, _typical(depth), hints.first_image(video), hints.lens)

    @torch.no_grad()
    def _estimate_batch(
        self, requests: Sequence[_Request], on_progress: Callable[[float], None] = lambda fraction: None
    ) -> list[Estimate]:
        """Estimates of videos of one shape and lens model."""
        pyramid = self._pyramid([request.video for request in requests], [request.intrinsics for request in requests],
                                requests[0].xi)  # fmt: skip
        length = len(requests[0].video)
        shown = [self._shown(request, pyramid, number * length) for number, request in enumerate(requests)]
        depths = [(request.depth / request.typical).to(self._device) for request in requests]
        tracks = Tracks(pyramid, depths, self.confident)
        if all(fraction is not None and fraction < self.confident for fraction in shown):
            length = 1  # nothing to track
        refining = self.refinements * _REFINING_COST
        for frame in range(1, length):
            tracks.track(frame)
            on_progress(frame / max(length - 1, 1) / (1 + refining))
        for number in range(self.refinements):
            for part in tracks.refine():
                on_progress((1 + (number + part) * _REFINING_COST) / (1 + refining))
        return [
            failure(f"frame 0 shows {start:.2f} of the picture whose depth is given (below {self.confident:g}).", start)
            if start is not None and start < self.confident
            else self._result(request, tracks, number)
            for number, (request, start) in enumerate(zip(requests, shown, strict=True))
        ]

    def _pyramid(self, videos: Sequence[np.ndarray], intrinsics: Sequence[Tensor], xi: float) -> Pyramid:
        frames = torch.from_numpy(np.concatenate(videos)).to(self._device)  # [V T, H, W, 3]
        return Pyramid.of(frames, torch.cat(list(intrinsics)), xi, _SMALLEST)

    def _shown(self, request: _Request, pyramid: Pyramid, at: int) -> float | None:
        """The fraction of the picture whose depth is given that the video shows in its first frame, pixel by pixel."""
        if request.first is None:
            return None
        expected = self._pyramid([request.first], [request.intrinsics[:1]], request.xi)
        a, b = expected.levels[0][0, 0], pyramid.levels[0][at, 0]  # [H, W]
        everywhere = torch.ones_like(a).reshape(1, -1)
        return float(agreement(a.reshape(1, -1), b.reshape(1, -1), everywhere, (a.shape[0], a.shape[1])))

    def _result(self, request: _Request, tracks: Tracks, number: int) -> Estimate:
        poses = se3.inverse(tracks.of_video(tracks.world_to_camera, number).double().cpu())
        broken = ~poses.isfinite().flatten(1).all(1)
        jumped = tracks.of_video(torch.tensor(tracks.jumped), number)
        matched = tracks.of_video(tracks.matched, number).cpu().nan_to_num(0.0)  # [T]
        matched = torch.where(broken | jumped, 0.0, matched)
        confidence = float(matched.mean())
        lost = matched < self.confident
        first = number * tracks.length
        details = {
            "matched": [round(float(value), 4) for value in matched],
            "visible": [round(float(value), 4) for value in tracks.of_video(tracks.visible, number).cpu()],
            "residual": float(tracks.of_video(tracks.scale, number).median()),
            "lost": lost.nonzero()[:, 0].tolist(),
            "keyframes": [keyframe.frame - first for keyframe in tracks.keyframes[number]],
        }
        frames, height, width = request.video.shape[:3]
        if float(lost.double().mean()) > self.max_lost or bool(broken.any()):
            return failure(
                f"{int(lost.sum())} of {frames} frames match too little of what they should show (below {self.confident:g}).",
                confidence,
                **details,
            )
        poses[:, :3, 3] *= request.typical
        trajectory = Trajectory(poses, request.intrinsics, width, height, xi=request.xi).anchored()
        if request.lens is not None:
            trajectory = trajectory.replace(fps=request.lens.fps, unit=request.lens.unit)
        return Estimate(trajectory, None, confidence, details)


@dataclass(frozen=True, eq=False)
class _Request:
    """A video and what is known of it, checked. typical: a depth by which distances are divided, so that no threshold depends on
    the unit."""

    video: np.ndarray  # [T, H, W, 3] uint8
    intrinsics: Tensor  # [T, 3, 3]
    xi: float
    depth: Tensor  # [H, W]
    typical: float
    first: np.ndarray | None  # [1, H, W, 3] uint8
    lens: Trajectory | None


def _typical(depth: Tensor) -> float:  # [H, W]
    """A depth of the nearer surfaces; the sky may be any large number."""
    near = depth[depth.isfinite()]
    return float(near.quantile(0.25)) if len(near) else 1.0
