"""Direct photometric alignment: the cameras of a small video from its pixels, given the depth of frame 0.

Each frame is aligned to the keyframes so far, which always include frame 0; a frame that sees too little of them becomes a
keyframe itself (see `_keyframes`). Then the depths of all keyframes and all poses are refined alternately. It uses no features
and no training, and is made for videos of 64 to 256 pixels whose views overlap from frame to frame. Runs on the CPU and on CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.estimators import _keyframes
from sightline.evaluation.estimators._agreement import agreement
from sightline.evaluation.estimators._alignment import Fit, Points, Pyramid, align, project
from sightline.evaluation.estimators._keyframes import Keyframe
from sightline.evaluation.estimators.protocol import Estimate, Hints, check_video, failure

_TRACKING = (8, 6, 8, 8)  # iterations of each level, finest first
_REFINING = (4, 3)
_FRAMES_AT_ONCE = 6  # in the refinement, to bound memory
_KEYFRAMES_PER_FRAME = 3
_MIN_VISIBLE = 0.75  # a frame that sees a smaller fraction of the last keyframe becomes a keyframe
_KEYFRAME_EVERY = 8
_JUMP = 0.6  # the next frame must still see this fraction of what was seen of the last keyframe
_RETRY_BELOW = 0.7  # matched fraction of a frame's points
# For the progress alone, as measured on a film of 33 frames of 128 x 128: the time of one refinement relative to the tracking,
# and the fraction of it that measures depths.
_REFINING_COST, _MEASURING = 0.5, 0.15
_NEIGHBOURS = (-6, -4, -2, -1, 1, 2, 4, 6)  # offsets of the frames that measure a keyframe's depth


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
    name: str = "direct"
    reads_files: ClassVar[bool] = False

    def unit(self, clip_unit: str, has_depth: bool) -> str | None:
        return clip_unit

    def require_installed(self) -> None:
        """It needs nothing but torch."""

    @torch.no_grad()
    def estimate(
        self, video: np.ndarray, hints: Hints, on_progress: Callable[[float], None] = lambda fraction: None
    ) -> Estimate:
        """on_progress: called with the fraction that is done, after every few frames; what it raises ends the work."""
        video = check_video(video)
        optics, depth = hints.intrinsics(video), hints.depth_map(video)
        if optics is None or depth is None:
            missing = "lens" if optics is None else "depth"
            raise SightlineError(f"{missing} is not given: direct alignment expects the lens and the depth of frame 0.")
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        pyramid = Pyramid.of(torch.from_numpy(video.copy()).to(device), optics[0], optics[1], smallest=12)
        first = hints.first_image(video)
        if first is not None:
            shown = _shown(Pyramid.of(torch.from_numpy(first.copy()).to(device), optics[0][:1], optics[1], 12), pyramid)
            if shown < self.confident:
                return failure(
                    f"frame 0 shows {shown:.2f} of the picture whose depth is given (below {self.confident:g}).", shown
                )
        unit = _typical(depth)  # distances are divided by it, so that no threshold depends on the caller's unit
        track = _Track(pyramid, (depth / unit).to(device), self.confident)
        refining = self.refinements * _REFINING_COST
        count = max(len(video) - 1, 1)
        for frame in range(1, len(video)):
            track.track(frame)
            on_progress(frame / count / (1 + refining))
        for number in range(self.refinements):
            for part in track.refine():
                on_progress((1 + (number + part) * _REFINING_COST) / (1 + refining))
        poses = se3.inverse(track.world_to_camera.double().cpu())
        broken = ~poses.isfinite().flatten(1).all(1)
        matched = torch.where(broken | track.jumped, 0.0, track.matched.cpu().nan_to_num(0.0))  # [T]
        confidence = float(matched.mean())
        lost = matched < self.confident
        details = {
            "matched": [round(float(value), 4) for value in matched],
            "visible": [round(float(value), 4) for value in track.visible.cpu()],
            "residual": float(track.scale.median()),
            "lost": lost.nonzero()[:, 0].tolist(),
            "keyframes": [keyframe.frame for keyframe in track.keyframes],
        }
        if float(lost.double().mean()) > self.max_lost or bool(broken.any()):
            return failure(
                f"{int(lost.sum())} of {len(video)} frames match too little of what they should show (below {self.confident:g}).",
                confidence,
                **details,
            )
        poses[:, :3, 3] *= unit
        height, width = video.shape[1:3]
        trajectory = Trajectory(poses, optics[0], width, height, xi=optics[1]).anchored()
        if hints.lens is not None:
            trajectory = trajectory.replace(fps=hints.lens.fps, unit=hints.lens.unit)
        return Estimate(trajectory, None, confidence, details)


def _shown(expected: Pyramid, video: Pyramid) -> float:
    """The fraction of the first frame of `expected` that the first frame of a video shows, pixel by pixel."""
    a, b = (pyramid.levels[0][0, 0] for pyramid in (expected, video))  # [H, W]
    return float(
        agreement(a.reshape(1, -1), b.reshape(1, -1), torch.ones_like(a).reshape(1, -1), (a.shape[0], a.shape[1]))
    )


def _typical(depth: Tensor) -> float:  # [H, W]
    """A depth of the nearer surfaces; the sky may be any large number."""
    near = depth[depth.isfinite()]
    return float(near.quantile(0.25)) if len(near) else 1.0


class _Track:
    """Poses, brightness and keyframes of one video during the estimation. World coordinates are those of camera 0."""

    def __init__(self, pyramid: Pyramid, depth: Tensor, confident: float) -> None:
        frames = pyramid.levels[0].shape[0]
        device = depth.device
        self.pyramid, self.confident = pyramid, confident
        self.nearest = 0.3 * float(depth.flatten().quantile(0.02))
        self.world_to_camera = torch.eye(4, device=device).repeat(frames, 1, 1)
        self.brightness = torch.tensor([1.0, 0.0], device=device).repeat(frames, 1)
        self.matched = torch.ones(frames, device=device)
        self.visible = torch.ones(frames, device=device)
        self.scale = torch.zeros(frames, device=device)
        self.keyframes = [_keyframes.first_keyframe(depth)]
        self.jumped = torch.zeros(frames, dtype=torch.bool)
        self.last = 0  # the last frame that was tracked

    def track(self, frame: int) -> None:
        """Align one frame, starting from a constant-velocity guess; make it a keyframe if it sees enough new surface."""
        before = self.world_to_camera[frame - 1]
        step = before @ se3.inverse(self.world_to_camera[frame - 2]) if frame > 1 else torch.eye(4).to(before)
        levels = min(len(self.pyramid.levels), len(_TRACKING))
        chosen = [self._chosen(frame - 1, below=frame)]
        at = torch.tensor([frame], device=before.device)
        start = self.brightness[frame - 1 : frame]
        points = [self._points(chosen, level) for level in range(levels)]
        fit = align(points, self.pyramid, at, (step @ before)[None], start, _TRACKING[:levels])
        if float(fit.matched) < _RETRY_BELOW:  # the camera may have stopped: also try to start from the last pose
            again = align(points, self.pyramid, at, before[None], start, _TRACKING[:levels])
            fit = max(fit, again, key=lambda candidate: float(candidate.matched))
        self._keep(at, fit)
        self.last = frame
        newest = self.keyframes[-1]
        if self._sees(newest, frame, unweighted=True) < _JUMP * self._sees(newest, frame - 1, unweighted=True):
            # A jump to where little can be compared is not a camera motion; whatever still agrees does so by chance.
            self.jumped[frame] = True
            self.world_to_camera[frame], self.brightness[frame] = before, start[0]
        if bool(self.jumped[frame]) or float(self.matched[frame]) < self.confident:
            return  # a lost frame must not become a reference for others
        if frame - newest.frame >= _KEYFRAME_EVERY or self._sees(newest, frame) < _MIN_VISIBLE:
            self.keyframes.append(self._measure(frame, self.keyframes))

    def refine(self) -> Iterator[float]:
        """Measure the depths of the keyframes from the poses, then align all frames to their keyframes again.

        Yields the fraction that is done, from time to time.
        """
        for number in range(1, len(self.keyframes)):
            self.keyframes[number] = self._measure(self.keyframes[number].frame, self.keyframes[:number])
            yield _MEASURING * number / (len(self.keyframes) - 1)
        levels = min(len(self.pyramid.levels), len(_REFINING))
        followed = torch.arange(1, self.last + 1)
        followed = followed[~self.jumped[1 : self.last + 1]]
        for some in followed.split(_FRAMES_AT_ONCE) if len(followed) else ():
            chosen = [self._chosen(int(frame)) for frame in some]
            at = some.to(self.world_to_camera.device)
            points = [self._points(chosen, level) for level in range(levels)]
            fit = align(points, self.pyramid, at, self.world_to_camera[at], self.brightness[at], _REFINING[:levels])
            self._keep(at, fit)
            yield _MEASURING + (1 - _MEASURING) * float(some[-1]) / self.last

    def _keep(self, at: Tensor, fit: Fit) -> None:
        self.world_to_camera[at], self.brightness[at] = fit.world_to_camera, fit.brightness
        self.matched[at], self.visible[at], self.scale[at] = fit.matched, fit.visible, fit.scale

    def _chosen(self, frame: int, below: int | None = None) -> list[int]:
        """Indices of the keyframes that a frame is aligned to: those that overlap most with it, but never itself."""
        overlap = [
            (self._sees(keyframe, frame) if keyframe.frame != frame or below is not None else -1.0, number)
            for number, keyframe in enumerate(self.keyframes)
        ]
        best = sorted(overlap[1:], reverse=True)[: _KEYFRAMES_PER_FRAME - 1]
        return [0] + [number for _, number in best]  # always frame 0, the only one with a known depth

    def _sees(self, keyframe: Keyframe, frame: int, unweighted: bool = False) -> float:
        """The fraction of a keyframe's points that project into a frame, by weight or by number."""
        level = len(self.pyramid.levels) - 1
        places, _, weights = self._of(keyframe, level)
        weights = torch.ones_like(weights) if unweighted else weights
        image = self.pyramid.levels[level]
        pixels, _, front = project(
            places[None], self.pyramid.lens(level)[frame][None], self.pyramid.xi, self.world_to_camera[frame][None]
        )
        x, y = pixels[0].unbind(-1)
        inside = front[0] & (x > 0) & (x < image.shape[-1]) & (y > 0) & (y < image.shape[-2])
        return float((inside * weights).sum() / weights.sum().clamp_min(1e-9))

    def _of(self, keyframe: Keyframe, level: int) -> tuple[Tensor, Tensor, Tensor]:
        return _keyframes.points(keyframe, self.pyramid, se3.inverse(self.world_to_camera[keyframe.frame]), level)

    def _points(self, chosen: list[list[int]], level: int) -> Points:
        """The points of each frame's keyframes, concatenated; a keyframe that is listed twice counts once."""
        points = {number: self._of(self.keyframes[number], level) for number in {n for row in chosen for n in row}}
        gain = self.brightness[[keyframe.frame for keyframe in self.keyframes]]
        places = torch.stack([torch.cat([points[n][0] for n in row]) for row in chosen])
        greys = torch.stack([torch.cat([points[n][1] * gain[n, 0] + gain[n, 1] for n in row]) for row in chosen])
        weights = torch.stack(
            [torch.cat([points[n][2] * (n not in row[:i]) for i, n in enumerate(row)]) for row in chosen]
        )
        return Points(places, greys, weights)

    def _measure(self, frame: int, sources: list[Keyframe]) -> Keyframe:
        warped = []
        for keyframe in sources:
            places, _, weights = self._of(keyframe, 0)
            # Depths that were only measured elsewhere are measured again here, from frames that see them better.
            warped.append((places, torch.where(weights >= 0.5, weights, torch.zeros_like(weights))))
        prior, weight = _keyframes.warp_depth(warped, self.pyramid, frame, self.world_to_camera[frame])
        neighbours = [frame + offset for offset in _NEIGHBOURS if 0 <= frame + offset <= self.last]
        return _keyframes.measure_depth(
            self.pyramid, frame, neighbours, self.world_to_camera, self.brightness, prior, weight, self.nearest
        )
