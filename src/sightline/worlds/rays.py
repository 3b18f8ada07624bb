"""Rays of cameras, and the first surface that each ray hits.

A packet is a set of rays of one frame: a whole frame, or a tile of it. Rays are [P, R], packets by rays in a packet.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.worlds.scene import FAR, KINDS

_TINY = 1e-7
_MISS = 1e6  # beyond any wall: every ray ends on the room's shell at the latest


@dataclass(frozen=True, eq=False)
class Packets:
    """The camera of each packet, one row per packet, and the solids of its frame.

    camera: [P, 17] rotation (camera to world, row by row) 9, centre 3, fx, fy, cx, cy, xi.
    solids: [P, N, 8] centre, half size, cos and sin of the turn.
    room: [P, 6] low and high corner.
    """

    camera: Tensor
    solids: Tensor
    room: Tensor


@dataclass(frozen=True, eq=False)
class Rays:
    """Unit directions in the world, and per ray the angle between neighbouring pixels and the cosine to the axis."""

    x: Tensor  # [P, R]
    y: Tensor  # [P, R]
    z: Tensor  # [P, R]
    pixel_angle: Tensor  # [P, R] radians
    forward: Tensor  # [P, R] depth along the optical axis = forward * distance along the ray


def camera_rays(camera: Tensor, x: Tensor, y: Tensor) -> Rays:  # [P, 17], [P or 1, R] x2 pixels -> rays [P, R]
    """The unified camera model of `cameras.lens.pixel_rays`, one lens per packet, in float32.

    A pixel outside the image of the sphere (xi > 1 only) takes the ray of the sphere's rim instead of none.
    """
    r00, r01, r02, r10, r11, r12, r20, r21, r22, _, _, _, fx, fy, cx, cy, xi = camera[..., None].unbind(1)
    a, b = (x - cx) / fx, (y - cy) / fy
    radius_squared = a * a + b * b
    scale = (xi + (1 + (1 - xi * xi) * radius_squared).clamp_min(0).sqrt()) / (1 + radius_squared)
    a, b, forward = scale * a, scale * b, scale - xi
    return Rays(
        x=_not_zero(r00 * a + r01 * b + r02 * forward),
        y=_not_zero(r10 * a + r11 * b + r12 * forward),
        z=_not_zero(r20 * a + r21 * b + r22 * forward),
        pixel_angle=scale / fx,
        forward=forward,
    )


def first_hit(packets: Packets, rays: Rays, candidates: dict[str, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Distance [P, R] to the first surface and its slot [P, R]: -1 for the room, else the number of the solid.

    candidates: per kind of solid [P, K], the solids that the packet may meet; without it all are tested, as one
    reduction that a compiler fuses. With it they are tested one after the other, which eager torch does faster. Both
    give the same answer.
    """
    shared = _Shared(rays)
    distance = _room_exit(packets, shared)
    slot = torch.full_like(distance, -1, dtype=torch.int32)
    for kind, measure in _MEASURES.items():
        if candidates is None:
            solids = packets.solids[:, KINDS[kind]].movedim(-1, 0).contiguous()[..., None]  # [8, P, N, 1]
            nearest, which = measure(packets.camera[:, 9:12, None, None].unbind(1), shared.for_each(), solids).min(
                dim=1
            )
            closer = nearest < distance
            slot = torch.where(closer, which.to(torch.int32) + KINDS[kind].start, slot)
            distance = torch.minimum(distance, nearest)
            continue
        for chosen in candidates[kind].unbind(1):  # [P]
            solid = packets.solids[torch.arange(len(chosen), device=chosen.device), chosen].T[..., None]  # [8, P, 1]
            hit = measure(packets.camera[:, 9:12, None].unbind(1), shared, solid)
            slot = torch.where(hit < distance, chosen.to(torch.int32)[:, None], slot)
            distance = torch.minimum(distance, hit)
    return distance, slot


def tile_candidates(packets: Packets, x: Tensor, y: Tensor) -> Tensor:  # corners [P, 4] in order -> [P, SOLIDS] bool
    """Solids whose bounding box meets the pyramid between four corner rays. What a ray inside meets is among them.

    A lens with xi bends the edges of the pyramid a little: give corners outside the tile by a pixel or two.
    """
    rays = camera_rays(packets.camera, x, y)
    corner = torch.stack([rays.x, rays.y, rays.z], dim=-1)  # [P, 4, 3]
    inward = torch.linalg.cross(corner.roll(-1, 1), corner)[:, None]  # [P, 1, 4, 3] normals of the sides
    inward = inward * (inward * corner.mean(1)[:, None, None]).sum(-1, keepdim=True).sign()
    offset = packets.solids[..., None, :3] - packets.camera[:, None, None, 9:12]  # [P, N, 1, 3]
    half, cos, sin = packets.solids[..., None, 3:6], packets.solids[..., None, 6], packets.solids[..., None, 7]
    reach = (
        (cos * inward[..., 0] - sin * inward[..., 2]).abs() * half[..., 0]
        + inward[..., 1].abs() * half[..., 1]
        + (sin * inward[..., 0] + cos * inward[..., 2]).abs() * half[..., 2]
    )  # [P, N, 4]
    return ((offset * inward).sum(-1) + reach >= 0).all(-1) & (packets.solids[..., 4] > 0)


