"""Bare scenes with one known thing in them, and a camera that looks along +z."""

from __future__ import annotations

from typing import Any

import torch

from sightline.cameras import lens, se3
from sightline.cameras.trajectory import Trajectory
from sightline.worlds.builder import Builder, light
from sightline.worlds.scene import CEILING, END_WALLS, FAR, GROUND, SIDE_WALLS, SKY, Scene
from sightline.worlds.textures import material

GREY = (0.25, 0.25, 0.25)


def bare_scene(build: Builder, floor: list[float] | None = None, outdoor: bool = True, half: float = 10.0) -> Scene:
    """Grey surfaces, even light; the builder's solids are already in place."""
    for row in (GROUND, CEILING, SIDE_WALLS, END_WALLS, SKY):
        build.shell(row, material(GREY))
    if floor is not None:
        build.shell(GROUND, floor)
    reach = FAR if outdoor else half
    top = FAR if outdoor else 3.0
    row = light((0.3, 1.0, -0.4), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), (0.4, 0.4, 0.4), GREY, 0.0, outdoor)
    return build.finish(
        (-reach, -top, -reach, reach, 0.0, reach),
        row,
        "street" if outdoor else "gallery",
        "floor",
        (0, 0),
        (0, 0, 4),
        1.0,
    )


def looking_ahead(height: float = 1.5, size: int = 33, fov: float = 60.0, frames: int = 1, **fields: Any) -> Trajectory:
    poses = se3.from_parts(
        torch.eye(3, dtype=torch.float64), torch.tensor([[0.0, -height, 0.0]] * frames, dtype=torch.float64)
    )
    return Trajectory(poses, lens.intrinsics_from_fov(fov, size, size), size, size, **fields)
