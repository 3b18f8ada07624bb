"""Rooms: four walls with windows, doors and pictures, furniture along them, a free floor for the camera."""

from __future__ import annotations

import math
from collections.abc import Callable

from sightline.worlds import furniture
from sightline.worlds.builder import Builder, light
from sightline.worlds.furniture import woven
from sightline.worlds.palettes import PALETTES, Palette, linear, mixed
from sightline.worlds.scene import CEILING, END_WALLS, FLOOR, SIDE_WALLS, Scene
from sightline.worlds.textures import material

Item = Callable[[Builder, Palette], float]

_DARK, _WHITE = (0.02, 0.02, 0.02), (0.85, 0.84, 0.8)
_PLACES: dict[str, tuple[Item, ...]] = {  # what gives the place its name comes first
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
_SPOTS = 6  # tried along each wall before the next one
# Walls as (turn of what stands with its back to them, x and z of the wall's middle as shares of half the room).
_WALLS = ((0.0, 0.0, -1.0), (math.pi / 2, -1.0, 0.0), (-math.pi / 2, 1.0, 0.0), (math.pi, 0.0, 1.0))


def build_room(build: Builder, *, centrepiece: bool) -> Scene:
    """A furnished room. With a centrepiece something stands in the middle, with a free ring around it for an orbit."""
    pick = build.random
    palette = pick.choice(PALETTES)
    place = pick.choice(tuple(_PLACES))
    grow = 1.4 if centrepiece else 0.0
    width, depth, height = pick.uniform(4.4, 6.4) + grow, pick.uniform(5.2, 8.0) + grow, pick.uniform(2.5, 3.2)
    floor = _paint(build, palette, place, height)
    half_x, half_z = width / 2, depth / 2

    if centrepiece:
        standpoint, focus = (0.0, -half_z + 1.5), (0.0, -0.5, 0.0)
        build.at(0.0, 0.0, pick.uniform(-math.pi, math.pi))
        radius = _CENTRES[place](build, palette)
        if pick.random() < 0.6:
            _rug(build, palette, 1.5, 1.5)
        build.take(0.0, 0.0, 1.3)
        build.take(0.0, 0.0, 1.55, firm=False)
        focus_radius = max(radius, 0.5)
    else:
        standpoint = (pick.uniform(-0.5, 0.5), -half_z + pick.uniform(1.1, 1.6))
        focus, focus_radius = (0.0, -0.8, half_z - 0.6), 0.8
        # The way from the standpoint to the far wall stays free, except where a small room would lose its bed to it.
        for step in range(4):
            build.take(
                standpoint[0] * (1 - step / 4), standpoint[1] + step * (half_z - standpoint[1] - 1.6) / 4, 0.62, False
            )
        if pick.random() < 0.55:
            build.at(0.0, pick.uniform(-0.3, 0.8))
            _rug(build, palette, pick.uniform(1.4, 2.0), pick.uniform(1.8, 2.8))
    build.take(*standpoint, 0.75)
    _decorate(build, palette, half_x, half_z, height)
    _furnish(build, palette, place, half_x, half_z, _CENTRES[place] if centrepiece else None)
    if pick.random() < 0.4:
        build.at(0.0, 0.3 * half_z)
        build.ball(material(_WHITE, glow=0.95), (0.24, 0.13, 0.24), base=height - 0.32)

    warm = pick.uniform(0.0, 1.0)
    key = mixed((0.62, 0.62, 0.64), (0.78, 0.62, 0.42), warm)
    bounce = mixed((0.32, 0.31, 0.3), linear(palette.walls[0]), 0.3)
    side = pick.choice((-1.0, 1.0))
    return build.finish(
        room=(-half_x, -height, -half_z, half_x, 0.0, half_z),
        light=light((0.45 * side, 1.0, pick.uniform(-0.6, 0.2)), key, (0.62, 0.62, 0.64), bounce, _WHITE, 0.0, False),
        place=place,
        floor=floor,
        standpoint=standpoint,
        focus=focus,
        focus_radius=focus_radius,
    )


def _paint(build: Builder, palette: Palette, place: str, height: float) -> str:
    """Walls, ceiling and floor; returns the floor in words."""
    pick = build.random
    wall, feature = pick.choice(palette.walls), pick.choice(palette.feature)
    skirting = pick.choice((0.09, 0.09, 0.09, 0.95)) / height  # most have a skirting board, some a panelled lower part
    for row, colour in ((SIDE_WALLS, wall), (END_WALLS, feature if pick.random() < 0.75 else wall)):
        tone = linear(colour)
        finish = pick.choice(("plaster", "plaster", "stripes", "brick") if row == END_WALLS else ("plaster",))
        if finish == "brick":
            face = mixed(tone, linear("brick red"), 0.6)
            wall_row = material(
                face,
                mixed(face, _DARK, 0.5),
                mixed(face, _WHITE, 0.45),
                cell=(0.24, 0.08),
                joint_width=(0.06, 0.16),
                shift=0.5,
                shades=0.25,
                noise=0.3,
            )
        elif finish == "stripes":
            wall_row = material(
                tone,
                mixed(tone, _WHITE, 0.3),
                _WHITE,
                cell=(0.22, height),
                joint_width=(0.0, skirting),
                checker=(1.0, 0.0),
            )
        else:
            wall_row = material(
                tone,
                mixed(tone, _DARK, 0.4),
                _WHITE,
                cell=(9.0, height),
                joint_width=(0.0, skirting),
                noise=0.3,
                grain=(0.6, 0.6),
            )
        build.shell(row, wall_row)
    build.shell(CEILING, material(_WHITE, (0.6, 0.6, 0.58), noise=0.08, grain=(1.0, 1.0)))

    kinds = (
        ("checkered", "tiled", "tiled")
        if place in ("gallery", "playroom")
        else ("wooden", "wooden", "tiled", "checkered", "carpeted")
    )
    kind = pick.choice(kinds)
    first, second = pick.choice(
        (("cream", "charcoal"), ("white", "slate"), ("beige", "terracotta"), ("white", "sage"), ("sand", "teal"))
    )
    size = pick.uniform(0.4, 0.7)
    light_tone = linear(first)
    if kind == "wooden":
        tone = linear(pick.choice(palette.woods))
        surface = material(
            tone,
            mixed(tone, _DARK, 0.7),
            mixed(tone, _DARK, 0.75),
            cell=(1.3, 0.14),
            joint_width=(0.006, 0.06),
            shift=0.37,
            shades=0.22,
            noise=0.35,
            grain=(0.9, 0.05),
        )
    elif kind == "tiled":
        surface = material(
            mixed(light_tone, linear(second), 0.25),
            None,
            mixed(light_tone, _DARK, 0.55),
            cell=(size, size),
            joint_width=(0.04, 0.04),
            shades=0.1,
        )
    elif kind == "checkered":
        surface = material(light_tone, linear(second), cell=(size, size), checker=(1.0, 1.0))
    else:
        tone = linear(pick.choice((*palette.accents, "warm grey")))
        surface = material(mixed(tone, _WHITE, 0.25), mixed(tone, _DARK, 0.4), noise=0.5, grain=(0.12, 0.12))
    build.shell(FLOOR, surface)
    return f"{kind} floor"


def _rug(build: Builder, palette: Palette, width: float, depth: float) -> None:
    first, second = build.random.sample(palette.accents, 2)
    tone, other = linear(first), linear(second)
    pattern = build.random.choice(("stripes", "dots", "border", "checker"))
    row = {
        "stripes": material(tone, other, cell=(0.2, 0.2), checker=(0.0, 1.0)),
        "dots": material(tone, mixed(other, _WHITE, 0.4), cell=(0.3, 0.3), dot=0.28),
        "border": material(
            tone,
            mixed(tone, _DARK, 0.4),
            other,
            cell=(width - 0.12, depth - 0.12),
            joint_width=(0.07, 0.05),
            noise=0.4,
            grain=(0.3, 0.3),
        ),
        "checker": material(tone, mixed(tone, _WHITE, 0.4), cell=(0.35, 0.35), checker=(1.0, 1.0)),
    }[pattern]
    build.box(row, (width, 0.015, depth), passable=True)
    build.name("rug", first, 0.0)


def _decorate(build: Builder, palette: Palette, half_x: float, half_z: float, height: float) -> None:
    """Windows with curtains, a door and pictures: thin boxes on the walls."""
    pick = build.random
    glass = pick.choice(((0.62, 0.8, 0.95), (0.85, 0.9, 0.92), (0.98, 0.85, 0.62)))
    for number, (turn, wall_x, wall_z) in enumerate(_WALLS):
        along = pick.uniform(-0.4, 0.4) * (half_x if wall_x == 0.0 else half_z)
        x = along if wall_x == 0.0 else wall_x * (half_x - 0.02)
        z = along if wall_z == 0.0 else wall_z * (half_z - 0.02)
        build.at(x, z, turn)
        what = pick.choice(("window", "window", "picture", "door")) if number else "door"
        if what == "window" or number == 3:
            wide, tall = pick.uniform(1.1, 1.9), pick.uniform(1.1, 1.5)
            panes = material(
                glass,
                _WHITE,
                linear("white"),
                cell=(wide * 0.49, tall * 0.49),
                joint_width=(0.08, 0.08),
                glow=0.9,
                noise=0.5,
                grain=(1.2, 0.6),
            )
            build.box(panes, (wide, tall, 0.05), base=0.8, passable=True)
            if pick.random() < 0.7:
                cloth = woven(pick.choice((*palette.accents, "cream")), "charcoal", 0.05)
                for side in (-1, 1):
                    build.box(cloth, (0.34, tall + 0.5, 0.1), side * (wide / 2 + 0.12), 0.03, base=0.5, passable=True)
            build.name("window", "", 1.4)
        elif what == "door":
            tone = linear(pick.choice((*palette.woods, "white")))
            leaf = material(tone, None, mixed(tone, _DARK, 0.4), cell=(0.44, 1.0), joint_width=(0.16, 0.1))
            build.box(leaf, (0.92, 2.05, 0.08), passable=True)
            build.name("door", "", 1.0)
        else:
            for offset in (-0.55, 0.55):
                first, second = pick.sample(palette.accents, 2)
                wide, tall = pick.uniform(0.5, 0.9), pick.uniform(0.5, 0.9)
                art = material(
                    linear(first),
                    linear(second),
                    _DARK,
                    cell=(wide * 0.97, tall * 0.97),
                    joint_width=(0.06, 0.06),
                    noise=1.6,
                    grain=(0.25, 0.25),
                )
                build.box(art, (wide, tall, 0.04), offset, base=1.25, passable=True)
            build.name("picture", "", 1.5)


def _furnish(
    build: Builder, palette: Palette, place: str, half_x: float, half_z: float, centrepiece: Item | None
) -> None:
    """Furniture of the place along the walls: what finds no free spot is left out, and the next has its turn."""
    first, *others = _PLACES[place]
    build.random.shuffle(others)
    # A table in the middle is the dining room's table; blocks come in numbers.
    items = others if first is centrepiece and first is not furniture.block else [first, *others]
    for number, item in enumerate(items):
        needs = zip(("box", "cylinder", "ball"), _NEEDS[item], strict=True)
        if not all(build.room_for(kind, count) for kind, count in needs):
            continue
        # Only what names the place, and enough for the room not to be bare, may narrow the camera's way.
        eases = (1.0, 0.8, 0.6, 0.0) if item is first else (1.0, 0.7) if number < 4 else (1.0,)
        spot = next((one for ease in eases if (one := _spot(build, item, number, half_x, half_z, ease))), None)
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
        turn, wall_x, wall_z = _WALLS[wall]
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
