"""Outdoors: streets between buildings, and parks with trees, paths and something to walk around."""

from __future__ import annotations

import math

from sightline.worlds.builder import Builder, light
from sightline.worlds.furniture import plain, wood, woven
from sightline.worlds.palettes import FACADES, GROUNDS, linear, mixed
from sightline.worlds.scene import FAR, FLOOR, SKY, Scene
from sightline.worlds.textures import material

_DARK, _WHITE = (0.02, 0.02, 0.02), (0.9, 0.9, 0.88)
_PARKS = (("park", "grass"), ("garden", "grass"), ("square", "paving"), ("courtyard", "gravel"), ("beach", "sand"))
_ACCENTS = ("red", "blue", "yellow", "orange", "teal", "white", "coral", "navy")


def build_outdoor(build: Builder, *, moving: bool, street: bool | None = None) -> Scene:
    """A street or a park, either unless `street` says which. moving: a car, balloons or balls that glide and bob."""
    pick = build.random
    if pick.random() < 0.5 if street is None else street:
        place, floor, standpoint, focus, radius = _street(build, moving)
    else:
        place, floor, standpoint, focus, radius = _park(build, moving)
    sky, row = _sky(build)
    build.shell(SKY, sky)
    return build.finish(
        room=(-FAR, -FAR, -FAR, FAR, 0.0, FAR),
        light=row,
        place=place,
        floor=floor,
        standpoint=standpoint,
        focus=focus,
        focus_radius=radius,
    )


def _sky(build: Builder) -> tuple[list[float], list[float]]:
    pick = build.random
    hour = pick.choice(("noon", "noon", "golden", "overcast"))
    zenith, horizon, key, above, below = {
        "noon": ((0.1, 0.28, 0.68), (0.5, 0.68, 0.88), (1.15, 1.02, 0.8), (0.4, 0.48, 0.62), (0.2, 0.18, 0.15)),
        "golden": ((0.18, 0.3, 0.58), (0.95, 0.66, 0.42), (1.3, 0.85, 0.45), (0.4, 0.38, 0.46), (0.24, 0.18, 0.14)),
        "overcast": ((0.42, 0.5, 0.6), (0.74, 0.78, 0.82), (0.45, 0.45, 0.43), (0.66, 0.68, 0.71), (0.3, 0.29, 0.27)),
    }[hour]
    clouds = material(mixed(zenith, _WHITE, 0.22), _WHITE, noise=pick.uniform(0.5, 1.0), grain=(45.0, 32.0))
    height = {"noon": 1.3, "golden": 0.55, "overcast": 2.0}[hour]
    angle = pick.uniform(-math.pi, math.pi)
    return clouds, light(
        (math.cos(angle), height, math.sin(angle)), key, above, below, horizon, pick.uniform(0.004, 0.009), True
    )


def _street(build: Builder, moving: bool) -> tuple[str, str, tuple[float, float], tuple[float, float, float], float]:
    pick = build.random
    asphalt = linear(GROUNDS["asphalt"])
    build.shell(
        FLOOR, material(asphalt, mixed(asphalt, _DARK, 0.5), mixed(asphalt, _WHITE, 0.1), noise=0.35, grain=(0.8, 0.8))
    )
    if moving:
        _car(build, pick.choice((-1.9, 1.9)))
    half_road, walk = pick.uniform(3.2, 4.2), 2.4
    paving = linear(GROUNDS["paving"])
    slabs = material(paving, None, mixed(paving, _DARK, 0.45), cell=(0.6, 0.6), joint_width=(0.04, 0.04), shades=0.1)
    line = material((0.75, 0.73, 0.66), asphalt, cell=(0.14, 1.6), checker=(0.0, 1.0))
    build.at(0.0, 0.0)
    build.box(line, (0.14, 0.01, 60.0), passable=True)
    named: list[str] = []
    for side in (-1, 1):
        build.at(side * (half_road + walk / 2), 0.0)
        build.box(slabs, (walk, 0.12, 90.0))
        z = -12.0
        while z < 34.0 and build.room_for("box", 2):
            front, tall = pick.uniform(5.0, 9.0), pick.uniform(4.5, 12.0)
            colour = pick.choice([one for one in FACADES if one not in named[-2:]])
            named.append(colour)
            build.at(side * (half_road + walk + 3.0), z + front / 2)
            _house(build, colour, front, tall)
            if 2.0 < z < 14.0 and len(named) < 9:
                build.name("house", colour, 2.0)
            z += front + pick.choice((0.0, 0.0, 1.5))
    for z in (4.5, 9.5, 16.0):
        side = pick.choice((-1, 1))
        build.at(side * (half_road + 0.7), z + pick.uniform(-1.0, 1.0))
        if pick.random() < 0.65:
            _tree(build, pick.uniform(0.75, 1.05), crowns=1)
        else:
            _street_lamp(build)
    if pick.random() < 0.8:
        build.at(pick.choice((-1, 1)) * (half_road - 1.1), pick.uniform(7.0, 12.0))
        _parked_car(build)
    return "street", "asphalt road", (0.0, 0.0), (half_road - 1.1, -0.7, 6.0), 1.4


