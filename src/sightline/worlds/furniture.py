"""Furniture as groups of solids. Each function builds around the builder's current place: x along its width, z its depth,
its back towards -z, and names itself for the caption."""

from __future__ import annotations

from sightline.worlds.builder import Builder
from sightline.worlds.palettes import DARK, Palette, linear, mix
from sightline.worlds.textures import material


def matte(colour: str, noise: float = 0.12) -> list[float]:
    """Paint or fabric: one colour with slight noise."""
    tone = linear(colour)
    return material(tone, mix(tone, DARK, 0.5), noise=noise, grain=(0.35, 0.35))


def wood(colour: str) -> list[float]:
    tone = linear(colour)
    return material(tone, mix(tone, DARK, 0.7), noise=0.5, grain=(0.6, 0.07))


def woven(colour: str, second: str, cell: float) -> list[float]:
    tone = linear(colour)
    return material(tone, mix(tone, linear(second), 0.6), cell=(cell, cell), checker=(1.0, 0.0))


def table(build: Builder, palette: Palette) -> float:
    pick = build.random
    colour = pick.choice(palette.woods)
    width, depth, height = pick.uniform(1.1, 1.7), pick.uniform(0.7, 0.95), pick.uniform(0.68, 0.78)
    build.box(wood(colour), (width, 0.06, depth), base=height - 0.06)
    for x in (-1, 1):
        for z in (-1, 1):
            build.box(wood(colour), (0.07, height - 0.06, 0.07), x * (width / 2 - 0.08), z * (depth / 2 - 0.08))
    accent = pick.choice(palette.accents)
    build.ball(matte(accent), (0.11, 0.13, 0.11), pick.uniform(-0.3, 0.3), pick.uniform(-0.15, 0.15), base=height)
    build.name("table", colour, height)
    return 0.5 * (width**2 + depth**2) ** 0.5


def round_table(build: Builder, palette: Palette) -> float:
    colour = build.random.choice(palette.woods)
    radius, height = build.random.uniform(0.45, 0.65), build.random.uniform(0.5, 0.74)
    build.cylinder(wood(colour), radius, 0.05, base=height - 0.05)
    build.cylinder(matte("charcoal"), 0.05, height - 0.05)
    build.ball(matte(build.random.choice(palette.accents)), (0.12, 0.16, 0.12), base=height)
    build.name("round table", colour, height)
    return radius


def sofa(build: Builder, palette: Palette) -> float:
    colour = build.random.choice(palette.accents)
    width, cloth = build.random.uniform(1.6, 2.2), matte(colour, 0.2)
    build.box(cloth, (width, 0.34, 0.85), base=0.08)
    build.box(cloth, (width, 0.45, 0.22), z=-0.32, base=0.42)
    for side in (-1, 1):
        build.box(cloth, (0.2, 0.5, 0.85), side * (width / 2 + 0.1), base=0.08)
    cushion = build.random.choice([accent for accent in palette.accents if accent != colour])
    for side in (-1, 1):
        build.ball(matte(cushion), (0.22, 0.2, 0.1), side * width * 0.32, -0.12, base=0.42)
    build.name("sofa", colour, 0.5)
    return width / 2 + 0.25


def armchair(build: Builder, palette: Palette) -> float:
    colour = build.random.choice(palette.accents)
    cloth = matte(colour, 0.2)
    build.box(cloth, (0.6, 0.34, 0.7), base=0.08)
    build.box(cloth, (0.86, 0.5, 0.18), z=-0.3, base=0.42)
    for side in (-1, 1):
        build.box(cloth, (0.13, 0.48, 0.7), side * 0.365, base=0.08)
    build.name("armchair", colour, 0.5)
    return 0.55


def bed(build: Builder, palette: Palette) -> float:
    colour, frame = build.random.choice(palette.accents), build.random.choice(palette.woods)
    width = build.random.uniform(1.3, 1.8)
    build.box(wood(frame), (width + 0.1, 0.28, 2.0))
    build.box(matte("white"), (width, 0.2, 1.95), base=0.28)
    build.box(woven(colour, "white", 0.16), (width + 0.04, 0.24, 1.25), z=0.36, base=0.27)
    build.box(wood(frame), (width + 0.1, 1.0, 0.08), z=-1.0)
    for side in (-1, 1):
        build.ball(matte("cream"), (0.3, 0.1, 0.2), side * width * 0.25, -0.68, base=0.46)
    build.name("bed", colour, 0.5)
    return 1.3


