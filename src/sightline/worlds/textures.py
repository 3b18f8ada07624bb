"""Procedural textures that fade to their own mean: each is filtered by the width of a ray's footprint on the surface.

One formula serves all of them. A surface is cut into cells (rows may be shifted, as in a brick wall). Joints between
cells, a checker of two colours, dots, a random shade per cell and smooth noise are each switched on by one number of a
material, so that a batch of different surfaces is one fused computation without branches.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor

from sightline.worlds.palettes import Colour

# Columns of a material row.
(
    BASE_R, BASE_G, BASE_B, SECOND_R, SECOND_G, SECOND_B, JOINT_R, JOINT_G, JOINT_B,
    CELLS_U, CELLS_V, JOINT_U, JOINT_V, SHIFT, CHECKER_U, CHECKER_V, DOT, SHADES, NOISE, NOISE_U, NOISE_V, GLOW,
) = range(22)  # fmt: skip
MATERIAL = 22

_LATTICE = 32  # the noise repeats after this many of its cells


def material(
    base: Colour,
    second: Colour | None = None,
    joint: Colour | None = None,
    *,
    cell: tuple[float, float] = (1.0, 1.0),
    joint_width: tuple[float, float] = (0.0, 0.0),
    shift: float = 0.0,
    checker: tuple[float, float] = (0.0, 0.0),
    dot: float = 0.0,
    shades: float = 0.0,
    noise: float = 0.0,
    grain: tuple[float, float] = (0.5, 0.5),
    glow: float = 0.0,
) -> list[float]:
    """One row of the material table.

    cell: size of a cell in metres. joint_width: fraction of the cell on each axis. shift: cells moved per row.
    checker: 1 on an axis whose cells alternate between base and second. dot: radius of a dot of the second colour, in
    cells. shades: how much the brightness differs from cell to cell. noise: how much smooth noise mixes the second
    colour in; grain: its size in metres. glow: fraction of the colour that is emitted.
    """
    second = base if second is None else second
    joint = base if joint is None else joint
    return [
        *base, *second, *joint, 1 / cell[0], 1 / cell[1], *joint_width, shift, *checker, dot, shades, noise,
        1 / grain[0], 1 / grain[1], glow,
    ]  # fmt: skip


def _lattice() -> Tensor:  # [32 * 32] in [0, 1)
    source = random.Random("sightline lattice")  # Python's generator: the same numbers on every machine
    return torch.tensor([source.random() for _ in range(_LATTICE * _LATTICE)], dtype=torch.float32)


LATTICE = _lattice()


def surface_colour(
    u: Tensor,  # [...] metres along the surface
    v: Tensor,  # [...]
    width_u: Tensor,  # [...] footprint of the ray on the surface, metres
    width_v: Tensor,  # [...]
    column: list[Tensor],  # MATERIAL tensors [...]: the material of each point
    lattice: Tensor,  # LATTICE on the device of the points
) -> tuple[Tensor, Tensor, Tensor]:
    """Linear colour of surface points, averaged over their footprints."""
    row_at, row_width = v * column[CELLS_V], width_v * column[CELLS_V]
    row = row_at.floor()
    col_at, col_width = u * column[CELLS_U] + column[SHIFT] * row, width_u * column[CELLS_U]
    col = col_at.floor()
    coarse = torch.maximum(row_width, col_width)
    fade = (1.5 - coarse).clamp(0.0, 1.0)  # what cannot be averaged in closed form fades out before it would alias

    square_u = 1 + column[CHECKER_U] * (_square_wave(col_at, col_width) - 1)
    square_v = 1 + column[CHECKER_V] * (_square_wave(row_at, row_width) - 1)
    second = 0.5 - 0.5 * square_u * square_v

    across, along = col_at - col - 0.5, row_at - row - 0.5
    radius = (across * across + along * along).sqrt()
    disc = ((column[DOT] - radius) / coarse.clamp_min(1e-3) + 0.5).clamp(0.0, 1.0)
    mean = 3.1416 * column[DOT] * column[DOT]
    second = second + (disc * (column[DOT] > 0)) * fade + mean * (1 - fade)

    second = second + column[NOISE] * _noise(u * column[NOISE_U], v * column[NOISE_V], width_u * column[NOISE_U],
                                             width_v * column[NOISE_V], lattice)  # fmt: skip
    shade = 1 + column[SHADES] * fade * (2 * _look_up(col, row, lattice) - 1)
    joint = 1 - (1 - _lines(col_at, col_width, column[JOINT_U])) * (1 - _lines(row_at, row_width, column[JOINT_V]))

    def channel(base: int, second_colour: int, line: int) -> Tensor:
        tone = torch.lerp(column[base], column[second_colour], second) * shade
        return torch.lerp(tone, column[line], joint)

    return channel(BASE_R, SECOND_R, JOINT_R), channel(BASE_G, SECOND_G, JOINT_G), channel(BASE_B, SECOND_B, JOINT_B)


def look_up(table: Tensor, index: Tensor) -> Tensor:  # [N], [...] -> [...]
    """table[index]; eager torch on a CPU is several times faster at index_select than at indexing."""
    return table.index_select(0, index.flatten()).view(index.shape)


def _square_wave(at: Tensor, width: Tensor) -> Tensor:
    """Mean over [at - width/2, at + width/2] of a wave that is 1 on even cells and -1 on odd ones."""
    half = 0.5 * width.clamp_min(1e-3)
    low, high = 0.5 * (at - half), 0.5 * (at + half)
    # The antiderivative of the wave is a triangle wave of the same period.
    rise = (low - low.floor() - 0.5).abs() - (high - high.floor() - 0.5).abs()
    return rise / half


def _lines(at: Tensor, width: Tensor, fraction: Tensor) -> Tensor:
    """Mean over the footprint of lines that fill the first `fraction` of every cell."""
    half = 0.5 * width.clamp_min(1e-3)
    low, high = at - half, at + half
    low_cell, high_cell = low.floor(), high.floor()
    covered = (high_cell - low_cell) * fraction + torch.minimum(high - high_cell, fraction)
    return (covered - torch.minimum(low - low_cell, fraction)) / (2 * half)


def _noise(u: Tensor, v: Tensor, width_u: Tensor, width_v: Tensor, lattice: Tensor) -> Tensor:
    """Two octaves of smooth noise around 0, each gone once the footprint is as wide as its cells."""
    width = torch.maximum(width_u, width_v)
    coarse = _octave(u, v, lattice) * (1.25 - width).clamp(0.0, 1.0)
    fine = _octave(2.03 * u + 11.3, 2.03 * v + 4.7, lattice) * (1.25 - 2.03 * width).clamp(0.0, 1.0)
    return coarse + 0.5 * fine


def _octave(u: Tensor, v: Tensor, lattice: Tensor) -> Tensor:
    left, top = u.floor(), v.floor()
    x, y = u - left, v - top
    x, y = x * x * (3 - 2 * x), y * y * (3 - 2 * y)
    above = torch.lerp(_look_up(left, top, lattice), _look_up(left + 1, top, lattice), x)
    below = torch.lerp(_look_up(left, top + 1, lattice), _look_up(left + 1, top + 1, lattice), x)
    return torch.lerp(above, below, y) - 0.5


def _look_up(column: Tensor, row: Tensor, lattice: Tensor) -> Tensor:
    """A fixed random number in [0, 1) for every whole-numbered cell. Remembered, not hashed: exact on any device."""
    index = (column.to(torch.int32) & (_LATTICE - 1)) + (row.to(torch.int32) & (_LATTICE - 1)) * _LATTICE
    return look_up(lattice, index)