def _park(build: Builder, moving: bool) -> tuple[str, str, tuple[float, float], tuple[float, float, float], float]:
    pick = build.random
    place, ground = pick.choice(_PARKS)
    tone = linear(GROUNDS[ground])
    if ground == "paving":
        second = linear(pick.choice(("slate", "terracotta", "cream")))
        build.shell(
            FLOOR,
            material(
                tone,
                mixed(tone, second, 0.6),
                mixed(tone, _DARK, 0.4),
                cell=(1.0, 1.0),
                joint_width=(0.03, 0.03),
                checker=(1.0, 1.0),
                shades=0.08,
            ),
        )
    else:
        build.shell(FLOOR, material(tone, mixed(tone, _DARK, 0.55), noise=0.7, grain=(0.9, 0.9)))
    if moving:
        _floaters(build)
    centre = (0.0, 6.0)
    build.take(0.0, 0.0, 1.6)
    build.at(*centre)
    radius = _monument(build)
    build.take(*centre, 3.4)
    if ground == "grass":
        path = linear(pick.choice(("sand", "beige", "warm grey")))
        build.at(0.0, 0.0)
        build.box(material(path, mixed(path, _DARK, 0.4), noise=0.5), (1.6, 0.012, 40.0), passable=True)
        build.box(material(path, mixed(path, _DARK, 0.4), noise=0.5), (40.0, 0.01, 1.4), z=6.0, passable=True)
    for side in (-1, 1):  # a row of buildings or hedges closes the view
        z = 20.0
        x = side * pick.uniform(1.5, 3.0)
        for _ in range(3):
            front = pick.uniform(5.0, 9.0)
            build.at(x + side * front / 2, z + pick.uniform(-1.0, 2.0), math.pi / 2)
            _house(build, pick.choice(FACADES), front, pick.uniform(4.0, 10.0))
            x += side * (front + pick.uniform(0.0, 1.5))
    placed = 0
    for _ in range(24):
        x, z = pick.uniform(-9.0, 9.0), pick.uniform(-3.0, 16.0)
        if placed >= 5 or not build.is_free(x, z, 1.6):
            continue
        build.at(x, z, pick.uniform(-0.4, 0.4))
        placed += 1
        build.take(x, z, 1.4)
        (_hedge, _bench, _tree, _tree, _tree)[placed - 1](build)
    words = {"grass": "lawn", "paving": "checkered pavement", "gravel": "gravel ground", "sand": "sandy ground"}
    return place, words[ground], (0.0, 0.0), (centre[0], -1.0, centre[1]), radius


def _house(build: Builder, colour: str, front: float, tall: float) -> None:
    tone = linear(colour)
    floors, bays = max(2, round(tall / 2.9)), max(2, round(front / 1.9))
    glass = build.random.choice(((0.06, 0.09, 0.13), (0.12, 0.18, 0.24), (0.35, 0.3, 0.18)))
    # A window is what is left of a cell between wide joints in the colour of the wall.
    walls = material(glass, None, tone, cell=(front / bays, tall / floors), joint_width=(0.5, 0.42), shades=0.5)
    build.box(walls, (6.0, tall, front))
    build.box(
        plain(build.random.choice(("slate", "charcoal", "terracotta", "white"))), (6.4, 0.35, front + 0.3), base=tall
    )


def _tree(build: Builder, size: float = 1.0, crowns: int = 2) -> None:
    pick = build.random
    leaf = linear(pick.choice(("green", "forest green", "olive", "sage")))
    leaves = material(leaf, mixed(leaf, _DARK, 0.8), noise=1.1, grain=(0.4, 0.4))
    build.cylinder(wood("brown"), 0.14 * size, 2.4 * size)
    build.ball(leaves, (1.2 * size, 1.3 * size, 1.2 * size), base=1.7 * size)
    if crowns > 1:
        build.ball(leaves, (0.85 * size, 0.9 * size, 0.85 * size), 0.5, 0.3, base=2.6 * size)
    build.name("tree", "green", 1.8)


def _street_lamp(build: Builder) -> None:
    build.cylinder(plain("charcoal"), 0.06, 3.4)
    build.ball(material(_WHITE, glow=0.6), 0.2, base=3.4)
    build.name("street lamp", "", 2.0)


