"""The shell of a room: painted walls, floors and rugs, and the windows, doors and pictures on the walls."""

from __future__ import annotations

import math

from sightline.worlds.builder import Builder
from sightline.worlds.furniture import woven
from sightline.worlds.palettes import DARK, Palette, linear, mix
from sightline.worlds.scene import CEILING, END_WALLS, GROUND, SIDE_WALLS
from sightline.worlds.textures import material

WHITE = (0.85, 0.84, 0.8)
# Walls as (turn of things with their back to the wall, x and z of its middle as fractions of half the room).
WALLS = ((0.0, 0.0, -1.0), (math.pi / 2, -1.0, 0.0), (-math.pi / 2, 1.0, 0.0), (math.pi, 0.0, 1.0))


def paint(build: Builder, palette: Palette, place: str, height: float) -> str:
    """Paint walls, ceiling and ground; returns the ground's name for the caption."""
    pick = build.random
    wall, feature = pick.choice(palette.walls), pick.choice(palette.feature)
    skirting = pick.choice((0.09, 0.09, 0.09, 0.95)) / height  # most have a skirting board, some a panelled lower part
    for row, colour in ((SIDE_WALLS, wall), (END_WALLS, feature if pick.random() < 0.75 else wall)):
        tone = linear(colour)
        finish = pick.choice(("plaster", "plaster", "stripes", "brick") if row == END_WALLS else ("plaster",))
        if finish == "brick":
            face = mix(tone, linear("brick red"), 0.6)
            wall_row = material(
                face,
                mix(face, DARK, 0.5),
                mix(face, WHITE, 0.45),
                cell=(0.24, 0.08),
                joint_width=(0.06, 0.16),
                shift=0.5,
                shades=0.25,
                noise=0.3,
            )
        elif finish == "stripes":
            wall_row = material(
                tone,
                mix(tone, WHITE, 0.3),
                WHITE,
                cell=(0.22, height),
                joint_width=(0.0, skirting),
                checker=(1.0, 0.0),
            )
        else:
            wall_row = material(
                tone,
                mix(tone, DARK, 0.4),
                WHITE,
                cell=(9.0, height),
                joint_width=(0.0, skirting),
                noise=0.3,
                grain=(0.6, 0.6),
            )
        build.shell(row, wall_row)
    build.shell(CEILING, material(WHITE, (0.6, 0.6, 0.58), noise=0.08, grain=(1.0, 1.0)))

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
            mix(tone, DARK, 0.7),
            mix(tone, DARK, 0.75),
            cell=(1.3, 0.14),
            joint_width=(0.006, 0.06),
            shift=0.37,
            shades=0.22,
            noise=0.35,
            grain=(0.9, 0.05),
        )
    elif kind == "tiled":
        surface = material(
            mix(light_tone, linear(second), 0.25),
            None,
            mix(light_tone, DARK, 0.55),
            cell=(size, size),
            joint_width=(0.04, 0.04),
            shades=0.1,
        )
    elif kind == "checkered":
        surface = material(light_tone, linear(second), cell=(size, size), checker=(1.0, 1.0))
    else:
        tone = linear(pick.choice((*palette.accents, "warm grey")))
        surface = material(mix(tone, WHITE, 0.25), mix(tone, DARK, 0.4), noise=0.5, grain=(0.12, 0.12))
    build.shell(GROUND, surface)
    return f"{kind} floor"


def lay_rug(build: Builder, palette: Palette, width: float, depth: float) -> None:
    first, second = build.random.sample(palette.accents, 2)
    tone, second_tone = linear(first), linear(second)
    pattern = build.random.choice(("stripes", "dots", "border", "checker"))
    row = {
        "stripes": material(tone, second_tone, cell=(0.2, 0.2), checker=(0.0, 1.0)),
        "dots": material(tone, mix(second_tone, WHITE, 0.4), cell=(0.3, 0.3), dot=0.28),
        "border": material(
            tone,
            mix(tone, DARK, 0.4),
            second_tone,
            cell=(width - 0.12, depth - 0.12),
            joint_width=(0.07, 0.05),
            noise=0.4,
            grain=(0.3, 0.3),
        ),
        "checker": material(tone, mix(tone, WHITE, 0.4), cell=(0.35, 0.35), checker=(1.0, 1.0)),
    }[pattern]
    build.box(row, (width, 0.015, depth), passable=True)
    build.name("rug", first, 0.0)


def decorate(build: Builder, palette: Palette, half_x: float, half_z: float, height: float) -> None:
    """Windows with curtains, a door and pictures: thin boxes on the walls."""
    pick = build.random
    glass = pick.choice(((0.62, 0.8, 0.95), (0.85, 0.9, 0.92), (0.98, 0.85, 0.62)))
    for number, (turn, wall_x, wall_z) in enumerate(WALLS):
        along = pick.uniform(-0.4, 0.4) * (half_x if wall_x == 0.0 else half_z)
        x = along if wall_x == 0.0 else wall_x * (half_x - 0.02)
        z = along if wall_z == 0.0 else wall_z * (half_z - 0.02)
        build.at(x, z, turn)
        what = pick.choice(("window", "window", "picture", "door")) if number else "door"
        if what == "window" or number == 3:
            wide, tall = pick.uniform(1.1, 1.9), pick.uniform(1.1, 1.5)
            panes = material(
                glass,
                WHITE,
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
            leaf = material(tone, None, mix(tone, DARK, 0.4), cell=(0.44, 1.0), joint_width=(0.16, 0.1))
            build.box(leaf, (0.92, 2.05, 0.08), passable=True)
            build.name("door", "", 1.0)
        else:
            for offset in (-0.55, 0.55):
                first, second = pick.sample(palette.accents, 2)
                wide, tall = pick.uniform(0.5, 0.9), pick.uniform(0.5, 0.9)
                art = material(
                    linear(first),
                    linear(second),
                    DARK,
                    cell=(wide * 0.97, tall * 0.97),
                    joint_width=(0.06, 0.06),
                    noise=1.6,
                    grain=(0.25, 0.25),
                )
                build.box(art, (wide, tall, 0.04), offset, base=1.25, passable=True)
            build.name("picture", "", 1.5)