# -- one kind of solid at a time: distance to its outside, or _MISS where the ray passes it -----------------------------
# Comparisons with nan are false, so a degenerate ray is a miss and never reaches a picture.


class _Shared:
    """Directions and what all solids need of them, computed once per packet."""

    def __init__(self, rays: Rays) -> None:
        self.x, self.y, self.z = rays.x, rays.y, rays.z
        self.inverse_y = 1 / rays.y
        self.horizontal = (rays.x * rays.x + rays.z * rays.z).clamp_min(_TINY * _TINY)
        self.inverse_horizontal = 1 / self.horizontal

    def for_each(self) -> _Shared:
        """The same with an axis for the solids: [P, 1, R]."""
        wide = object.__new__(_Shared)
        for name, value in vars(self).items():
            setattr(wide, name, value[:, None])
        return wide


def _box(origin: tuple[Tensor, ...], ray: _Shared, solid: Tensor) -> Tensor:
    cx, cy, cz, hx, hy, hz, cos, sin = solid.unbind(0)
    ox, oy, oz = origin[0] - cx, origin[1] - cy, origin[2] - cz
    ox, oz = cos * ox - sin * oz, sin * ox + cos * oz
    inverse_x, inverse_z = 1 / _not_zero(cos * ray.x - sin * ray.z), 1 / _not_zero(sin * ray.x + cos * ray.z)
    middle_x, middle_y, middle_z = inverse_x * ox, ray.inverse_y * oy, inverse_z * oz
    reach_x, reach_y, reach_z = inverse_x.abs() * hx, ray.inverse_y.abs() * hy, inverse_z.abs() * hz
    near = torch.maximum(torch.maximum(-middle_x - reach_x, -middle_y - reach_y), -middle_z - reach_z)
    far = torch.minimum(torch.minimum(reach_x - middle_x, reach_y - middle_y), reach_z - middle_z)
    return torch.where(torch.minimum(far - near, near) > 0, near, _MISS)


def _cylinder(origin: tuple[Tensor, ...], ray: _Shared, solid: Tensor) -> Tensor:
    cx, cy, cz, radius, hy = solid.unbind(0)[:5]
    ox, oy, oz = origin[0] - cx, origin[1] - cy, origin[2] - cz
    towards = ox * ray.x + oz * ray.z
    under_root = towards * towards - ray.horizontal * (ox * ox + oz * oz - radius * radius)
    root = under_root.clamp_min(0).sqrt()
    middle, reach = ray.inverse_y * oy, ray.inverse_y.abs() * hy
    near = torch.maximum((-towards - root) * ray.inverse_horizontal, -middle - reach)
    far = torch.minimum((root - towards) * ray.inverse_horizontal, reach - middle)
    return torch.where(torch.minimum(torch.minimum(far - near, near), under_root) > 0, near, _MISS)


def _ball(origin: tuple[Tensor, ...], ray: _Shared, solid: Tensor) -> Tensor:
    cx, cy, cz, rx, ry, rz = solid.unbind(0)[:6]
    ix, iy, iz = 1 / rx.clamp_min(_TINY), 1 / ry.clamp_min(_TINY), 1 / rz.clamp_min(_TINY)
    ox, oy, oz = (origin[0] - cx) * ix, (origin[1] - cy) * iy, (origin[2] - cz) * iz
    dx, dy, dz = ray.x * ix, ray.y * iy, ray.z * iz
    a = dx * dx + dy * dy + dz * dz
    towards = ox * dx + oy * dy + oz * dz
    under_root = towards * towards - a * (ox * ox + oy * oy + oz * oz - 1)
    near = (-towards - under_root.clamp_min(0).sqrt()) / a
    return torch.where((torch.minimum(under_root, near) > 0) & (rx > 0), near, _MISS)


_MEASURES = {"box": _box, "cylinder": _cylinder, "ball": _ball}


def _room_exit(packets: Packets, ray: _Shared) -> Tensor:
    """Distance to the far side of the room's shell. From outside, the near wall is looked through."""
    middle, half = (packets.room[:, :3] + packets.room[:, 3:]) / 2, (packets.room[:, 3:] - packets.room[:, :3]) / 2
    exits = []
    for axis, inverse in enumerate((1 / ray.x, ray.inverse_y, 1 / ray.z)):
        offset = packets.camera[:, 9 + axis, None] - middle[:, axis, None]
        exits.append(inverse.abs() * half[:, axis, None] - inverse * offset)
    leave = torch.minimum(torch.minimum(exits[0], exits[1]), exits[2])
    return torch.where(leave > 0, leave, FAR).clamp_max(2 * FAR)


def _not_zero(value: Tensor) -> Tensor:
    return torch.where(value.abs() < _TINY, _TINY, value)
