"""Votes of image regions: which of them move with the camera, and how many show the expected structure.

Per-point grey differences cannot decide either. A near car driving ahead has more parallax than all the houses behind it, so a
compromise with it costs each far point less than its own noise; and a gain near 0 with an offset brings any frame close to a
flat wall. A region says more than its points: by how many pixels it is still displaced, which is comparable for faint and for
strong texture, and whether its structure is present at all, which no gain or offset can imitate.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_CELL = 8  # pixels, side of a region that moves with the camera or does not
_DISPLACED = 3.0  # a region displaced by more than this many robust deviations is left out
_STILL = 0.02  # pixels: smaller displacements are not distinguished
_FAINT = 0.005  # grey per pixel, 0..1: a region with a smaller slope cannot be located
_WINDOW = 7  # pixels, side of a window whose structure is compared
_TEXTURE = 0.012  # standard deviation of grey, 0..1, above which a window has structure
_NOISE = 0.004  # standard deviation of grey that noise and rounding can cause
_ALIKE = 0.6  # correlation of a window that agrees
_MIN_COVERAGE = 0.6  # fraction of a region that must be inside the image for it to vote
_MIN_TEXTURED = 0.01  # fraction of the windows that must have structure for the vote to count


def static_weights(
    residual: Tensor,  # [B, N] differences of grey, points row by row of whole keyframes
    slopes: Tensor,  # [B, N, 2] of the frame's grey along x and y
    inside: Tensor,  # [B, N], 0 where a point is outside or unknown
    size: tuple[int, int],  # of a keyframe: height, width
) -> Tensor:  # -> [B, N]
    """Tukey weights, 0..1, that leave out regions which move by themselves, by how far each is displaced relative to the others.

    While a pose is still far off, all regions are displaced and all count, since the deviation is the current one.
    """
    frames = len(residual)
    x, y = slopes.unbind(-1)
    layers = torch.stack([x * x, x * y, y * y, x * residual, y * residual, torch.ones_like(x)], dim=1)
    layers = (layers * (inside > 0)[:, None]).view(frames, 6, -1, *size).transpose(1, 2).flatten(0, 1)  # [B K, 6, h, w]
    xx, xy, yy, along_x, along_y, there = functional.avg_pool2d(layers, _CELL, ceil_mode=True).unbind(1)
    xx, yy = xx + _FAINT**2, yy + _FAINT**2
    across = (yy * along_x - xy * along_y).square() + (xx * along_y - xy * along_x).square()
    displaced = across.sqrt() / (xx * yy - xy.square())  # [B K, h', w'] pixels
    votes = (xx + yy > 6 * _FAINT**2) & (there > _MIN_COVERAGE)
    counted = torch.where(votes, displaced, torch.nan).view(frames, -1)
    deviation = (1.4826 * counted.nanmedian(dim=-1).values).nan_to_num(1.0).clamp_min(_STILL)  # [B]
    relative = displaced.view(frames, -1) / (_DISPLACED * deviation[:, None])
    weight = (1 - relative.square()).clamp_min(0).square().view_as(displaced)
    return functional.interpolate(weight[:, None], size=size, mode="nearest").view(frames, -1)


def agreement(
    expected: Tensor,  # [B, N] greys of whole keyframes, row by row
    seen: Tensor,  # [B, N] greys of the frame where the keyframes' points fall
    inside: Tensor,  # [B, N] weights, 0 where a point is outside or unknown
    size: tuple[int, int],  # of a keyframe: height, width
) -> Tensor:  # -> [B]
    """The fraction of the windows with structure, 0..1, in which the seen greys correlate with the expected ones."""
    frames = len(expected)
    there = (inside > 0).to(expected)
    a, b = there * expected, there * seen
    layers = torch.stack([there, a, b, a * a, b * b, a * b, inside], dim=1)
    layers = layers.view(frames, 7, -1, *size).transpose(1, 2).flatten(0, 1)  # [B K, 7, h, w]
    means = functional.avg_pool2d(layers, _WINDOW, stride=2)  # every other window: neighbours are nearly equal
    coverage = means[:, 0]
    a, b, aa, bb, ab, weight = (means[:, 1:] / coverage.clamp_min(1e-6)[:, None]).unbind(1)
    variance_a, variance_b = (aa - a.square()).clamp_min(0), (bb - b.square()).clamp_min(0)
    alike = (ab - a * b) / ((variance_a + _NOISE**2) * (variance_b + _NOISE**2)).sqrt()
    votes = ((coverage > _MIN_COVERAGE) & (variance_a > _TEXTURE**2)) * weight
    votes, alike = votes.view(frames, -1), alike.view(frames, -1)
    fraction = (votes * (alike > _ALIKE)).sum(-1) / votes.sum(-1).clamp_min(1e-9)
    return torch.where((votes > 0).to(fraction).mean(-1) > _MIN_TEXTURED, fraction, 0.0)
