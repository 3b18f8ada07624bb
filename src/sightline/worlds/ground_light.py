"""Light on the ground, baked once per scene: contact shadows around what stands on it and soft shadows of the key light."""

from __future__ import annotations

import torch
from torch import Tensor

from sightline.worlds.scene import Scene
from sightline.worlds.shading import GROUND_TEXELS

_OUTDOOR_REACH = 24.0  # metres around the origin covered by the map outdoors; beyond, its edge is repeated

_HANGING = 0.3  # metres; a solid this close to the ceiling that does not reach the ground hangs from it


def ground_extent(scene: Scene) -> Tensor:  # -> [B, 4]
    """x and z of the first texel's edge, 1 / size in x and z."""
    low = scene.room[:, [0, 2]].clamp_min(-_OUTDOOR_REACH)
    high = scene.room[:, [3, 5]].clamp_max(_OUTDOOR_REACH)
    return torch.cat([low, 1 / (high - low)], dim=-1)


def ground_light(scene: Scene) -> Tensor:  # -> [B, 2, texels * texels]
    """Fraction of ambient light and of key light that reaches each texel of the ground. Things that move are left out.

    Ambient light is lost near the foot of a solid. Key light is lost along a ray towards the light, more where the ray
    stays longer inside a solid, which softens the edges as a large light does.
    """
    extent = ground_extent(scene)
    step = (torch.arange(GROUND_TEXELS, device=scene.device) + 0.5) / GROUND_TEXELS
    x = (extent[:, 0, None] + step / extent[:, 2, None])[:, None, :].expand(-1, GROUND_TEXELS, -1).flatten(1)  # [B, M]
    z = (extent[:, 1, None] + step / extent[:, 3, None])[:, :, None].expand(-1, -1, GROUND_TEXELS).flatten(1)
    texel = torch.maximum(1 / extent[:, 2], 1 / extent[:, 3])[:, None, None] / GROUND_TEXELS
    cx, cy, cz, hx, hy, hz, cos, sin = scene.solids[..., :8, None].unbind(2)  # [B, N, 1]
    casts = (scene.solids[..., 13, None] > 0) & (scene.solids[..., 11, None] == 0) & (hy > 0)
    ground, ceiling = scene.room[:, 4, None, None], scene.room[:, 1, None, None]
    # A lamp under the ceiling is itself a light and casts no shadow.
    casts = casts & ~((cy - hy - ceiling < _HANGING) & (ground - cy - hy > 1.0))
    off_x, off_z = x[:, None] - cx, z[:, None] - cz  # [B, N, M]
    local_x, local_z = cos * off_x - sin * off_z, sin * off_x + cos * off_z
    outside = ((local_x.abs() - hx).clamp_min(0).square() + (local_z.abs() - hz).clamp_min(0).square()).sqrt()
    rooted = torch.where(casts, 0.55 * torch.exp(-4.0 * (ground - cy - hy).clamp_min(0)), 0.0)
    contact = rooted * torch.exp(-outside / (0.12 + 0.5 * texel))
    light_x, light_y, light_z = scene.light[:, None, :3, None].unbind(2)
    towards_x, towards_z = cos * light_x - sin * light_z, sin * light_x + cos * light_z
    inside = _chord(local_x, ground - cy, local_z, towards_x, light_y, towards_z, hx, hy, hz)
    shadow = torch.where(casts, 0.9, 0.0) * (inside / (0.35 + 2 * texel)).clamp_max(1)
    return torch.stack([(1 - contact).prod(1), (1 - shadow).prod(1)], dim=1)


def _chord(
    ox: Tensor, oy: Tensor, oz: Tensor, dx: Tensor, dy: Tensor, dz: Tensor, hx: Tensor, hy: Tensor, hz: Tensor
) -> Tensor:
    """Length of a ray inside a box around the origin; round solids count as their boxes."""
    near, far = torch.zeros_like(ox), torch.full_like(ox, 1e4)
    for origin, direction, half in ((ox, dx, hx), (oy, dy, hy), (oz, dz, hz)):
        inverse = 1 / torch.where(direction.abs() < 1e-6, 1e-6, direction)
        near = torch.maximum(near, -inverse * origin - inverse.abs() * half)
        far = torch.minimum(far, inverse.abs() * half - inverse * origin)
    return (far - near).clamp_min(0)
