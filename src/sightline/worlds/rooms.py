"""Rooms: four walls with windows, doors and pictures, furniture along them, and free ground for the camera."""

from __future__ import annotations

import math
from collections.abc import Callable

from sightline.worlds import furniture
from sightline.worlds.builder import Builder, light
from sightline.worlds.decor import WALLS, WHITE, decorate, lay_rug, paint
from sightline.worlds.palettes import PALETTES, Palette, linear, mix
from sightline.worlds.scene import Scene
from sightline.worlds.textures import material

Item = Callable[[Builder, Palette], float]

_PLACES: dict[str, tuple[Item, ...]] = {  # the item that defines the place comes first
    "living room": (
        furniture.sofa,
        furniture.bookshelf,
        furniture.plant,
        furniture.lamp,
        furniture.cabinet,
        furniture.armchair,
    ),
    "bedroom": (furniture.bed, furniture.cabinet, furniture.lamp, furniture.bookshelf, furniture.plant),
    "study": (furniture.table, furniture.bookshelf, furniture.armchair, furniture.lamp, furniture.plant),
    "dining room": (
        furniture.table,
        furniture.cabinet,
        furniture.plant,
        furniture.lamp,
        furniture.bookshelf,
        furniture.sofa,
    ),
    "playroom": (furniture.block, furniture.cabinet, furniture.block, furniture.sofa, furniture.block, furniture.plant),
    "gallery": (furniture.block, furniture.plant, furniture.block, furniture.armchair, furniture.block),
}
_CENTRES: dict[str, Item] = {
    "living room": furniture.round_table,
    "bedroom": furniture.armchair,
    "study": furniture.round_table,
    "dining room": furniture.table,
    "playroom": furniture.block,
    "gallery": furniture.block,
}
# Half the width and half the depth of the largest of each kind, in metres, and the boxes, cylinders and balls it takes.
_FOOTPRINTS: dict[Item, tuple[float, float]] = {
    furniture.sofa: (1.32, 0.45),
    furniture.bed: (0.97, 1.06),
    furniture.table: (0.87, 0.5),
    furniture.bookshelf: (0.77, 0.2),
    furniture.cabinet: (0.82, 0.23),
    furniture.armchair: (0.45, 0.42),
    furniture.lamp: (0.22, 0.22),
    furniture.plant: (0.4, 0.4),
    furniture.block: (0.43, 0.43),
}
_NEEDS: dict[Item, tuple[int, int, int]] = {
    furniture.sofa: (4, 0, 2),
    furniture.bed: (4, 0, 2),
    furniture.table: (5, 0, 1),
    furniture.bookshelf: (7, 0, 0),
    furniture.cabinet: (2, 1, 0),
    furniture.armchair: (4, 0, 0),
    furniture.lamp: (0, 3, 0),
    furniture.plant: (0, 1, 2),
    furniture.block: (1, 1, 1),
}
_SPOTS = 6  # positions tried along each wall before the next wall


