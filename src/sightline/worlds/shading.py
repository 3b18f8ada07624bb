"""Shading of the surfaces that rays hit: normal, texture, light, contact shadows, sky and fog. Colours are linear."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.worlds.rays import Packets, Rays
from sightline.worlds.scene import BOXES, CEILING, CYLINDERS, END_WALLS, FAR, GROUND, SHELL, SIDE_WALLS, SKY
from sightline.worlds.textures import GLOW, look_up, surface_colour

GROUND_TEXELS = 80


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What the rays of a packet need of their scene besides its solids.

    clip: [P] the scene of each packet. materials: [columns, B, rows]. light: [P, 17].
    ground_light: [B, 2, texels * texels] ambient and key light that reach the ground. ground_extent: [P, 4] x, z of the
    first texel's edge and 1 / size in x and z. lattice: the noise table. movers: for each
    solid that may move, how dark a blob it casts on the ground [B].
    """

    clip: Tensor
    materials: Tensor
    light: Tensor
    ground_light: Tensor
    ground_extent: Tensor
    lattice: Tensor
    movers: dict[int, Tensor]


def shade(
    packets: Packets, rays: Rays, distance: Tensor, slot: Tensor, around: Surroundings, footprint: float
) -> tuple[Tensor, Tensor, Tensor]:  # [P, R] each
    """Linear colour of every ray. footprint: width of a sample in pixels, over which textures are averaged."""
    light = around.light[..., None].unbind(1)  # 17 of [P, 1]
    centre, half, cos, sin = _geometry(packets, slot)
    hit_x = packets.camera[:, 9, None] + distance * rays.x
    hit_y = packets.camera[:, 10, None] + distance * rays.y
    hit_z = packets.camera[:, 11, None] + distance * rays.z
    room = slot < 0
    rounded = slot >= BOXES
    ball = slot >= BOXES + CYLINDERS

    # Place on the solid, in its own axes. "beyond" is 0 on the face that was met and negative on the others.
    off_x, local_y, off_z = hit_x - centre[0], hit_y - centre[1], hit_z - centre[2]
    local_x, local_z = cos * off_x - sin * off_z, sin * off_x + cos * off_z
    radial = (local_x * local_x + local_z * local_z).sqrt()
    beyond_x = torch.where(rounded, radial - half[0], local_x.abs() - half[0])
    beyond_y = local_y.abs() - half[1]
    beyond_z = torch.where(rounded, -FAR, local_z.abs() - half[2])
    flat_y = (beyond_y > beyond_x) & (beyond_y > beyond_z) & ~ball
    flat_x = ~flat_y & (beyond_x > beyond_z) & ~rounded
    flat_z = ~flat_y & ~flat_x & ~rounded

    # Masks as numbers: on a CPU, a product costs a fifth of torch.where.
    on_x, on_y, on_z = flat_x.float(), flat_y.float(), flat_z.float()
    on_round = 1 - on_x - on_y - on_z
    normal_x, normal_y, normal_z = _normal(local_x, local_y, local_z, half, on_x, on_y, on_z, on_round, ball)
    inward = 1 - 2 * room.float()
    normal_x, normal_z = (cos * normal_x + sin * normal_z) * inward, (cos * normal_z - sin * normal_x) * inward
    normal_y = normal_y * inward

    # Texture coordinates start at an edge, so that windows and tiles sit evenly on a face.
    on_ground = room & flat_y & (local_y > 0)
    sky = (light[16] * (room.float() - on_ground.float())) > 0
    turn = torch.atan2(local_x, local_z) * half[0]
    u = on_x * (local_z + half[2]) + on_round * turn + (on_y + on_z) * (local_x + half[0])
    v = on_y * (local_z + half[2]) + (1 - on_y) * (half[1] - local_y)
    cloud_scale = 60.0 / (0.12 - rays.y).clamp_min(0.12)
    u, v = torch.where(sky, rays.x * cloud_scale, u), torch.where(sky, rays.z * cloud_scale, v)

    facing = -(normal_x * rays.x + normal_y * rays.y + normal_z * rays.z)
    steep = 1 / facing.clamp_min(0.02)
    along_x, along_z = cos * rays.x - sin * rays.z, sin * rays.x + cos * rays.z
    along_u = (on_x * along_z + on_round + (on_y + on_z) * along_x) * steep
    along_v = (on_y * along_z + on_round + (on_x + on_z) * rays.y) * steep
    # The cone of a sample cuts the surface in an ellipse that is longer along the ray: its extent on both axes.
    cone = footprint * rays.pixel_angle
    width = cone * distance
    cloud_width = cone * cloud_scale * cloud_scale * (1 / 20)
    width_u = torch.where(sky, cloud_width, width * (1 + along_u * along_u).sqrt())
    width_v = torch.where(sky, cloud_width, width * (1 + along_v * along_v).sqrt())

    shell = CEILING + on_x * (SIDE_WALLS - CEILING) + on_z * (END_WALLS - CEILING)
    row = torch.where(on_ground, float(GROUND), torch.where(sky, float(SKY), shell)).to(torch.int32)
    row = torch.where(room, row, slot + SHELL)
    index = row + (around.clip[:, None] * around.materials.shape[2]).to(torch.int32)
    column = [look_up(table.flatten(), index) for table in around.materials.unbind(0)]
    colour = surface_colour(u, v, width_u, width_v, column, around.lattice)

    ambient, key = _light_at(packets, around, hit_x, hit_y, hit_z, room, flat_x, flat_y, flat_z, on_ground)
    towards_key = normal_x * light[0] + normal_y * light[1] + normal_z * light[2]
    key = key * (towards_key * 0.85 + 0.15).clamp_min(0)  # a large soft light reaches a little around the corner
    above = 0.5 - 0.5 * normal_y
    glow = torch.where(sky, 1.0, column[GLOW])
    fog = 1 - _decay(light[15] * distance)
    high = (-rays.y).clamp(0.0, 1.0)
    haze = (1 - high).square().square()
    sun = (
        (rays.x * light[0] + rays.y * light[1] + rays.z * light[2])
        .clamp_min(0)
        .square()
        .square()
        .square()
        .square()
        .square()
    )

    def channel(i: int) -> Tensor:
        key_colour, above_colour, below_colour, horizon = (light[first + i] for first in (3, 6, 9, 12))
        lit = glow + (1 - glow) * (ambient * (below_colour + above * (above_colour - below_colour)) + key * key_colour)
        lit = colour[i] * lit
        return lit + torch.where(sky, haze * (horizon - lit) + (0.35 * sun) * key_colour, fog * (horizon - lit))

    return channel(0), channel(1), channel(2)