def _hedge(build: Builder) -> None:
    leaf = linear("forest green")
    build.box(material(leaf, mixed(leaf, _DARK, 0.8), noise=1.1, grain=(0.25, 0.25)), (2.6, 0.9, 0.7))
    build.name("hedge", "green", 0.5)


def _bench(build: Builder) -> None:
    slats = material(linear("oak"), None, _DARK, cell=(5.0, 0.12), joint_width=(0.0, 0.15))
    build.box(slats, (1.6, 0.07, 0.5), base=0.42)
    build.box(slats, (1.6, 0.45, 0.06), z=-0.26, base=0.5)
    for side in (-1, 1):
        build.box(plain("charcoal"), (0.08, 0.42, 0.45), side * 0.65)
    build.name("bench", "oak", 0.5)


def _monument(build: Builder) -> float:
    """The middle of a park: a fountain, a column, a sculpture of blocks or a kiosk."""
    pick = build.random
    what = pick.choice(("fountain", "column", "sculpture", "kiosk"))
    stone, accent = pick.choice(("warm grey", "sand", "white")), pick.choice(_ACCENTS)
    if what == "fountain":
        build.cylinder(plain(stone), 1.5, 0.55)
        build.cylinder(material((0.1, 0.3, 0.4), (0.4, 0.6, 0.65), noise=0.7, grain=(0.3, 0.3)), 1.32, 0.02, base=0.55)
        build.cylinder(plain(stone), 0.2, 1.5, base=0.5)
        build.ball(plain(accent), 0.34, base=1.95)
    elif what == "column":
        build.box(plain(stone), (1.6, 0.5, 1.6))
        build.cylinder(woven(stone, "charcoal", 0.08), 0.38, 3.0, base=0.5)
        build.ball(plain(accent), 0.55, base=3.5)
    elif what == "sculpture":
        build.box(plain(stone), (2.0, 0.3, 2.0))
        for size, base in ((1.1, 0.3), (0.85, 1.4), (0.6, 2.25)):
            build.box(plain(pick.choice(_ACCENTS)), (size, size, size), base=base, turn=pick.uniform(0, 1.5))
        accent = ""
    else:
        build.box(material(linear(accent), _WHITE, cell=(0.3, 0.3), checker=(1.0, 0.0)), (1.8, 2.2, 1.8))
        build.box(plain("white"), (2.4, 0.18, 2.4), base=2.2)
    build.name(what, {"fountain": stone, "column": stone}.get(what, accent), 1.2)
    return 1.7


def _car(build: Builder, lane: float) -> None:
    """A car that drives along the street, and back: it never leaves the block."""
    pick = build.random
    colour = pick.choice(("red", "blue", "yellow", "white", "teal"))
    motion = ((0.0, 0.0, pick.uniform(5.0, 8.0)), pick.uniform(0.06, 0.1), pick.random())
    build.at(lane, pick.uniform(12.0, 16.0))
    build.moving_box(plain(colour), (1.7, 0.65, 4.0), 0.0, 0.0, 0.3, *motion)
    build.moving_box(_cabin(colour), (1.5, 0.55, 2.1), 0.0, 0.2, 0.95, *motion)
    build.name("car", colour, 0.7, moving=True)


def _cabin(colour: str) -> list[float]:
    """Dark glass between bars in the colour of the car."""
    return material((0.08, 0.1, 0.13), None, linear(colour), cell=(0.75, 0.9), joint_width=(0.12, 0.1))


def _parked_car(build: Builder) -> None:
    colour = build.random.choice(("red", "blue", "yellow", "white", "teal"))
    build.box(plain(colour), (1.7, 0.65, 4.0), base=0.3)
    build.box(_cabin(colour), (1.5, 0.55, 2.1), z=0.2, base=0.95)
    build.box(plain("black"), (1.75, 0.36, 0.66), z=1.25)
    build.box(plain("black"), (1.75, 0.36, 0.66), z=-1.25)
    build.name("parked car", colour, 0.7)


def _floaters(build: Builder) -> None:
    """Balls that glide over the ground and balloons that bob above it."""
    pick = build.random
    for number in range(pick.choice((2, 3, 4))):
        colour = pick.choice(_ACCENTS)
        build.at(pick.uniform(-4.0, 4.0), pick.uniform(3.0, 9.0))
        radius, phase = pick.uniform(0.25, 0.45), pick.random()
        if number % 2:
            sway = (pick.uniform(0.3, 0.9), pick.uniform(0.2, 0.5), 0.0)
            build.ball(
                plain(colour),
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
