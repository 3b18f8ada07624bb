"""Scene: solids, materials and light as tensors.

World: metres, y points down, the ground is y = 0. Every tensor has a leading batch axis; one scene is a batch of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sightline.errors import SightlineError

FAR = 200.0  # metres; the depth of the sky, and the edge of every outdoor world

# Slots of a scene, by kind of solid. All scenes have the same number of slots, so that any of them can share a batch.
BOXES, CYLINDERS, BALLS = 36, 10, 10
SOLIDS = BOXES + CYLINDERS + BALLS
KINDS = {"box": slice(0, BOXES), "cylinder": slice(BOXES, BOXES + CYLINDERS), "ball": slice(BOXES + CYLINDERS, SOLIDS)}
# Solids that may move: the first of their kind.
MOVERS = (0, 1, KINDS["ball"].start, KINDS["ball"].start + 1, KINDS["ball"].start + 2, KINDS["ball"].start + 3)

# Rows of the material table: the shell of the world first, then one row per solid.
GROUND, CEILING, SIDE_WALLS, END_WALLS, SKY = range(5)
SHELL = 5


@dataclass(frozen=True)
class Thing:
    """A thing that a caption may mention."""

    name: str
    colour: str
    centre: tuple[float, float, float]
    moving: bool = False
    slots: tuple[int, ...] = ()  # its solids


@dataclass(frozen=True)
class Notes:
    """What captions say about one scene, and points for its camera trajectory."""

    style: str
    seed: int
    place: str
    ground: str
    things: tuple[Thing, ...]
    standpoint: tuple[float, float]  # x, z of a spot that the builder keeps free
    focus: tuple[float, float, float]  # centre of what an orbit looks at
    focus_radius: float


@dataclass(frozen=True, eq=False)
class Scene:
    """B scenes. Solids are boxes turned about the vertical, vertical cylinders and ellipsoids ("balls").

    solids: [B, SOLIDS, 14] centre 3, half size 3 (radii for round ones), cos and sin of the turn, sway 3 (metres),
        frequency (Hz), phase, clearance (0 for what a camera may touch, such as a rug). An empty slot has size 0.
    room: [B, 6] low and high corner; the ground is the high y. Outdoors it reaches FAR and only its ground is a surface.
    materials: [B, SHELL + SOLIDS, MATERIAL] see textures.py.
    light: [B, 17] direction to the key light 3, key 3, ambient from above 3, ambient from below 3, horizon 3,
        fog per metre, 1 outdoors and 0 indoors. Colours are linear.
    """

    solids: Tensor
    room: Tensor
    materials: Tensor
    light: Tensor
    notes: tuple[Notes, ...]

    def __len__(self) -> int:
        return len(self.notes)

    def __getitem__(self, index: int) -> Scene:
        """One of the scenes, as a batch of one."""
        return self.select(torch.tensor([range(len(self))[index]]))

    def select(self, which: Tensor) -> Scene:  # [W] whole numbers, on the CPU
        """Some of the scenes, in this order."""
        rows, notes = which.to(self.device), tuple(self.notes[i] for i in which.tolist())
        return Scene(self.solids[rows], self.room[rows], self.materials[rows], self.light[rows], notes)

    def for_rendering(self) -> Scene:
        """The same scenes without the names of things that do not move, which captions need and the renderer does not."""
        notes = tuple(replace(one, things=tuple(thing for thing in one.things if thing.moving)) for one in self.notes)
        return Scene(self.solids, self.room, self.materials, self.light, notes)

    @property
    def device(self) -> torch.device:
        return self.solids.device

    @property
    def moves(self) -> bool:
        """Whether anything in any of the scenes moves."""
        return any(thing.moving for notes in self.notes for thing in notes.things)

    def to(self, device: torch.device | str) -> Scene:
        solids, room, materials, light = (
            tensor.to(device) for tensor in (self.solids, self.room, self.materials, self.light)
        )
        return Scene(solids, room, materials, light, self.notes)

    def solids_at(self, seconds: Tensor) -> Tensor:  # [B, T] -> [B, T, SOLIDS, 8]
        """Centre, half size and turn of every solid at these times."""
        still = self.solids[:, None, :, :8].expand(-1, seconds.shape[1], -1, -1)
        if not self.moves:
            return still
        sway, frequency, phase = self.solids[:, None, :, 8:11], self.solids[:, None, :, 11], self.solids[:, None, :, 12]
        turn = (2 * math.pi) * (frequency * seconds[:, :, None].to(frequency.dtype) + phase)  # [B, T, SOLIDS]
        return torch.cat([still[..., :3] + sway * turn.sin()[..., None], still[..., 3:]], dim=-1)


def clip_key(style: str, seed: int, path: int) -> str:
    """What seeds the random numbers of one camera path through a scene."""
    return f"{style} {seed} {path}" if path else f"{style} {seed}"


def stack(scenes: Sequence[Scene]) -> Scene:
    """Several scenes as one batch."""
    if not scenes:
        raise SightlineError("scenes is empty: expected at least one scene.")
    solids, room = torch.cat([scene.solids for scene in scenes]), torch.cat([scene.room for scene in scenes])
    materials, light = torch.cat([scene.materials for scene in scenes]), torch.cat([scene.light for scene in scenes])
    return Scene(solids, room, materials, light, tuple(notes for scene in scenes for notes in scene.notes))


def distance_to_solids(scene: Scene, points: Tensor, seconds: Tensor) -> Tensor:  # [B, T, 3], [B, T] -> [B, T]
    """Signed distance from points to the nearest solid or room surface; negative inside a solid or out of the room.

    Exact for boxes and cylinders and the room; for an ellipsoid a lower bound near its surface.
    """
    solids = scene.solids_at(seconds).to(points.dtype)  # [B, T, SOLIDS, 8]
    offset = points[:, :, None] - solids[..., :3]
    cos, sin = solids[..., 6], solids[..., 7]
    local = torch.stack(
        [cos * offset[..., 0] - sin * offset[..., 2], offset[..., 1], sin * offset[..., 0] + cos * offset[..., 2]], -1
    )
    half = solids[..., 3:6]
    beyond = local.abs() - half  # [B, T, SOLIDS, 3]
    box = _outside(beyond)
    radial = torch.stack([(local[..., 0] ** 2 + local[..., 2] ** 2).sqrt() - half[..., 0], beyond[..., 1]], -1)
    cylinder = _outside(radial)
    ball = ((local / half.clamp_min(1e-6)).norm(dim=-1) - 1) * half.amin(-1)
    distance = torch.cat([box[..., KINDS["box"]], cylinder[..., KINDS["cylinder"]], ball[..., KINDS["ball"]]], -1)
    solid = scene.solids[:, None, :, 13].to(points.dtype) > 0
    distance = torch.where(solid, distance, torch.full_like(distance, FAR)).amin(-1)
    low, high = scene.room[:, None, :3].to(points.dtype), scene.room[:, None, 3:].to(points.dtype)
    return torch.minimum(distance, torch.minimum(points - low, high - points).amin(-1))


def _outside(beyond: Tensor) -> Tensor:  # [..., axes] -> [...]
    """Distance to a box given how far a point is beyond its faces, axis by axis."""
    return beyond.clamp_min(0).norm(dim=-1) + beyond.amax(-1).clamp_max(0)
