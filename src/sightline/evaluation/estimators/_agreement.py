"""Regions of a picture vote: which of them go with the camera, and how many show what they should.

Point by point, differences of grey decide neither. A near car that drives ahead has more of the parallax than all the houses
behind it, so that a compromise with it costs each far point less than its own noise; and a gain near 0 with an offset brings
any frame close to a flat wall. A region says more than its points: by how many pixels it is still displaced, which is alike
for faint and for strong texture, and whether its structure is there at all, which no gain or offset can make.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_CELL = 8  # pixels, side of a region that goes with the camera or does not
_DISPLACED = 3.0  # robust spreads of the regions' displacements from which on one is left out
_STILL = 0.02  # pixels: displacements are not told apart below
_FAINT = 0.005  # grey per pixel, 0..1: slope below which a region does not know where it is
_WINDOW = 7  # pixels, side of a window whose structure is compared
_TEXTURE = 0.012  # spread of grey, 0..1, from which on a window has structure
_NOISE = 0.004  # spread of grey that a window may have by noise and rounding
_ALIKE = 0.6  # correlation of a window that agrees
_WHOLE = 0.6  # share of a region that must fall into the picture for it to vote
_FEWEST = 0.01  # share of the windows that must have structure for their vote to count


def going_along(
    residual: Tensor,  # [B, N] differences of grey, points row by row of whole keyframes
    slopes: Tensor,  # [B, N, 2] of the frame's grey along x and y
    inside: Tensor,  # [B, N], 0 where a point is outside or unknown
    size: tuple[int, int],  # of a keyframe: height, width
) -> Tensor:  # -> [B, N]
    """Weights 0..1 that leave out what moves by itself: Tukey's, of how far each region is displaced beside the others.

    While a frame is far from its place all regions are displaced, and all count: the spread is that of the moment.
    """
    frames = len(residual)
    x, y = slopes.unbind(-1)
    layers = torch.stack([x * x, x * y, y * y, x * residual, y * residual, torch.ones_like(x)], dim=1)
    layers = (layers * (inside > 0)[:, None]).view(frames, 6, -1, *size).transpose(1, 2).flatten(0, 1)  # [B K, 6, h, w]
    xx, xy, yy, along_x, along_y, there = functional.avg_pool2d(layers, _CELL, ceil_mode=True).unbind(1)
    xx, yy = xx + _FAINT**2, yy + _FAINT**2
    across = (yy * along_x - xy * along_y).square() + (xx * along_y - xy * along_x).square()
    displaced = across.sqrt() / (xx * yy - xy.square())  # [B K, h', w'] pixels
    votes = (xx + yy > 6 * _FAINT**2) & (there > _WHOLE)
    counted = torch.where(votes, displaced, torch.nan).view(frames, -1)
    spread = (1.4826 * counted.nanmedian(dim=-1).values).nan_to_num(1.0).clamp_min(_STILL)  # [B]
    share = displaced.view(frames, -1) / (_DISPLACED * spread[:, None])
    weight = (1 - share.square()).clamp_min(0).square().view_as(displaced)
    return functional.interpolate(weight[:, None], size=size, mode="nearest").view(frames, -1)


def agreement(
    expected: Tensor,  # [B, N] greys of whole keyframes, row by row
    seen: Tensor,  # [B, N] greys of the frame where the keyframes' points fall
    inside: Tensor,  # [B, N] weights, 0 where a point is outside or unknown
    size: tuple[int, int],  # of a keyframe: height, width
) -> Tensor:  # -> [B]
    """Share of the windows with structure, 0..1, in which what is seen correlates with what is expected."""
    frames = len(expected)
    there = (inside > 0).to(expected)
    a, b = there * expected, there * seen
    layers = torch.stack([there, a, b, a * a, b * b, a * b, inside], dim=1)
    layers = layers.view(frames, 7, -1, *size).transpose(1, 2).flatten(0, 1)  # [B K, 7, h, w]
    means = functional.avg_pool2d(layers, _WINDOW, stride=2)  # every other window: neighbours say nearly the same
    whole = means[:, 0]
    a, b, aa, bb, ab, weight = (means[:, 1:] / whole.clamp_min(1e-6)[:, None]).unbind(1)
    spread_a, spread_b = (aa - a.square()).clamp_min(0), (bb - b.square()).clamp_min(0)
    alike = (ab - a * b) / ((spread_a + _NOISE**2) * (spread_b + _NOISE**2)).sqrt()
    votes = ((whole > _WHOLE) & (spread_a > _TEXTURE**2)) * weight
    votes, alike = votes.view(frames, -1), alike.view(frames, -1)
    share = (votes * (alike > _ALIKE)).sum(-1) / votes.sum(-1).clamp_min(1e-9)
    return torch.where((votes > 0).to(share).mean(-1) > _FEWEST, share, 0.0)
