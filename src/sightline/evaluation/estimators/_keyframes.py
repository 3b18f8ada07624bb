"""Keyframes of a direct alignment: frames with a depth for every pixel, warped from frame 0 and measured where it is new.

A camera that moves on loses sight of frame 0. The depth of frame 0 is warped to a later frame; pixels that frame 0 did not see
get their depth from the surrounding frames, whose poses are known by then: first a plane sweep, then Gauss-Newton.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sightline.cameras import lens, se3
from sightline.evaluation.estimators import _alignment
from sightline.evaluation.estimators._alignment import Points, Pyramid

TRUSTED, WARPED, MEASURED = 1.0, 0.6, 0.3  # weights of depths: given, warped from a given one, measured by sweeping
_HYPOTHESES = 48
_SWEEP_LEVEL = 1
_CUT_OFF = 0.15  # grey differences are clipped here
# A depth whose mean grey difference is above this many medians, within these bounds, is not trusted.
_BAD_MATCH = (4.0, 0.01, 0.06)
_CLING = 0.002  # penalty, in grey, of leaving the nearest known surface by its own depth
_REFINEMENTS = 5
_BEND = 0.05  # relative second difference of the inverse depth above which there is an edge
_EDGE_WEIGHT = 0.1
_SAME_SURFACE = 0.1  # relative difference of inverse depth within which neighbours lie on one surface


@dataclass(frozen=True, eq=False)
class Keyframe:
    """A frame of the pyramid whose depth is known, as points at every level, finest first. A weight of 0 leaves a point out."""

    frame: int
    points: tuple[Tensor, ...]  # [n, 3] each, in camera coordinates, row by row
    weights: tuple[Tensor, ...]  # [n] each

    @classmethod
    def of(cls, pyramid: Pyramid, frame: int, inverse_depth: Tensor, weight: Tensor) -> Keyframe:  # [H, W] x2
        """inverse_depth: along the optical axis; 0 is infinitely far."""
        points, weights = [], []
        for level in range(len(pyramid.levels)):
            inverse, of_level = _shrunk(inverse_depth, weight, 2**level) if level else (inverse_depth, weight)
            rays = _plane_rays(pyramid, frame, level)
            points.append(rays.flatten(0, 1) / inverse.flatten()[:, None].clamp_min(1e-4))
            weights.append(of_level.flatten())
        return cls(frame, tuple(points), tuple(weights))


def first_keyframe(pyramid: Pyramid, depth: Tensor, frame: int) -> Keyframe:  # [H, W]
    """The first frame of a video with its true depth."""
    inverse = 1 / depth
    return Keyframe.of(pyramid, frame, inverse, TRUSTED * _off_edges(inverse))


def _shrunk(inverse: Tensor, weight: Tensor, side: int) -> tuple[Tensor, Tensor]:  # [H, W] x2 -> [h, w] x2
    """Means over squares of pixels, with small weights across an edge, where the mean depth lies on no surface."""
    blocks = inverse[None, None].unfold(2, side, side).unfold(3, side, side).flatten(4)[0, 0]  # [h, w, side^2]
    mean, low, high = blocks.mean(-1), blocks.amin(-1), blocks.amax(-1)
    flat = (high - low) < 2 * _SAME_SURFACE * high + 1e-6
    return mean, functional.avg_pool2d(weight[None, None], side)[0, 0] * torch.where(flat, 1.0, 0.1)


def warp_depth(
    sources: list[tuple[Tensor, Tensor]],  # positions [n, 3] and weights [n]
    pyramid: Pyramid,
    frame: int,
    world_to_camera: Tensor,  # [4, 4]
) -> tuple[Tensor, Tensor]:  # -> [H, W] inverse depth, [H, W] weight, 0 where nothing fell
    """The depth of other keyframes as a frame sees it: the nearest point wins a pixel, and small gaps are closed."""
    height, width = pyramid.levels[0].shape[-2:]
    inverse = torch.zeros(height * width, device=world_to_camera.device)
    weight = torch.zeros_like(inverse)
    for places, weights in sources:
        pixels, in_camera, front = _alignment.project(
            places[None], pyramid.lens(0)[frame][None], pyramid.xi, world_to_camera[None]
        )
        column, row = pixels[0].floor().long().unbind(-1)
        inside = front[0] & (column >= 0) & (column < width) & (row >= 0) & (row < height) & (weights > 0)
        inside &= in_camera[0, :, 2] > 1e-4
        at, near = (row * width + column)[inside], 1 / in_camera[0, inside, 2]
        layer = torch.zeros_like(inverse).scatter_reduce_(0, at, near, "amax")
        # A point hidden behind another in the same pixel is ignored; among equals the largest weight counts.
        front_most = near > layer[at] * (1 - _SAME_SURFACE)
        layer_weight = torch.zeros_like(inverse).scatter_reduce_(0, at[front_most], weights[inside][front_most], "amax")
        better = layer_weight > weight
        inverse, weight = torch.where(better, layer, inverse), torch.where(better, layer_weight, weight)
    return _close_gaps(inverse.view(height, width), weight.view(height, width))


def measure_depth(
    pyramid: Pyramid,
    frame: int,
    neighbours: list[int],
    world_to_camera: Tensor,  # [T, 4, 4]
    brightness: Tensor,  # [T, 2]
    prior: Tensor,  # [H, W] inverse depth
    prior_weight: Tensor,  # [H, W], 0 where unknown
    nearest: float,  # smallest depth that is searched
) -> Keyframe:
    """A keyframe whose unknown depths are measured from the surrounding frames and whose known ones are refined."""
    known = prior_weight > 0
    start = prior
    if not bool(known.all()):
        start = torch.where(
            known, prior, _sweep(pyramid, frame, neighbours, world_to_camera, brightness, prior, known, nearest)
        )
    inverse, match = _refine(pyramid, frame, neighbours, world_to_camera, brightness, start, prior_weight, 1 / nearest)
    medians, least, most = _BAD_MATCH
    good = match < (medians * match.median()).clamp(least, most)
    weight = torch.where(known, prior_weight.clamp_max(WARPED), torch.full_like(prior_weight, MEASURED))
    return Keyframe.of(pyramid, frame, inverse, weight * torch.where(good, 1.0, 0.1) * _off_edges(inverse))


def _off_edges(inverse: Tensor) -> Tensor:  # [H, W] -> [H, W], 1 within a surface
    """Weights that are small at depth edges: such pixels mix two surfaces, which separate when the camera moves.

    The inverse depth of a plane is linear over the image, so edges are found by the second difference, not by the slope.
    """
    around = functional.pad(inverse[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    bend_x = (around[1:-1, 2:] - 2 * inverse + around[1:-1, :-2]).abs()
    bend_y = (around[2:, 1:-1] - 2 * inverse + around[:-2, 1:-1]).abs()
    edge = (torch.maximum(bend_x, bend_y) > _BEND * inverse + 1e-4).float()
    return 1 - (1 - _EDGE_WEIGHT) * functional.max_pool2d(edge[None, None], 3, 1, 1)[0, 0]


def _plane_rays(pyramid: Pyramid, frame: int, level: int) -> Tensor:  # -> [h, w, 3] with z = 1
    height, width = pyramid.levels[level].shape[-2:]
    optics = pyramid.lens(level)[frame]
    centres = lens.grid_centres(width, height, width, height).to(optics)
    rays = lens.pixel_rays(optics, centres, pyramid.xi)
    return rays / rays[..., 2:].clamp_min(1e-3)


def _close_gaps(inverse: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Fill empty pixels that are mostly surrounded with the mean of their neighbours; magnification leaves such gaps."""
    for _ in range(2):
        known = (weight > 0).float()
        around = functional.avg_pool2d(torch.stack([known, inverse * known, weight])[None], 3, 1, 1)[0]
        take = (weight == 0) & (around[0] > 0.4)
        inverse = torch.where(take, around[1] / around[0].clamp_min(1e-6), inverse)
        weight = torch.where(take, 0.8 * around[2] / around[0].clamp_min(1e-6), weight)
    return inverse, weight


