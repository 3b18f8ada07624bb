"""Direct alignment: the camera pose at which points of known position and grey project to pixels of that grey.

Gauss-Newton on SE(3) and on the frame's brightness (a gain and an offset), coarse to fine, with the weights of a Student t
distribution, so that occluded points and outliers count little; regions that move by themselves are left out (see `_agreement`).
Batched over frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sightline.cameras import lens, se3
from sightline.evaluation.estimators._agreement import agreement, static_weights

_FREEDOM = 5.0  # of the Student t distribution; Kerl et al. 2013 found 5 for photometric residuals
_SMALLEST_SCALE = 0.0005  # greys are 0..1: the rounding to 8 bits, averaged over three channels and a blur
_LUMINANCE = (0.299, 0.587, 0.114)
_STEEP = 0.15  # slope of grey per pixel above which a point's weight falls: interpolation is worst at steep edges
_REGIONS_FROM = 48  # pixels of the shorter side: a smaller image has too few regions for a vote
_DAMPING = 1e-4
_BRIGHTNESS_PRIOR = 1e-3  # keeps gain and offset in an image without contrast
_NEAREST = 1e-3  # a point whose depth is below this fraction of its distance counts as behind the lens


@dataclass(frozen=True, eq=False)
class Pyramid:
    """Grey frames at successively halved sizes, finest first. levels: [T, 3, h, w] each: grey 0..1, its slopes along x and y."""

    levels: tuple[Tensor, ...]
    intrinsics: Tensor  # [T, 3, 3] of the finest level, float32
    xi: float

    @classmethod
    def of(cls, video: Tensor, intrinsics: Tensor, xi: float, smallest: int) -> Pyramid:  # [T, H, W, 3] uint8
        grey = (video.float() @ video.new_tensor(_LUMINANCE, dtype=torch.float32))[:, None] / 255
        colours = _smoothed(grey)
        levels = [_with_slopes(colours)]
        while min(colours.shape[-2:]) >= 2 * smallest:
            colours = functional.avg_pool2d(colours, 2)
            levels.append(_with_slopes(colours))
        return cls(tuple(levels), intrinsics.to(video.device, torch.float32), xi)

    def lens(self, level: int) -> Tensor:  # [T, 3, 3]
        """Intrinsics at a level; the image spans 0..width, so halving the image halves them."""
        shrink = torch.tensor([0.5**level, 0.5**level, 1.0], device=self.intrinsics.device)
        return self.intrinsics * shrink[:, None]


@dataclass(frozen=True, eq=False)
class Points:
    """Grey points of one level, for B frames. A weight of 0 leaves a point out."""

    places: Tensor  # [B, N, 3] in the world; for `align`, the pixels of whole keyframes, row by row
    greys: Tensor  # [B, N] brightness, 0..1
    weights: Tensor  # [B, N]


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of an alignment, for each of B frames."""

    world_to_camera: Tensor  # [B, 4, 4]
    brightness: Tensor  # [B, 2] gain and offset
    scale: Tensor  # [B] of the residuals, colours 0..1
    visible: Tensor  # [B] fraction of the points' weight that projects into the image
    matched: Tensor  # [B] 0..1: the fraction of the visible windows with structure that show what they should


