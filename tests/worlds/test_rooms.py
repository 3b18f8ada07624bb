"""Rooms are furnished: each has what gives it its name and never stands empty, and lamps above cast no smudges."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from sightline.worlds import make_scene
from sightline.worlds.builder import Builder
from sightline.worlds.ground_light import ground_light
from sightline.worlds.textures import material
from tests.worlds.helpers import bare_scene

_NOT_FURNITURE = {"door", "window", "picture", "rug"}
_SIGNATURES = {"bedroom": "bed", "dining room": "table", "living room": "sofa", "study": "table"}


@pytest.mark.parametrize("style", ["walkthrough", "orbit"])
def test_every_room_has_its_furniture_and_its_signature_once(style):
    rooms = 0
    for seed in range(150):
        notes = make_scene(seed, style).notes[0]
        if notes.place not in {*_SIGNATURES, "playroom", "gallery"}:
            continue  # outdoors
        rooms += 1
        names = Counter(thing.name for thing in notes.things if thing.name not in _NOT_FURNITURE)
        assert names.total() >= 3, (seed, notes.place, names)
        if notes.place in _SIGNATURES:
            assert names[_SIGNATURES[notes.place]] == 1, (seed, notes.place, names)
    assert rooms > 40


def test_what_hangs_from_the_ceiling_casts_no_shadow_and_what_stands_does():
    def light_with(base: float) -> torch.Tensor:
        build = Builder("walkthrough", 0)
        build.ball(material((0.5, 0.5, 0.5)), (0.24, 0.13, 0.24), base=base)
        return ground_light(bare_scene(build, outdoor=False, half=3.0))

    assert (light_with(3.0 - 0.32) > 0.999).all()
    assert light_with(0.0).min() < 0.9