def _sweep(
    pyramid: Pyramid, frame: int, neighbours: list[int], world_to_camera: Tensor, brightness: Tensor, prior: Tensor,
    known: Tensor, nearest: float,
) -> Tensor:  # fmt: skip
    """The inverse depth [H, W] at which the frames around agree best, out of many; near known ones, theirs preferred."""
    level = min(_SWEEP_LEVEL, len(pyramid.levels) - 1)
    height, width = pyramid.levels[level].shape[-2:]
    rays = _plane_rays(pyramid, frame, level)
    steps = torch.linspace(0, 1, _HYPOTHESES, device=rays.device).square() / nearest  # fine where it is far
    places = rays[None] / steps.clamp_min(1e-4)[:, None, None, None]  # [D, h, w, 3]
    own = pyramid.levels[level][frame, 0] * brightness[frame, 0] + brightness[frame, 1]
    cost = torch.zeros(_HYPOTHESES, height, width, device=rays.device)
    count = torch.zeros_like(cost)
    for other in neighbours:
        relative = world_to_camera[other] @ se3.inverse(world_to_camera[frame])
        pixels, _, front = _alignment.project(
            places.flatten(0, 2)[None], pyramid.lens(level)[other][None], pyramid.xi, relative[None]
        )
        greys = _alignment.sample(pyramid.levels[level][other : other + 1, :1], pixels)[0, :, 0]
        greys = greys * brightness[other, 0] + brightness[other, 1]
        x, y = pixels[0].unbind(-1)
        inside = front[0] & (x > 0) & (x < width) & (y > 0) & (y < height)
        difference = (greys.view_as(cost) - own).abs()
        inside_map = inside.view_as(cost).float()
        cost += difference.clamp_max(_CUT_OFF) * inside_map
        count += inside_map
    cost = torch.where(count > 0, cost / count.clamp_min(1), _CUT_OFF)
    cost = functional.avg_pool2d(cost[None], 5, 1, 2, count_include_pad=False)[0]
    # Where the images say nothing (no parallax, no texture), the nearest known surface is continued.
    guess = functional.avg_pool2d(_extrapolate(prior, known)[None, None], 2**level)[0, 0]
    apart = (steps[:, None, None] - guess).abs() / (guess + 0.02 / nearest)
    best = (cost + _CLING * apart.clamp_max(1.0)).argmin(0)
    coarse = steps[best]
    return functional.interpolate(coarse[None, None], size=prior.shape, mode="bilinear", align_corners=False)[0, 0]