def align(
    levels: Sequence[Points],  # finest first
    pyramid: Pyramid,
    frames: Tensor,  # [B] which frames of the pyramid
    world_to_camera: Tensor,  # [B, 4, 4] to start from
    brightness: Tensor,  # [B, 2]
    iterations: Sequence[int],  # of each level, finest first
) -> Fit:
    """Poses of the frames, from the coarsest level to the finest."""
    pose, start = world_to_camera, brightness
    for level in reversed(range(len(levels))):
        image, optics = pyramid.levels[level][frames], pyramid.lens(level)[frames]
        if level < len(levels) - 1:
            # A coarse image blurs surfaces into each other: where it made things worse, restart from the initial pose.
            scales = [
                _scale(residual.abs(), inside)
                for residual, inside, *_ in (
                    residuals(levels[level], image, optics, pyramid.xi, candidate, shade)
                    for candidate, shade in ((pose, brightness), (world_to_camera, start))
                )
            ]
            stay = scales[1] < scales[0]
            pose = torch.where(stay[:, None, None], world_to_camera, pose)
            brightness = torch.where(stay[:, None], start, brightness)
        for _ in range(iterations[level]):
            step, brightness_step = _step(levels[level], image, optics, pyramid.xi, pose, brightness)
            pose = motion(step) @ pose
            brightness = brightness + brightness_step
    finest = levels[0]
    residual, inside, _, _, value = residuals(
        finest, pyramid.levels[0][frames], pyramid.lens(0)[frames], pyramid.xi, pose, brightness
    )
    size = residual.abs()  # [B, N]
    scale = _scale(size, inside)
    height, width = pyramid.levels[0].shape[-2:]
    matched = agreement(finest.greys, value, inside, (height, width))
    visible = inside.sum(-1) / finest.weights.sum(-1).clamp_min(1e-9)
    return Fit(_rigid(pose), brightness, scale, visible, matched)


