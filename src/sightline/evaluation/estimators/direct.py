"""Direct photometric alignment: cameras of a small video from the colours themselves, with the depth of frame 0 given.

Frame after frame is aligned to the keyframes seen so far, frame 0 first among them; a frame that sees too little of them
becomes one (see `_keyframes`). Then all keyframes' depths and all poses are refined in turn. No features, no training; made
for pictures of 64 to 256 pixels whose views overlap from frame to frame. Runs on the CPU and on CUDA.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from sightline.evaluation.estimators.protocol import Estimate, Hints, checked_video, failed

_TRACKING = (8, 6, 8, 8)  # iterations of each level, finest first
_REFINING = (4, 3)
_FRAMES_AT_ONCE = 6  # of the refinement, so that memory stays bounded
_KEYFRAMES_LOOKED_AT = 3
_VISIBLE_AT_LEAST = 0.75  # of the last keyframe: below it a frame becomes one
_KEYFRAME_EVERY = 8
_JUMP = 0.6  # share of what was seen of the last keyframe that the next frame must still see
_RETRY_BELOW = 0.7  # matched share of a frame's points
_AROUND = (-6, -4, -2, -1, 1, 2, 4, 6)  # frames that measure a keyframe's depth


@dataclass(frozen=True)
class Direct:
    """device: where to compute; by default on CUDA where there is one."""

    device: str | None = None
    refinements: int = 2
    """Rounds over all depths and poses after tracking."""
    confident: float = 0.55
    """How much of what a frame should show must match (0..1); below it the frame counts as lost."""
    lost_share: float = 0.25
    """Share of lost frames above which the video is a failure."""
    name: str = "direct"

    @torch.no_grad()
    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        video = checked_video(video)
        optics, depth = hints.intrinsics(video), hints.depth_map(video)
        if optics is None or depth is None:
            missing = "lens" if optics is None else "depth"
            raise SightlineError(f"{missing} is not given: direct alignment expects the lens and the depth of frame 0.")
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        pyramid = Pyramid.of(torch.from_numpy(video.copy()).to(device), optics[0], optics[1], smallest=12)
        first = hints.first_picture(video)
        if first is not None:
            shown = _shown(Pyramid.of(torch.from_numpy(first.copy()).to(device), optics[0][:1], optics[1], 12), pyramid)
            if shown < self.confident:
                return failed(
                    f"frame 0 shows {shown:.2f} of the picture whose depth is given (below {self.confident:g}).", shown
                )
        unit = _typical(depth)  # distances are counted in it, so that no threshold depends on the caller's unit
        track = _Track(pyramid, (depth / unit).to(device), self.confident)
        for frame in range(1, len(video)):
            track.follow(frame)
        for _ in range(self.refinements):
            track.refine()
        poses = se3.inverse(track.world_to_camera.double().cpu())
        broken = ~poses.isfinite().flatten(1).all(1)
        found = torch.where(broken | track.jumped, 0.0, track.matched.cpu().nan_to_num(0.0))  # [T]
        confidence = float(found.mean())
        lost = found < self.confident
        details = {
            "matched": [round(float(one), 4) for one in found],
            "visible": [round(float(one), 4) for one in track.visible.cpu()],
            "residual": float(track.scale.median()),
            "lost": lost.nonzero()[:, 0].tolist(),
            "keyframes": [one.frame for one in track.keyframes],
        }
        if float(lost.double().mean()) > self.lost_share or bool(broken.any()):
            return failed(
                f"{int(lost.sum())} of {len(video)} frames match too little of what they should show (below {self.confident:g}).",
                confidence,
                **details,
            )
        poses[:, :3, 3] *= unit
        height, width = video.shape[1:3]
        path = Trajectory(poses, optics[0], width, height, xi=optics[1]).anchored()
        known = hints.lens
        if known is not None:
            path = path.replace(fps=known.fps, unit=known.unit)
        return Estimate(path, None, confidence, details)


def _shown(expected: Pyramid, video: Pyramid) -> float:
    """How much of the first of `expected` the first frame of a video shows, pixel on pixel."""
    a, b = (one.levels[0][0, 0] for one in (expected, video))  # [H, W]
    return float(
        agreement(a.reshape(1, -1), b.reshape(1, -1), torch.ones_like(a).reshape(1, -1), (a.shape[0], a.shape[1]))
    )


def _typical(depth: Tensor) -> float:  # [H, W]
    """A depth of the nearer things: the sky may be any large number."""
    near = depth[depth.isfinite()]
    return float(near.quantile(0.25)) if len(near) else 1.0


class _Track:
    """Poses, brightness and keyframes of one video while they are being found. The world is camera 0."""

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
        self.keyframes = [_keyframes.given(depth)]
        self.jumped = torch.zeros(frames, dtype=torch.bool)
        self.last = 0  # frame followed last

    def follow(self, frame: int) -> None:
        """Align one frame, starting from where the last step would take it; make it a keyframe where it sees new things."""
        before = self.world_to_camera[frame - 1]
        step = before @ se3.inverse(self.world_to_camera[frame - 2]) if frame > 1 else torch.eye(4).to(before)
        levels = min(len(self.pyramid.levels), len(_TRACKING))
        chosen = [self._chosen(frame - 1, below=frame)]
        at = torch.tensor([frame], device=before.device)
        start = self.brightness[frame - 1 : frame]
        points = [self._points(chosen, level) for level in range(levels)]
        fit = align(points, self.pyramid, at, (step @ before)[None], start, _TRACKING[:levels])
        if float(fit.matched) < _RETRY_BELOW:  # the camera may have stopped or turned: start from where it was, too
            again = align(points, self.pyramid, at, before[None], start, _TRACKING[:levels])
            fit = max(fit, again, key=lambda one: float(one.matched))
        self._keep(at, fit)
        self.last = frame
        newest = self.keyframes[-1]
        if self._sees(newest, frame, all_alike=True) < _JUMP * self._sees(newest, frame - 1, all_alike=True):
            # Away to where little can be compared: that is no camera, and whatever still agrees does so by luck.
            self.jumped[frame] = True
            self.world_to_camera[frame], self.brightness[frame] = before, start[0]
        if bool(self.jumped[frame]) or float(self.matched[frame]) < self.confident:
            return  # a lost frame must not tell the others where they are
        if frame - newest.frame >= _KEYFRAME_EVERY or self._sees(newest, frame) < _VISIBLE_AT_LEAST:
            self.keyframes.append(self._measured(frame, self.keyframes))

    def refine(self) -> None:
        """Depths of the keyframes from the poses, then poses from the depths, all frames against their keyframes."""
        for number in range(1, len(self.keyframes)):
            self.keyframes[number] = self._measured(self.keyframes[number].frame, self.keyframes[:number])
        levels = min(len(self.pyramid.levels), len(_REFINING))
        followed = torch.arange(1, self.last + 1)
        followed = followed[~self.jumped[1 : self.last + 1]]
        for some in followed.split(_FRAMES_AT_ONCE) if len(followed) else ():
            chosen = [self._chosen(int(frame)) for frame in some]
            at = some.to(self.world_to_camera.device)
            points = [self._points(chosen, level) for level in range(levels)]
            fit = align(points, self.pyramid, at, self.world_to_camera[at], self.brightness[at], _REFINING[:levels])
            self._keep(at, fit)

    def _keep(self, at: Tensor, fit: Fit) -> None:
        self.world_to_camera[at], self.brightness[at] = fit.world_to_camera, fit.brightness
        self.matched[at], self.visible[at], self.scale[at] = fit.matched, fit.visible, fit.scale

    def _chosen(self, frame: int, below: int | None = None) -> list[int]:
        """Numbers of the keyframes that a frame is aligned to: those that share most with it, but never itself."""
        overlap = [
            (self._sees(one, frame) if one.frame != frame or below is not None else -1.0, number)
            for number, one in enumerate(self.keyframes)
        ]
        best = sorted(overlap[1:], reverse=True)[: _KEYFRAMES_LOOKED_AT - 1]
        return [0] + [number for _, number in best]  # frame 0 always: only its depth is true

    def _sees(self, keyframe: Keyframe, frame: int, all_alike: bool = False) -> float:
        """Share of a keyframe's points that fall into a frame's picture, by their weights or each counted as one."""
        level = len(self.pyramid.levels) - 1
        places, _, weights = self._of(keyframe, level)
        weights = torch.ones_like(weights) if all_alike else weights
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
        """The points of each frame's keyframes, one after another; a keyframe named twice counts once."""
        made = {number: self._of(self.keyframes[number], level) for number in {n for row in chosen for n in row}}
        gain = self.brightness[[one.frame for one in self.keyframes]]
        places = torch.stack([torch.cat([made[n][0] for n in row]) for row in chosen])
        greys = torch.stack([torch.cat([made[n][1] * gain[n, 0] + gain[n, 1] for n in row]) for row in chosen])
        weights = torch.stack(
            [torch.cat([made[n][2] * (n not in row[:i]) for i, n in enumerate(row)]) for row in chosen]
        )
        return Points(places, greys, weights)

    def _measured(self, frame: int, sources: list[Keyframe]) -> Keyframe:
        given = []
        for one in sources:
            places, _, weights = self._of(one, 0)
            # What was only measured elsewhere is measured again here, from frames that see it better.
            given.append((places, torch.where(weights >= 0.5, weights, torch.zeros_like(weights))))
        prior, weight = _keyframes.carried(given, self.pyramid, frame, self.world_to_camera[frame])
        around = [frame + by for by in _AROUND if 0 <= frame + by <= self.last]
        return _keyframes.measured(
            self.pyramid, frame, around, self.world_to_camera, self.brightness, prior, weight, self.nearest
        )