def build_room(build: Builder, *, centrepiece: bool) -> Scene:
    """A furnished room. With a centrepiece something stands in the middle, with a free ring around it for an orbit."""
    pick = build.random
    palette = pick.choice(PALETTES)
    place = pick.choice(tuple(_PLACES))
    grow = 1.4 if centrepiece else 0.0
    width, depth, height = pick.uniform(4.4, 6.4) + grow, pick.uniform(5.2, 8.0) + grow, pick.uniform(2.5, 3.2)
    ground = paint(build, palette, place, height)
    half_x, half_z = width / 2, depth / 2

    if centrepiece:
        standpoint, focus = (0.0, -half_z + 1.5), (0.0, -0.5, 0.0)
        build.at(0.0, 0.0, pick.uniform(-math.pi, math.pi))
        radius = _CENTRES[place](build, palette)
        if pick.random() < 0.6:
            lay_rug(build, palette, 1.5, 1.5)
        build.take(0.0, 0.0, 1.3)
        build.take(0.0, 0.0, 1.55, firm=False)
        focus_radius = max(radius, 0.5)
    else:
        standpoint = (pick.uniform(-0.5, 0.5), -half_z + pick.uniform(1.1, 1.6))
        focus, focus_radius = (0.0, -0.8, half_z - 0.6), 0.8
        # The camera's course from the standpoint to the far wall stays free, unless a small room could then hold no bed.
        for step in range(4):
            build.take(
                standpoint[0] * (1 - step / 4), standpoint[1] + step * (half_z - standpoint[1] - 1.6) / 4, 0.62, False
            )
        if pick.random() < 0.55:
            build.at(0.0, pick.uniform(-0.3, 0.8))
            lay_rug(build, palette, pick.uniform(1.4, 2.0), pick.uniform(1.8, 2.8))
    build.take(*standpoint, 0.75)
    decorate(build, palette, half_x, half_z, height)
    _furnish(build, palette, place, half_x, half_z, _CENTRES[place] if centrepiece else None)
    if pick.random() < 0.4:
        build.at(0.0, 0.3 * half_z)
        build.ball(material(WHITE, glow=0.95), (0.24, 0.13, 0.24), base=height - 0.32)

    warm = pick.uniform(0.0, 1.0)
    key = mix((0.62, 0.62, 0.64), (0.78, 0.62, 0.42), warm)
    bounce = mix((0.32, 0.31, 0.3), linear(palette.walls[0]), 0.3)
    side = pick.choice((-1.0, 1.0))
    return build.finish(
        room=(-half_x, -height, -half_z, half_x, 0.0, half_z),
        light=light((0.45 * side, 1.0, pick.uniform(-0.6, 0.2)), key, (0.62, 0.62, 0.64), bounce, WHITE, 0.0, False),
        place=place,
        ground=ground,
        standpoint=standpoint,
        focus=focus,
        focus_radius=focus_radius,
    )


def _furnish(
    build: Builder, palette: Palette, place: str, half_x: float, half_z: float, centrepiece: Item | None
) -> None:
    """Put the place's furniture along the walls. An item without a free spot is left out, and the next one is tried."""
    first, *others = _PLACES[place]
    build.random.shuffle(others)
    # A table in the middle is the dining room's table; blocks may be repeated.
    items = others if first is centrepiece and first is not furniture.block else [first, *others]
    for number, item in enumerate(items):
        needs = zip(("box", "cylinder", "ball"), _NEEDS[item], strict=True)
        if not all(build.room_for(kind, count) for kind, count in needs):
            continue
        # Only the defining item, and the first few so that the room is not bare, may narrow the camera's course.
        eases = (1.0, 0.8, 0.6, 0.0) if item is first else (1.0, 0.7) if number < 4 else (1.0,)
        spot = next((free for ease in eases if (free := _spot(build, item, number, half_x, half_z, ease))), None)
        if spot is None:
            continue
        x, z, turn, wide, deep = spot
        build.at(x, z, turn)
        item(build, palette)
        build.take_rectangle(x, z, wide, deep)


def _spot(
    build: Builder, item: Item, number: int, half_x: float, half_z: float, ease: float
) -> tuple[float, float, float, float, float] | None:
    """x, z, turn and the half sizes in x and z of a free place for an item with its back to a wall."""
    wide, deep = _FOOTPRINTS[item]
    seen = (3, 1, 2)  # the far wall and the sides; the wall behind the camera comes last
    start = number % len(seen)
    for wall in (*seen[start:], *seen[:start], 0):
        turn, wall_x, wall_z = WALLS[wall]
        length = half_x if wall_x == 0 else half_z
        for _ in range(_SPOTS):
            along = build.random.uniform(-1.0, 1.0) * (length - wide - 0.1)
            if wall_x == 0:
                x, z, size_x, size_z = along, wall_z * (half_z - deep - 0.03), wide, deep
            else:
                x, z, size_x, size_z = wall_x * (half_x - deep - 0.03), along, deep, wide
            if build.is_free_rectangle(x, z, size_x, size_z, ease):
                return x, z, turn, size_x, size_z
    return None
