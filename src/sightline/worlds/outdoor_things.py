"""What stands outdoors, and what moves there: houses, trees, cars, monuments, balloons."""

from __future__ import annotations

from sightline.worlds.builder import Builder
from sightline.worlds.furniture import matte, wood, woven
from sightline.worlds.palettes import DARK, linear, mix
from sightline.worlds.textures import material

WHITE = (0.9, 0.9, 0.88)
_ACCENTS = ("red", "blue", "yellow", "orange", "teal", "white", "coral", "navy")


def house(build: Builder, colour: str, front: float, tall: float) -> None:
    tone = linear(colour)
    storeys, bays = max(2, round(tall / 2.9)), max(2, round(front / 1.9))
    glass = build.random.choice(((0.06, 0.09, 0.13), (0.12, 0.18, 0.24), (0.35, 0.3, 0.18)))
    # Windows are the cells of the texture, and the wall its wide joints.
    walls = material(glass, None, tone, cell=(front / bays, tall / storeys), joint_width=(0.5, 0.42), shades=0.5)
    build.box(walls, (6.0, tall, front))
    build.box(
        matte(build.random.choice(("slate", "charcoal", "terracotta", "white"))), (6.4, 0.35, front + 0.3), base=tall
    )


def tree(build: Builder, size: float = 1.0, crowns: int = 2) -> None:
    pick = build.random
    leaf = linear(pick.choice(("green", "forest green", "olive", "sage")))
    leaves = material(leaf, mix(leaf, DARK, 0.8), noise=1.1, grain=(0.4, 0.4))
    build.cylinder(wood("brown"), 0.14 * size, 2.4 * size)
    build.ball(leaves, (1.2 * size, 1.3 * size, 1.2 * size), base=1.7 * size)
    if crowns > 1:
        build.ball(leaves, (0.85 * size, 0.9 * size, 0.85 * size), 0.5, 0.3, base=2.6 * size)
    build.name("tree", "green", 1.8)


def street_lamp(build: Builder) -> None:
    build.cylinder(matte("charcoal"), 0.06, 3.4)
    build.ball(material(WHITE, glow=0.6), 0.2, base=3.4)
    build.name("street lamp", "", 2.0)


def hedge(build: Builder) -> None:
    leaf = linear("forest green")
    build.box(material(leaf, mix(leaf, DARK, 0.8), noise=1.1, grain=(0.25, 0.25)), (2.6, 0.9, 0.7))
    build.name("hedge", "green", 0.5)


def bench(build: Builder) -> None:
    slats = material(linear("oak"), None, DARK, cell=(5.0, 0.12), joint_width=(0.0, 0.15))
    build.box(slats, (1.6, 0.07, 0.5), base=0.42)
    build.box(slats, (1.6, 0.45, 0.06), z=-0.26, base=0.5)
    for side in (-1, 1):
        build.box(matte("charcoal"), (0.08, 0.42, 0.45), side * 0.65)
    build.name("bench", "oak", 0.5)


def monument(build: Builder) -> float:
    """The middle of a park: a fountain, a column, a sculpture of blocks or a kiosk."""
    pick = build.random
    what = pick.choice(("fountain", "column", "sculpture", "kiosk"))
    stone, accent = pick.choice(("warm grey", "sand", "white")), pick.choice(_ACCENTS)
    if what == "fountain":
        build.cylinder(matte(stone), 1.5, 0.55)
        build.cylinder(material((0.1, 0.3, 0.4), (0.4, 0.6, 0.65), noise=0.7, grain=(0.3, 0.3)), 1.32, 0.02, base=0.55)
        build.cylinder(matte(stone), 0.2, 1.5, base=0.5)
        build.ball(matte(accent), 0.34, base=1.95)
    elif what == "column":
        build.box(matte(stone), (1.6, 0.5, 1.6))
        build.cylinder(woven(stone, "charcoal", 0.08), 0.38, 3.0, base=0.5)
        build.ball(matte(accent), 0.55, base=3.5)
    elif what == "sculpture":
        build.box(matte(stone), (2.0, 0.3, 2.0))
        for size, base in ((1.1, 0.3), (0.85, 1.4), (0.6, 2.25)):
            build.box(matte(pick.choice(_ACCENTS)), (size, size, size), base=base, turn=pick.uniform(0, 1.5))
        accent = ""
    else:
        build.box(material(linear(accent), WHITE, cell=(0.3, 0.3), checker=(1.0, 0.0)), (1.8, 2.2, 1.8))
        build.box(matte("white"), (2.4, 0.18, 2.4), base=2.2)
    build.name(what, {"fountain": stone, "column": stone}.get(what, accent), 1.2)
    return 1.7


def car(build: Builder, lane: float) -> None:
    """A car that drives back and forth along the street, within the block."""
    pick = build.random
    colour = pick.choice(("red", "blue", "yellow", "white", "teal"))
    motion = ((0.0, 0.0, pick.uniform(5.0, 8.0)), pick.uniform(0.06, 0.1), pick.random())
    build.at(lane, pick.uniform(12.0, 16.0))
    build.moving_box(matte(colour), (1.7, 0.65, 4.0), 0.0, 0.0, 0.3, *motion)
    build.moving_box(_cabin(colour), (1.5, 0.55, 2.1), 0.0, 0.2, 0.95, *motion)
    build.name("car", colour, 0.7, moving=True)


def _cabin(colour: str) -> list[float]:
    """Dark glass between bars in the colour of the car."""
    return material((0.08, 0.1, 0.13), None, linear(colour), cell=(0.75, 0.9), joint_width=(0.12, 0.1))


def parked_car(build: Builder) -> None:
    colour = build.random.choice(("red", "blue", "yellow", "white", "teal"))
    build.box(matte(colour), (1.7, 0.65, 4.0), base=0.3)
    build.box(_cabin(colour), (1.5, 0.55, 2.1), z=0.2, base=0.95)
    build.box(matte("black"), (1.75, 0.36, 0.66), z=1.25)
    build.box(matte("black"), (1.75, 0.36, 0.66), z=-1.25)
    build.name("parked car", colour, 0.7)


def floaters(build: Builder) -> None:
    """Balls that glide over the ground and balloons that bob above it."""
    pick = build.random
    for number in range(pick.choice((2, 3, 4))):
        colour = pick.choice(_ACCENTS)
        build.at(pick.uniform(-4.0, 4.0), pick.uniform(3.0, 9.0))
        radius, phase = pick.uniform(0.25, 0.45), pick.random()
        if number % 2:
            sway = (pick.uniform(0.3, 0.9), pick.uniform(0.2, 0.5), 0.0)
            build.ball(
                matte(colour),
                (radius, radius * 1.2, radius),
                base=pick.uniform(1.8, 2.8),
                sway=sway,
                frequency=0.3,
                phase=phase,
            )
            build.name("balloon", colour, 2.4, moving=True)
        else:
            sway = (pick.choice((-1, 1)) * pick.uniform(1.0, 2.0), 0.0, pick.uniform(-0.6, 0.6))
            build.ball(woven(colour, "white", 0.25), radius, sway=sway, frequency=0.25, phase=phase)
            build.name("rolling ball", colour, radius, moving=True)
