"""Rotations of a camera that only rotates, from matched pixels: the homographies K R inv(K) of all pairs, averaged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.cameras import lens, se3

_PIXELS = 1.5  # a match within this distance of the rotated pixel is explained by the rotation
_EXPLAINED = 0.8  # fraction of a pair's matches, in the worst tenth of the pairs, that a pure rotation must explain
_MIN_MATCHES = 20  # of a pair
_ROUNDS = 8
_SWEEPS = 40


@dataclass(frozen=True, eq=False)
class Pair:
    """Matches of two frames that are consistent with a rigid scene: pixels [n, 2] in each."""

    first: int
    second: int
    first_pixels: Tensor
    second_pixels: Tensor


@dataclass(frozen=True, eq=False)
class Turning:
    rotations: Tensor  # [T, 3, 3] camera-to-world, anchored at frame 0
    explained: float  # mean fraction of matches explained


def rotations_alone(pairs: list[Pair], pinhole: Tensor, frames: int) -> Turning | None:
    """The rotations, or None if the matches need a translation or too few pairs connect the frames."""
    edges: dict[tuple[int, int], Tensor] = {}
    fractions = []
    for pair in pairs:
        if len(pair.first_pixels) >= _MIN_MATCHES:
            rotation, fraction = _fit_rotation(pair, pinhole)
            edges[pair.first, pair.second] = rotation
            fractions.append(fraction)
    neighbours = all((frame, frame + 1) in edges or (frame + 1, frame) in edges for frame in range(frames - 1))
    if not neighbours:
        return None
    explained = torch.tensor(fractions, dtype=torch.float64)
    if float(explained.quantile(0.1)) < _EXPLAINED:
        return None
    return Turning(_average(edges, frames), float(explained.mean()))


def _fit_rotation(pair: Pair, pinhole: Tensor) -> tuple[Tensor, float]:
    """The rotation first-from-second that best explains a pair's matches, and the fraction it explains."""
    a = lens.pixel_rays(pinhole, pair.first_pixels)  # [n, 3]
    b = lens.pixel_rays(pinhole, pair.second_pixels)
    weight = torch.ones(len(a), dtype=torch.float64)
    rotation = torch.eye(3, dtype=torch.float64)
    distance = weight
    for _ in range(_ROUNDS):
        rotation = se3.nearest_rotation((a * weight[:, None]).T @ b)
        distance = (lens.project(pinhole, b @ rotation.T) - pair.first_pixels).norm(dim=-1)
        weight = 1 / (1 + (distance / _PIXELS).square()).square()
    return rotation, float((distance < _PIXELS).double().mean())


def _average(edges: dict[tuple[int, int], Tensor], frames: int) -> Tensor:  # -> [T, 3, 3]
    """Chain the rotations along the video, then repeatedly set each to the mean of its neighbours' predictions."""
    rotations = torch.eye(3, dtype=torch.float64).repeat(frames, 1, 1)
    around: dict[int, list[tuple[int, Tensor]]] = {frame: [] for frame in range(frames)}
    for (first, second), rotation in edges.items():
        around[second].append((first, rotation))
        around[first].append((second, rotation.T))
    for frame in range(1, frames):
        step = next(rotation for other, rotation in around[frame] if other == frame - 1)
        rotations[frame] = rotations[frame - 1] @ step
    for _ in range(_SWEEPS):
        for frame in range(1, frames):
            predicted = torch.stack([rotations[other] @ rotation for other, rotation in around[frame]])
            rotations[frame] = se3.nearest_rotation(predicted.mean(0))
    return rotations