def bookshelf(build: Builder, palette: Palette) -> float:
    colour = build.random.choice(palette.woods)
    width, height = build.random.uniform(0.8, 1.5), build.random.uniform(1.5, 2.1)
    rows = round(height / 0.36)
    books = material(
        linear(palette.accents[0]), linear(palette.accents[1]), DARK, cell=(0.055, (height - 0.08) / rows),
        joint_width=(0.1, 0.3), checker=(0.0, 0.0), shades=0.65, noise=1.0, grain=(0.12, 0.36),
    )  # fmt: skip
    build.box(wood(colour), (width, height, 0.3))
    # The books stand out by about a centimetre, so that shelves and sides of the case frame them.
    build.box(books, (width - 0.1, height - 0.08, 0.02), z=0.15, base=0.04)
    for shelf in range(1, rows):
        build.box(wood(colour), (width - 0.06, 0.03, 0.05), z=0.15, base=shelf * height / rows)
    build.name("bookshelf", colour, 1.2)
    return width / 2


def cabinet(build: Builder, palette: Palette) -> float:
    colour = build.random.choice((*palette.accents, *palette.woods))
    width, height = build.random.uniform(0.9, 1.6), build.random.uniform(0.6, 1.0)
    tone = linear(colour)
    doors = material(tone, None, mix(tone, DARK, 0.6), cell=(width / 3, height), joint_width=(0.03, 0.02), shades=0.06)
    build.box(doors, (width, height, 0.42))
    build.box(
        matte(build.random.choice(palette.accents)), (0.22, 0.3, 0.16), build.random.uniform(-0.3, 0.3), base=height
    )
    build.cylinder(matte(build.random.choice(palette.accents)), 0.07, 0.26, -0.3 * width, base=height)
    build.name("cabinet", colour, height)
    return width / 2


def lamp(build: Builder, palette: Palette) -> float:
    colour = build.random.choice(("cream", "yellow", "white", palette.accents[1]))
    height = build.random.uniform(1.35, 1.65)
    tone = linear(colour)
    build.cylinder(matte("charcoal"), 0.16, 0.03)
    build.cylinder(matte("charcoal"), 0.022, height - 0.2)
    build.cylinder(material(tone, glow=0.75), 0.2, 0.3, base=height - 0.25)
    build.name("floor lamp", colour, height)
    return 0.22


def plant(build: Builder, palette: Palette) -> float:
    pot = build.random.choice(("terracotta", "white", *palette.accents[:2]))
    leaf = linear(build.random.choice(("green", "forest green", "sage", "olive")))
    leaves = material(leaf, mix(leaf, DARK, 0.75), noise=1.1, grain=(0.1, 0.1))
    build.cylinder(matte(pot), 0.19, 0.36)
    spread = build.random.uniform(0.26, 0.36)
    build.ball(leaves, (spread, spread * 1.2, spread), base=0.34)
    build.ball(leaves, (spread * 0.7, spread * 0.9, spread * 0.7), 0.06, 0.05, base=0.8)
    build.name("plant", "green", 0.7)
    return 0.36


def block(build: Builder, palette: Palette) -> float:
    """A plain solid on the ground, as in a play room: a box, a cylinder or a ball."""
    colour = build.random.choice(palette.accents)
    size = build.random.uniform(0.3, 0.6)
    shape = build.random.choice(("box", "cylinder", "ball"))
    if shape == "box":
        build.box(matte(colour), (size, size * build.random.uniform(0.7, 1.6), size), turn=build.random.uniform(0, 1.5))
    elif shape == "cylinder":
        build.cylinder(matte(colour), size / 2, size * build.random.uniform(0.8, 1.8))
    else:
        build.ball(woven(colour, "white", 0.2), size / 2)
    build.name(shape, colour, size / 2)
    return size * 0.75
