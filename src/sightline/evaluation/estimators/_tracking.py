"""The tracking and refinement of direct alignment, for several videos at once.

All frames of all videos lie in one pyramid, and a step aligns the same frame of each video in one batch. A single small video
keeps a GPU waiting for the launches of its kernels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.evaluation.estimators import _keyframes
from sightline.evaluation.estimators._alignment import Fit, Points, Pyramid, align, project
from sightline.evaluation.estimators._keyframes import Keyframe

_TRACKING = (8, 6, 8, 8)  # iterations of each level, finest first
_REFINING = (4, 3)
_FRAMES_AT_ONCE = 6  # of each video in the refinement, to bound memory
_KEYFRAMES_PER_FRAME = 3
_MIN_VISIBLE = 0.75  # a frame that sees a smaller fraction of the last keyframe becomes a keyframe
_KEYFRAME_EVERY = 8
_JUMP = 0.6  # the next frame must still see this fraction of what was seen of the last keyframe
_RETRY_BELOW = 0.7  # matched fraction of a frame's points
_MEASURING = 0.15  # of the time of a refinement, for the progress alone
_NEIGHBOURS = (-6, -4, -2, -1, 1, 2, 4, 6)  # offsets of the frames that measure a keyframe's depth


class Tracks:
    """Poses, brightness and keyframes of V videos during the estimation. World coordinates are those of each one's camera 0.

    Frame t of video v has the place v T + t in the pyramid and in all tensors here.
    """

    def __init__(self, pyramid: Pyramid, depths: Sequence[Tensor], confident: float) -> None:  # V depths [H, W]
        frames, device = pyramid.levels[0].shape[0], depths[0].device
        self.pyramid, self.confident, self.num_videos, self.length = (
            pyramid,
            confident,
            len(depths),
            frames // len(depths),
        )
        self.nearest = [0.3 * float(depth.flatten().quantile(0.02)) for depth in depths]
        self.world_to_camera = torch.eye(4, device=device).repeat(frames, 1, 1)
        self.brightness = torch.tensor([1.0, 0.0], device=device).repeat(frames, 1)
        self.matched = torch.ones(frames, device=device)
        self.visible = torch.ones(frames, device=device)
        self.scale = torch.zeros(frames, device=device)
        self.keyframes = [
            [_keyframes.first_keyframe(pyramid, depth, video * self.length)] for video, depth in enumerate(depths)
        ]
        self.jumped = [False] * frames
        self.last = 0  # the last frame of each video that was tracked

    def of_video(self, values: Tensor, video: int) -> Tensor:  # [V T, ...] -> [T, ...]
        return values[video * self.length : (video + 1) * self.length]

    def track(self, frame: int) -> None:
        """Align one frame of each video, starting from a constant-velocity guess; those that see enough new surface become
        keyframes."""
        places = [video * self.length + frame for video in range(self.num_videos)]
        for rows in self._by_number_of_keyframes(self._chosen([place - 1 for place in places])):
            self._track_some([places[video] for video in rows], list(rows.values()), frame)
        self.last = frame
        newest = [keyframes[-1] for keyframes in self.keyframes]
        now, before = (self._sees(newest, [place - back for place in places], unweighted=True) for back in (0, 1))
        for place, sees, saw in zip(places, now, before, strict=True):
            if sees < _JUMP * saw:
                # A jump to where little can be compared is not a camera motion; whatever still agrees does so by chance.
                self.jumped[place] = True
                self.world_to_camera[place], self.brightness[place] = (
                    self.world_to_camera[place - 1],
                    self.brightness[place - 1],
                )
        matched = self.matched[places].tolist()
        overlap = self._sees(newest, places)
        for video, place in enumerate(places):
            if self.jumped[place] or matched[video] < self.confident:
                continue  # a lost frame must not become a reference for others
            if place - newest[video].frame >= _KEYFRAME_EVERY or overlap[video] < _MIN_VISIBLE:
                self.keyframes[video].append(self._measure(video, place, self.keyframes[video]))

    def _track_some(self, places: list[int], chosen: list[list[Keyframe]], frame: int) -> None:
        """Align frames that have the same number of keyframes."""
        at = torch.tensor(places, device=self.world_to_camera.device)
        before, start = self.world_to_camera[at - 1], self.brightness[at - 1]
        guess = before @ se3.inverse(self.world_to_camera[at - 2]) @ before if frame > 1 else before
        levels = min(len(self.pyramid.levels), len(_TRACKING))
        points = [self._points(chosen, level) for level in range(levels)]
        fit = align(points, self.pyramid, at, guess, start, _TRACKING[:levels])
        self._keep(at, fit)
        weak = (fit.matched < _RETRY_BELOW).nonzero()[:, 0]
        if len(weak):  # the camera may have stopped: also try to start from the last pose
            points = [Points(some.places[weak], some.greys[weak], some.weights[weak]) for some in points]
            again = align(points, self.pyramid, at[weak], before[weak], start[weak], _TRACKING[:levels])
            better = again.matched > fit.matched[weak]
            self._keep(at[weak][better], again, better)

    def refine(self) -> Iterator[float]:
        """Measure the depths of the keyframes from the poses, then align all frames to their keyframes again.

        Yields the fraction that is done, from time to time.
        """
        for video, keyframes in enumerate(self.keyframes):
            for number in range(1, len(keyframes)):
                keyframes[number] = self._measure(video, keyframes[number].frame, keyframes[:number])
                yield _MEASURING * (video + number / (len(keyframes) - 1)) / self.num_videos
        levels = min(len(self.pyramid.levels), len(_REFINING))
        for start in range(1, self.last + 1, _FRAMES_AT_ONCE):
            end = min(start + _FRAMES_AT_ONCE, self.last + 1)
            some = [video * self.length + frame for video in range(self.num_videos) for frame in range(start, end)]
            some = [place for place in some if not self.jumped[place]]
            for rows in self._by_number_of_keyframes(self._chosen(some, others_only=True)):
                at = torch.tensor([some[row] for row in rows], device=self.world_to_camera.device)
                points = [self._points(list(rows.values()), level) for level in range(levels)]
                pose, brightness = self.world_to_camera[at], self.brightness[at]
                self._keep(at, align(points, self.pyramid, at, pose, brightness, _REFINING[:levels]))
            yield _MEASURING + (1 - _MEASURING) * (end - 1) / self.last

    def _keep(self, at: Tensor, fit: Fit, which: Tensor | slice = slice(None)) -> None:
        self.world_to_camera[at], self.brightness[at] = fit.world_to_camera[which], fit.brightness[which]
        self.matched[at], self.visible[at] = fit.matched[which], fit.visible[which]
        self.scale[at] = fit.scale[which]

    def _chosen(self, places: list[int], others_only: bool = False) -> list[list[Keyframe]]:
        """The keyframes that each frame is aligned to: those that overlap most with it. others_only: itself comes last."""
        of_place = [self.keyframes[place // self.length] for place in places]
        pairs = [(keyframe, place) for keyframes, place in zip(of_place, places, strict=True) for keyframe in keyframes]
        overlap = iter(self._sees([keyframe for keyframe, _ in pairs], [place for _, place in pairs]))
        chosen = []
        for keyframes, place in zip(of_place, places, strict=True):
            ranked = [
                (-1.0 if others_only and keyframe.frame == place else sees, number)
                for (number, keyframe), sees in zip(enumerate(keyframes), overlap, strict=False)
            ]
            best = sorted(ranked[1:], reverse=True)[: _KEYFRAMES_PER_FRAME - 1]
            chosen.append([keyframes[0], *(keyframes[number] for _, number in best)])  # only frame 0 has a known depth
        return chosen

    @staticmethod
    def _by_number_of_keyframes(chosen: list[list[Keyframe]]) -> list[dict[int, list[Keyframe]]]:
        """Rows with equally many keyframes, which can be stacked, each with its index."""
        groups: dict[int, dict[int, list[Keyframe]]] = defaultdict(dict)
        for row, keyframes in enumerate(chosen):
            groups[len(keyframes)][row] = keyframes
        return list(groups.values())

    def _sees(self, keyframes: list[Keyframe], places: list[int], unweighted: bool = False) -> list[float]:
        """The fraction of each keyframe's points that project into the frame beside it, by weight or by number."""
        if not keyframes:
            return []
        level = len(self.pyramid.levels) - 1
        points, weights = self._positions(keyframes, level)
        weights = torch.ones_like(weights) if unweighted else weights
        image, at = self.pyramid.levels[level], torch.tensor(places, device=points.device)
        pixels, _, front = project(points, self.pyramid.lens(level)[at], self.pyramid.xi, self.world_to_camera[at])
        x, y = pixels.unbind(-1)
        inside = front & (x > 0) & (x < image.shape[-1]) & (y > 0) & (y < image.shape[-2])
        seen: list[float] = ((inside * weights).sum(-1) / weights.sum(-1).clamp_min(1e-9)).tolist()
        return seen

    def _positions(self, keyframes: list[Keyframe], level: int) -> tuple[Tensor, Tensor]:  # [K, n, 3], [K, n]
        """World positions and weights of the keyframes' pixels."""
        camera_to_world = se3.inverse(self.world_to_camera[[keyframe.frame for keyframe in keyframes]])
        in_camera = torch.stack([keyframe.points[level] for keyframe in keyframes])
        positions = in_camera @ camera_to_world[:, :3, :3].transpose(1, 2) + camera_to_world[:, None, :3, 3]
        return positions, torch.stack([keyframe.weights[level] for keyframe in keyframes])

    def _points(self, chosen: list[list[Keyframe]], level: int) -> Points:
        """The points of each frame's keyframes, concatenated."""
        keyframes = [keyframe for row in chosen for keyframe in row]
        at = torch.tensor([keyframe.frame for keyframe in keyframes], device=self.brightness.device)
        positions, weights = self._positions(keyframes, level)
        gain, offset = self.brightness[at].unbind(-1)
        greys = self.pyramid.levels[level][at, 0].flatten(1) * gain[:, None] + offset[:, None]
        rows = len(chosen)
        return Points(positions.view(rows, -1, 3), greys.view(rows, -1), weights.view(rows, -1))

    def _measure(self, video: int, place: int, sources: list[Keyframe]) -> Keyframe:
        positions, weights = self._positions(sources, 0)
        # Depths that were only measured elsewhere are measured again here, from frames that see them better.
        weights = torch.where(weights >= 0.5, weights, torch.zeros_like(weights))
        warped = list(zip(positions, weights, strict=True))
        prior, weight = _keyframes.warp_depth(warped, self.pyramid, place, self.world_to_camera[place])
        start = video * self.length
        neighbours = [place + offset for offset in _NEIGHBOURS if start <= place + offset <= start + self.last]
        return _keyframes.measure_depth(
            self.pyramid, place, neighbours, self.world_to_camera, self.brightness, prior, weight, self.nearest[video]
        )
