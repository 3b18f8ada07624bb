"""Intrinsics in pixels, and rays through pixels, for pinholes and the unified camera model (xi = 0 is a pinhole)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sightline.errors import SightlineError

FULL_FRAME_MM = 36.0  # sensor width that focal lengths in millimetres refer to


def intrinsics_matrix(fx: Tensor, fy: Tensor, cx: Tensor, cy: Tensor) -> Tensor:  # [...] x4 -> [..., 3, 3]
    """K = [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] from broadcastable parts."""
    fx, fy, cx, cy = torch.broadcast_tensors(fx, fy, cx, cy)
    zero, one = torch.zeros_like(fx), torch.ones_like(fx)
    return torch.stack([fx, zero, cx, zero, fy, cy, zero, zero, one], dim=-1).unflatten(-1, (3, 3))


def intrinsics_from_mm(focal_mm: Tensor, width: int, height: int) -> Tensor:  # [...] -> [..., 3, 3]
    """A centred pinhole with square pixels: focal length in millimetres on a sensor 36 mm wide."""
    focal = focal_mm.double() * (width / FULL_FRAME_MM)
    return intrinsics_matrix(focal, focal, torch.full_like(focal, width / 2), torch.full_like(focal, height / 2))


def intrinsics_from_fov(horizontal_degrees: float, width: int, height: int, xi: float = 0.0) -> Tensor:  # -> [3, 3]
    """A centred lens with square pixels and this horizontal field of view.

    A ray at half the angle meets the edge of the image: width / 2 = f sin / (cos + xi).
    """
    half = math.radians(horizontal_degrees) / 2
    focal = torch.tensor(width / 2 * (math.cos(half) + xi) / math.sin(half), dtype=torch.float64)
    return intrinsics_matrix(focal, focal, focal.new_tensor(width / 2), focal.new_tensor(height / 2))


def pixel_rays(intrinsics: Tensor, pixels: Tensor, xi: float = 0.0) -> Tensor:  # [..., 3, 3], [..., 2] -> [..., 3]
    """Unit directions, in camera coordinates, of the rays through pixels (x, y); the first pixel's centre is (0.5, 0.5).

    Unified camera model (Mei): points on the unit sphere are projected from a centre xi behind that of the sphere. A
    pixel outside the image of the sphere, possible only for xi > 1, has no ray and is refused.
    """
    require_rays(intrinsics, pixels, xi)
    return unproject(*image_plane(intrinsics, pixels), xi)


def image_plane(intrinsics: Tensor, pixels: Tensor) -> tuple[Tensor, Tensor]:  # [..., 3, 3], [..., 2] -> [...] x2
    """Points of the image plane at focal length 1 of pixels (x, y)."""
    x = (pixels[..., 0] - intrinsics[..., 0, 2]) / intrinsics[..., 0, 0]
    y = (pixels[..., 1] - intrinsics[..., 1, 2]) / intrinsics[..., 1, 1]
    return x, y


def require_rays(intrinsics: Tensor, pixels: Tensor, xi: float) -> None:
    """Raise where a pixel is outside the image of the sphere, which is possible only for xi > 1."""
    if xi <= 1:
        return
    x, y = image_plane(intrinsics, pixels)
    if bool((1 + (1 - xi * xi) * (x * x + y * y) < 0).any()):
        raise SightlineError(
            f"xi = {xi} puts pixels outside the image of the sphere: expected a longer focal length or a smaller xi."
        )


def unproject(x: Tensor, y: Tensor, xi: Tensor | float) -> Tensor:  # [...] x2 -> [..., 3]
    """Unit directions through points of the image plane at focal length 1; a point outside the image of the sphere (xi > 1)
    takes a ray of its rim."""
    radius_squared = x * x + y * y
    scale = (xi + (1 + (1 - xi * xi) * radius_squared).clamp_min(0).sqrt()) / (1 + radius_squared)
    return torch.stack([scale * x, scale * y, scale - xi], dim=-1)


def project(
    intrinsics: Tensor, points: Tensor, xi: Tensor | float = 0.0
) -> Tensor:  # [..., 3, 3], [..., 3] -> [..., 2]
    """Pixels (x, y) of points in camera coordinates: the inverse of `pixel_rays`."""
    depth = points[..., 2] + xi * points.norm(dim=-1)
    x = intrinsics[..., 0, 0] * points[..., 0] / depth + intrinsics[..., 0, 2]
    y = intrinsics[..., 1, 1] * points[..., 1] / depth + intrinsics[..., 1, 2]
    return torch.stack([x, y], dim=-1)


def grid_centres(
    width: int, height: int, columns: int, rows: int, device: torch.device | None = None
) -> Tensor:  # -> [rows, columns, 2]
    """Pixel coordinates of the centres of a grid of equal patches: ((u + 0.5) p, (v + 0.5) p), row by row."""
    x = (torch.arange(columns, dtype=torch.float64, device=device) + 0.5) * (width / columns)
    y = (torch.arange(rows, dtype=torch.float64, device=device) + 0.5) * (height / rows)
    grid_y, grid_x = torch.meshgrid(y, x, indexing="ij")
    return torch.stack([grid_x, grid_y], dim=-1)
