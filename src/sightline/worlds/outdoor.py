"""Outdoors: streets between buildings, and parks with trees, paths and something to walk around."""

from __future__ import annotations

import math

from sightline.worlds import outdoor_things as things
from sightline.worlds.builder import Builder, light
from sightline.worlds.outdoor_things import WHITE
from sightline.worlds.palettes import DARK, FACADES, GROUNDS, linear, mix
from sightline.worlds.scene import FAR, GROUND, SKY, Scene
from sightline.worlds.textures import material

_PARKS = (("park", "grass"), ("garden", "grass"), ("square", "paving"), ("courtyard", "gravel"), ("beach", "sand"))


def build_outdoor(build: Builder, *, moving: bool, street: bool | None = None) -> Scene:
    """A street or a park, one of the two at random if `street` is None. moving: a car, balloons or balls that glide and bob."""
    pick = build.random
    if pick.random() < 0.5 if street is None else street:
        place, ground, standpoint, focus, radius = _street(build, moving)
    else:
        place, ground, standpoint, focus, radius = _park(build, moving)
    sky, row = _sky(build)
    build.shell(SKY, sky)
    return build.finish(
        room=(-FAR, -FAR, -FAR, FAR, 0.0, FAR),
        light=row,
        place=place,
        ground=ground,
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
    clouds = material(mix(zenith, WHITE, 0.22), WHITE, noise=pick.uniform(0.5, 1.0), grain=(45.0, 32.0))
    height = {"noon": 1.3, "golden": 0.55, "overcast": 2.0}[hour]
    angle = pick.uniform(-math.pi, math.pi)
    return clouds, light(
        (math.cos(angle), height, math.sin(angle)), key, above, below, horizon, pick.uniform(0.004, 0.009), True
    )


def _street(build: Builder, moving: bool) -> tuple[str, str, tuple[float, float], tuple[float, float, float], float]:
    pick = build.random
    asphalt = linear(GROUNDS["asphalt"])
    build.shell(
        GROUND, material(asphalt, mix(asphalt, DARK, 0.5), mix(asphalt, WHITE, 0.1), noise=0.35, grain=(0.8, 0.8))
    )
    if moving:
        things.car(build, pick.choice((-1.9, 1.9)))
    half_road, walk = pick.uniform(3.2, 4.2), 2.4
    paving = linear(GROUNDS["paving"])
    slabs = material(paving, None, mix(paving, DARK, 0.45), cell=(0.6, 0.6), joint_width=(0.04, 0.04), shades=0.1)
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
            colour = pick.choice([facade for facade in FACADES if facade not in named[-2:]])
            named.append(colour)
            build.at(side * (half_road + walk + 3.0), z + front / 2)
            things.house(build, colour, front, tall)
            if 2.0 < z < 14.0 and len(named) < 9:
                build.name("house", colour, 2.0)
            z += front + pick.choice((0.0, 0.0, 1.5))
    for z in (4.5, 9.5, 16.0):
        side = pick.choice((-1, 1))
        build.at(side * (half_road + 0.7), z + pick.uniform(-1.0, 1.0))
        if pick.random() < 0.65:
            things.tree(build, pick.uniform(0.75, 1.05), crowns=1)
        else:
            things.street_lamp(build)
    if pick.random() < 0.8:
        build.at(pick.choice((-1, 1)) * (half_road - 1.1), pick.uniform(7.0, 12.0))
        things.parked_car(build)
    return "street", "asphalt road", (0.0, 0.0), (half_road - 1.1, -0.7, 6.0), 1.4


def _park(build: Builder, moving: bool) -> tuple[str, str, tuple[float, float], tuple[float, float, float], float]:
    pick = build.random
    place, ground = pick.choice(_PARKS)
    tone = linear(GROUNDS[ground])
    if ground == "paving":
        second = linear(pick.choice(("slate", "terracotta", "cream")))
        build.shell(
            GROUND,
            material(
                tone,
                mix(tone, second, 0.6),
                mix(tone, DARK, 0.4),
                cell=(1.0, 1.0),
                joint_width=(0.03, 0.03),
                checker=(1.0, 1.0),
                shades=0.08,
            ),
        )
    else:
        build.shell(GROUND, material(tone, mix(tone, DARK, 0.55), noise=0.7, grain=(0.9, 0.9)))
    if moving:
        things.floaters(build)
    centre = (0.0, 6.0)
    build.take(0.0, 0.0, 1.6)
    build.at(*centre)
    radius = things.monument(build)
    build.take(*centre, 3.4)
    if ground == "grass":
        footpath = linear(pick.choice(("sand", "beige", "warm grey")))
        build.at(0.0, 0.0)
        build.box(material(footpath, mix(footpath, DARK, 0.4), noise=0.5), (1.6, 0.012, 40.0), passable=True)
        build.box(material(footpath, mix(footpath, DARK, 0.4), noise=0.5), (40.0, 0.01, 1.4), z=6.0, passable=True)
    for side in (-1, 1):  # a row of buildings or hedges closes the view
        z = 20.0
        x = side * pick.uniform(1.5, 3.0)
        for _ in range(3):
            front = pick.uniform(5.0, 9.0)
            build.at(x + side * front / 2, z + pick.uniform(-1.0, 2.0), math.pi / 2)
            things.house(build, pick.choice(FACADES), front, pick.uniform(4.0, 10.0))
            x += side * (front + pick.uniform(0.0, 1.5))
    placed = 0
    for _ in range(24):
        x, z = pick.uniform(-9.0, 9.0), pick.uniform(-3.0, 16.0)
        if placed >= 5 or not build.is_free(x, z, 1.6):
            continue
        build.at(x, z, pick.uniform(-0.4, 0.4))
        placed += 1
        build.take(x, z, 1.4)
        (things.hedge, things.bench, things.tree, things.tree, things.tree)[placed - 1](build)
    words = {"grass": "lawn", "paving": "checkered pavement", "gravel": "gravel ground", "sand": "sandy ground"}
    return place, words[ground], (0.0, 0.0), (centre[0], -1.0, centre[1]), radius