def project(points: Tensor, intrinsics: Tensor, xi: float, world_to_camera: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pixels [B, N, 2] of world points [B, N, 3], the points in camera coordinates, and whether they lie in front."""
    in_camera = points @ world_to_camera[:, :3, :3].transpose(1, 2) + world_to_camera[:, None, :3, 3]
    front = in_camera[..., 2] + xi * in_camera.norm(dim=-1) > _NEAREST * (1 + in_camera.norm(dim=-1))
    safe = torch.where(front[..., None], in_camera, in_camera.new_tensor([0.0, 0.0, 1.0]))
    return lens.project(intrinsics[:, None], safe, xi), in_camera, front


def sample(image: Tensor, pixels: Tensor) -> Tensor:  # [B, C, h, w], [B, N, 2] -> [B, N, C]
    """Bilinear; the first pixel's centre is (0.5, 0.5), so the image spans 0..width."""
    size = pixels.new_tensor([image.shape[-1], image.shape[-2]])
    grid = (pixels / size * 2 - 1)[:, None]
    values = functional.grid_sample(image, grid, align_corners=False, padding_mode="border")
    return values[:, :, 0].transpose(1, 2)


def motion(twist: Tensor) -> Tensor:  # [B, 6] translation, then rotation vector -> [B, 4, 4]
    generator = twist.new_zeros(*twist.shape[:-1], 4, 4)
    v, w = twist[..., :3], twist[..., 3:]
    generator[..., :3, 3] = v
    generator[..., 0, 1], generator[..., 0, 2], generator[..., 1, 2] = -w[..., 2], w[..., 1], -w[..., 0]
    generator[..., 1, 0], generator[..., 2, 0], generator[..., 2, 1] = w[..., 2], -w[..., 1], w[..., 0]
    return torch.linalg.matrix_exp(generator)


def _step(
    points: Points, image: Tensor, optics: Tensor, xi: float, pose: Tensor, brightness: Tensor
) -> tuple[Tensor, Tensor]:  # -> [B, 6], [B, 2]
    residual, inside, slopes, in_camera, value = residuals(points, image, optics, xi, pose, brightness)
    size = residual.abs()
    scale = _scale(size, inside)[:, None]
    weight = inside * (_FREEDOM + 1) / (_FREEDOM + (size / scale).square())  # [B, N]
    weight = weight / (1 + slopes.square().sum(-1) / _STEEP**2)
    height, width = image.shape[-2:]
    if min(height, width) >= _REGIONS_FROM:
        weight = weight * static_weights(residual, slopes * brightness[:, :1, None], inside, (height, width))
    by_point = grey_slope(slopes * brightness[:, :1, None], in_camera, optics, xi)  # [B, N, 3]
    by_turn = torch.linalg.cross(in_camera, by_point)
    one = torch.ones_like(value)[..., None]
    jacobian = torch.cat([by_point, by_turn, value[..., None], one], dim=-1)  # [B, N, 8]
    weighted = (jacobian * weight[..., None]).transpose(1, 2)
    normal, right = weighted @ jacobian, -(weighted @ residual[..., None])[..., 0]  # [B, 8, 8], [B, 8]
    extra = _DAMPING * normal.diagonal(dim1=1, dim2=2) + 1e-8
    extra[:, 6:] += _BRIGHTNESS_PRIOR * weight.sum(-1, keepdim=True)
    solved = torch.linalg.solve((normal + torch.diag_embed(extra)).double(), right.double()).to(pose.dtype)
    return solved[:, :6], solved[:, 6:]


def residuals(
    points: Points, image: Tensor, optics: Tensor, xi: float, pose: Tensor, brightness: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Differences of grey [B, N], weights of what is inside [B, N], slopes [B, N, 2], points [B, N, 3], greys [B, N]."""
    pixels, in_camera, front = project(points.places, optics, xi, pose)
    width, height = image.shape[-1], image.shape[-2]
    inside = front & (pixels[..., 0] > 0.5) & (pixels[..., 0] < width - 0.5)
    inside &= (pixels[..., 1] > 0.5) & (pixels[..., 1] < height - 0.5)
    sampled = sample(image, torch.where(inside[..., None], pixels, torch.ones_like(pixels)))  # [B, N, 3]
    value = sampled[..., 0]
    residual = brightness[:, :1] * value + brightness[:, 1:] - points.greys
    return residual, inside * points.weights, sampled[..., 1:], in_camera, value


def grey_slope(
    slopes: Tensor, in_camera: Tensor, optics: Tensor, xi: float
) -> Tensor:  # [B, N, 2], [B, N, 3] -> [B, N, 3]
    """How the grey under a point changes as the point moves in camera coordinates, in the unified camera model."""
    distance = in_camera.norm(dim=-1, keepdim=True).clamp_min(1e-9)
    depth = in_camera[..., 2:] + xi * distance
    depth = torch.where(depth.abs() < 1e-6, torch.full_like(depth, 1e-6), depth)
    pull = slopes * optics.diagonal(dim1=1, dim2=2)[:, None, :2] / depth  # [B, N, 2]
    along_depth = -(pull * in_camera[..., :2]).sum(-1, keepdim=True) / depth  # [B, N, 1]
    moved = torch.cat([pull, along_depth], dim=-1)
    return moved if xi == 0 else moved + along_depth * xi * in_camera / distance


def _scale(size: Tensor, inside: Tensor) -> Tensor:  # [B, N] x2 -> [B]
    """A robust standard deviation of the residuals of the points inside."""
    size, inside = size[:, ::4], inside[:, ::4]  # a median of thousands needs no more of them
    counted = torch.where(inside > 0, size, torch.full_like(size, torch.nan))
    return (1.4826 * counted.nanmedian(dim=-1).values).nan_to_num(1.0).clamp_min(_SMALLEST_SCALE)


def _rigid(pose: Tensor) -> Tensor:  # [B, 4, 4]
    """Removes the rounding of many float32 products from the rotation."""
    return se3.from_parts(se3.nearest_rotation(pose[:, :3, :3]), pose[:, :3, 3])


def _smoothed(colours: Tensor) -> Tensor:  # [T, 1, H, W]
    """A slight blur, because interpolation between the pixels of a sharp image is inaccurate."""
    kernel = torch.tensor([1.0, 2.0, 1.0], device=colours.device) / 4
    kernel = (kernel[:, None] * kernel)[None, None]
    return functional.conv2d(functional.pad(colours, (1, 1, 1, 1), mode="replicate"), kernel)


def _with_slopes(colours: Tensor) -> Tensor:  # [T, 1, h, w] -> [T, 3, h, w]
    padded = functional.pad(colours, (1, 1, 1, 1), mode="replicate")
    along_x = (padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]) / 2
    along_y = (padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]) / 2
    return torch.cat([colours, along_x, along_y], dim=1)
