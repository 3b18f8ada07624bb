"""Builder: puts solids into the slots of their kind, and keeps the names of things for captions."""

from __future__ import annotations

import math
import random

import numpy as np
import torch

from sightline.errors import SightlineError
from sightline.worlds.palettes import Colour
from sightline.worlds.scene import KINDS, SHELL, SOLIDS, Notes, Scene, Thing
from sightline.worlds.textures import MATERIAL

_SOLID = 14


class Builder:
    """Builds one scene. Heights are metres above the ground, upwards; the stored scene has y pointing down.

    Things are placed in the frame of the current group: `at` moves and turns what follows.
    """

    def __init__(self, style: str, seed: int) -> None:
        self.style, self.seed = style, seed
        self.random = random.Random(
            f"{style} {seed}"
        )  # a string is hashed, so neighbouring seeds give unrelated scenes
        self._solids = np.zeros((SOLIDS, _SOLID), dtype=np.float32)
        self._solids[:, 1], self._solids[:, 6] = 1e4, 1.0  # an empty slot lies far below and has no size
        self._materials = np.zeros((SHELL + SOLIDS, MATERIAL), dtype=np.float32)
        self._free = {kind: slots.start for kind, slots in KINDS.items()}
        self._things: list[Thing] = []
        self._taken: list[tuple[float, float, float, bool]] = []  # discs of ground: x, z, radius, firm
        self._furnished: list[tuple[float, float, float, float]] = []  # rectangles of ground: x, z, half sizes
        self._origin = (0.0, 0.0, 1.0, 0.0)  # x, z, cos, sin
        self._turn = 0.0
        self._group: list[int] = []  # slots of the solids built since the last call of `at` or `name`

    # -- places ------------------------------------------------------------------------------------------------------

    def at(self, x: float, z: float, turn: float = 0.0) -> None:
        """Following solids are placed around (x, z), turned by `turn` radians about the vertical."""
        self._origin = (x, z, math.cos(turn), math.sin(turn))
        self._turn = turn
        self._group = []

    def is_free(self, x: float, z: float, radius: float) -> bool:
        return all(math.hypot(x - tx, z - tz) > radius + taken for tx, tz, taken, _ in self._taken)

    def take(self, x: float, z: float, radius: float, firm: bool = True) -> None:
        """Mark a disc of ground as occupied, or as kept free for the camera. One that is not firm may be given up in part."""
        self._taken.append((x, z, radius, firm))

    def is_free_rectangle(self, x: float, z: float, half_x: float, half_z: float, ease: float = 1.0) -> bool:
        """Whether furniture fits there. ease: fraction of the radius of a disc that is kept free, where the disc is not firm."""
        for tx, tz, radius, firm in self._taken:
            beyond = math.hypot(max(abs(x - tx) - half_x, 0.0), max(abs(z - tz) - half_z, 0.0))
            if beyond < (radius if firm else ease * radius):
                return False
        return all(
            abs(x - fx) > half_x + other_x or abs(z - fz) > half_z + other_z
            for fx, fz, other_x, other_z in self._furnished
        )

    def take_rectangle(self, x: float, z: float, half_x: float, half_z: float) -> None:
        self._furnished.append((x, z, half_x, half_z))

    def room_for(self, kind: str, count: int = 1) -> bool:
        return self._free[kind] + count <= KINDS[kind].stop

    # -- solids ------------------------------------------------------------------------------------------------------

    def box(self, material: list[float], size: tuple[float, float, float], x: float = 0.0, z: float = 0.0,
            base: float = 0.0, turn: float = 0.0, passable: bool = False) -> None:  # fmt: skip
        """size: width (x), height, depth (z). base: height of the underside."""
        self._add("box", material, (size[0] / 2, size[1] / 2, size[2] / 2), x, z, base, turn, passable)

    def moving_box(self, material: list[float], size: tuple[float, float, float], x: float, z: float, base: float,
                   sway: tuple[float, float, float], frequency: float, phase: float) -> None:  # fmt: skip
        """A box that moves back and forth by `sway` metres, `frequency` times a second."""
        half = (size[0] / 2, size[1] / 2, size[2] / 2)
        self._add("box", material, half, x, z, base, motion=(*sway, frequency, phase))

    def cylinder(self, material: list[float], radius: float, height: float, x: float = 0.0, z: float = 0.0,
                 base: float = 0.0) -> None:  # fmt: skip
        self._add("cylinder", material, (radius, height / 2, radius), x, z, base)

    def ball(self, material: list[float], radius: float | tuple[float, float, float], x: float = 0.0, z: float = 0.0,
             base: float = 0.0, sway: tuple[float, float, float] = (0.0, 0.0, 0.0), frequency: float = 0.0,
             phase: float = 0.0) -> None:  # fmt: skip
        radii = radius if isinstance(radius, tuple) else (radius, radius, radius)
        self._add("ball", material, radii, x, z, base, motion=(*sway, frequency, phase))

    def _add(self, kind: str, material: list[float], half: tuple[float, float, float], x: float, z: float, base: float,
             turn: float = 0.0, passable: bool = False, motion: tuple[float, ...] = (0.0,) * 5) -> None:  # fmt: skip
        if not self.room_for(kind):
            return
        slot = self._free[kind]
        self._free[kind] += 1
        self._group.append(slot)
        ox, oz, cos, sin = self._origin
        angle = self._turn + turn
        self._solids[slot] = (
            ox + cos * x + sin * z, -(base + half[1]), oz - sin * x + cos * z, *half,
            math.cos(angle), math.sin(angle), *motion, 0.0 if passable else 1.0,
        )  # fmt: skip
        self._materials[SHELL + slot] = material

    # -- the scene --------------------------------------------------------------------------------------------------

    def shell(self, row: int, material: list[float]) -> None:
        self._materials[row] = material

    def name(self, name: str, colour: str, height: float = 0.5, moving: bool = False) -> None:
        """Name the solids built at the current place. If no slot was free for them, there is nothing to name."""
        if not self._group:
            return
        centre = (self._origin[0], -height, self._origin[1])
        self._things.append(Thing(name, colour, centre, moving, tuple(self._group)))
        self._group = []

    def finish(self, room: tuple[float, ...], light: list[float], place: str, ground: str,
               standpoint: tuple[float, float], focus: tuple[float, float, float], focus_radius: float) -> Scene:  # fmt: skip
        if not np.isfinite(self._solids).all():
            raise SightlineError(f"scene {self.style} {self.seed} has a solid that is not finite: expected numbers.")
        things = tuple(self._things)
        notes = Notes(self.style, self.seed, place, ground, things, standpoint, focus, focus_radius)
        solids, materials = torch.from_numpy(self._solids)[None], torch.from_numpy(self._materials)[None]
        return Scene(solids, torch.tensor([room]), materials, torch.tensor([light]), (notes,))


def light(direction: tuple[float, float, float], key: Colour, above: Colour, below: Colour, horizon: Colour,
          fog: float, outdoor: bool) -> list[float]:  # fmt: skip
    """A light row; `direction` points up towards the light with y upwards."""
    x, y, z = direction
    size = math.sqrt(x * x + y * y + z * z)
    return [x / size, -y / size, z / size, *key, *above, *below, *horizon, fog, float(outdoor)]