def _geometry(packets: Packets, slot: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """Centre, half size and turn of what each ray met; the room is a box that is seen from inside."""
    middle, half = (packets.room[:, :3] + packets.room[:, 3:]) / 2, (packets.room[:, 3:] - packets.room[:, :3]) / 2
    straight = torch.cat([torch.ones_like(middle[:, :1]), torch.zeros_like(middle[:, :1])], -1)
    table = torch.cat([torch.cat([middle, half, straight], -1)[:, None], packets.solids], dim=1)  # [P, 1 + N, 8]
    index = slot + 1 + torch.arange(len(table), dtype=torch.int32, device=slot.device)[:, None] * table.shape[1]
    parts = [look_up(column.flatten(), index) for column in table.movedim(-1, 0).contiguous().unbind(0)]
    return parts[:3], parts[3:6], parts[6], parts[7]


def _normal(
    x: Tensor,
    y: Tensor,
    z: Tensor,
    half: list[Tensor],
    on_x: Tensor,
    on_y: Tensor,
    on_z: Tensor,
    on_round: Tensor,
    ball: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Outward unit normal in the solid's own axes; on_x ... on_round are 1 on that kind of face and 0 elsewhere."""
    round_x, round_z = x / half[0].square().clamp_min(1e-9), z / half[2].square().clamp_min(1e-9)
    round_y = ball.float() * y / half[1].square().clamp_min(1e-9)
    size = on_round * (round_x * round_x + round_y * round_y + round_z * round_z).clamp_min(1e-12).rsqrt()
    return on_x * x.sign() + round_x * size, on_y * y.sign() + round_y * size, on_z * z.sign() + round_z * size


def _light_at(
    packets: Packets,
    around: Surroundings,
    x: Tensor,
    y: Tensor,
    z: Tensor,
    room: Tensor,
    flat_x: Tensor,
    flat_y: Tensor,
    flat_z: Tensor,
    on_ground: Tensor,
) -> tuple[Tensor, Tensor]:
    """Fractions of ambient and key light that reach a point: from the map on the ground, darker in corners elsewhere."""
    low, high = packets.room[..., None].unbind(1)[:3], packets.room[..., None].unbind(1)[3:]
    height = high[1] - y
    # Surfaces other than the ground darken towards it, walls also towards each other and the ceiling.
    ambient = torch.where(on_ground, 1.0, 1 - 0.45 * _decay(4.0 * height))
    corner_x = torch.where(room & ~flat_x, 0.35 * _decay(2.5 * torch.minimum(x - low[0], high[0] - x)), 0.0)
    corner_z = torch.where(room & ~flat_z, 0.35 * _decay(2.5 * torch.minimum(z - low[2], high[2] - z)), 0.0)
    corner_y = torch.where(room & ~flat_y, 0.25 * _decay(2.5 * (y - low[1])), 0.0)
    ambient = ambient * (1 - corner_x) * (1 - corner_z) * (1 - corner_y)

    first_x, first_z, per_x, per_z = around.ground_extent[..., None].unbind(1)
    at_x = ((x - first_x) * per_x * GROUND_TEXELS - 0.5).clamp(0, GROUND_TEXELS - 1.001)
    at_z = ((z - first_z) * per_z * GROUND_TEXELS - 0.5).clamp(0, GROUND_TEXELS - 1.001)
    left, top = at_x.floor(), at_z.floor()
    index = (left + top * GROUND_TEXELS).to(torch.int32) + (around.clip[:, None] * GROUND_TEXELS**2).to(torch.int32)
    across, along = at_x - left, at_z - top
    maps = around.ground_light.unbind(1)

    def bilinear(table: Tensor) -> Tensor:
        flat = table.flatten()
        corners = [look_up(flat, index + step) for step in (0, 1, GROUND_TEXELS, GROUND_TEXELS + 1)]
        return torch.lerp(torch.lerp(corners[0], corners[1], across), torch.lerp(corners[2], corners[3], across), along)

    ambient = torch.where(on_ground, ambient * bilinear(maps[0]), ambient)
    key = torch.where(on_ground, bilinear(maps[1]), 1.0)
    for number, weight in around.movers.items():
        cx, cy, cz, hx, hy, hz, cos, sin = packets.solids[:, number, :, None].unbind(1)
        across = (cos * (x - cx) - sin * (z - cz)) / hx.clamp_min(1e-3)
        along = (sin * (x - cx) + cos * (z - cz)) / hz.clamp_min(1e-3)
        blob = _decay(0.8 * (across * across + along * along) + 1.2 * (high[1] - cy - hy).clamp_min(0))
        ambient = torch.where(on_ground, ambient * (1 - weight[around.clip, None] * blob), ambient)
    return ambient, key


def _decay(value: Tensor) -> Tensor:
    """exp(-value) for value >= 0, never so small that a CPU uses slow denormal arithmetic."""
    return torch.exp(-value.clamp(0.0, 20.0))