def _extrapolate(inverse: Tensor, known: Tensor) -> Tensor:  # [H, W]
    """Extend known values into the unknown pixels, a few pixels at a time."""
    value, mass = torch.where(known, inverse, 0.0), known.float()
    if not bool(known.any()):
        return torch.full_like(inverse, 0.1)
    while bool((mass == 0).any()):
        summed = functional.avg_pool2d(torch.stack([value * mass, mass])[None], 5, 1, 2)[0]
        take = (mass == 0) & (summed[1] > 0)
        value = torch.where(take, summed[0] / summed[1].clamp_min(1e-9), value)
        mass = torch.where(take, 1.0, mass)
    return value


def _refine(
    pyramid: Pyramid, frame: int, neighbours: list[int], world_to_camera: Tensor, brightness: Tensor, start: Tensor,
    prior_weight: Tensor, largest: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gauss-Newton on each pixel's inverse depth, using its neighbourhood; also how well it matches afterwards."""
    height, width = start.shape
    others = torch.tensor(neighbours, device=start.device)
    relative = world_to_camera[others] @ se3.inverse(world_to_camera[frame])  # [M, 4, 4]
    rays = _plane_rays(pyramid, frame, 0).flatten(0, 1)
    own = (pyramid.levels[0][frame, 0] * brightness[frame, 0] + brightness[frame, 1]).flatten()
    images, optics = pyramid.levels[0][others], pyramid.lens(0)[others]
    inverse, match = start.clone(), torch.ones_like(start)
    for _ in range(_REFINEMENTS + 1):
        flat = inverse.flatten()[:, None].clamp_min(1e-4)
        group = Points((rays / flat)[None].expand(len(others), -1, -1), own[None], torch.ones(1, len(rays)).to(start))
        residual, inside, slopes, in_camera, _ = _alignment.residuals(
            group, images, optics, pyramid.xi, relative, brightness[others]
        )
        size = residual.abs()  # [M, N]
        weight = inside / (1 + (size / 0.01).square())
        counted = inside.sum(0).clamp_min(1e-6)
        match = torch.where(inside.sum(0) > 0, (size * inside).sum(0) / counted, torch.ones_like(counted))
        along = (relative[:, None, :3, :3] @ (-rays / flat.square())[None, ..., None])[..., 0]  # [M, N, 3]
        slopes = slopes * brightness[others, :1, None]
        jacobian = (_alignment.grey_slope(slopes, in_camera, optics, pyramid.xi) * along).sum(-1)  # [M, N]
        sums = torch.stack([(weight * jacobian.square()).sum(0), (weight * jacobian * residual).sum(0)])
        sums = 9 * functional.avg_pool2d(sums.view(1, 2, height, width), 3, 1, 1)[0]
        # An error of one grey step moves a warped depth by about a hundredth of itself.
        stiff = (0.5 + 50 * prior_weight) * (0.02 / (start + 0.02 * largest)).square()
        step = -(sums[1] + stiff * (inverse - start)) / (sums[0] + stiff)
        bound = 0.1 * (inverse + 0.02 * largest)
        inverse = (inverse + step.clamp(-bound, bound)).clamp(1e-4, largest)
    return inverse, functional.avg_pool2d(match.view(1, 1, height, width), 3, 1, 1)[0, 0]
