"""Whatever a visitor clicks and types, in whatever order, the page answers with sentences of ours and goes on."""

from __future__ import annotations

import logging
import math
import random
from types import SimpleNamespace

import pytest

from sightline.errors import SightlineError
from sightline.studio import depth
from sightline.studio.session import Session
from tests.studio.films import write_film
from tests.studio.plain_page import Handle, edit

_TEXTS = (
    "orbit:30",
    "",
    "zoom:28>70",
    "pan:20, dolly:1+tilt:3",
    "banana",
    "-",
    "dolly:1e9",
    "\0",
    "64x64",
    "128x128",
    "9x9x9",
)
_NUMBERS = (0, 1, -1, 2.5, math.nan, math.inf, 1e9, 5, 9, 33, 128, 0.05, None, "x")
_FILES = (SimpleNamespace(name="x.png", content=b"\x89PNG"), SimpleNamespace(name="../x.json", content=b"{}"))


def any_value(handle, chance):
    """Something that a page could send from this field, allowed or not."""
    if handle.kind in ("dropdown", "button_group"):
        return chance.choice([*handle.options, "../../x"])
    values = {
        "number": _NUMBERS,
        "slider": (0, 1, 2, -5, 50, 0.5),
        "text": _TEXTS,
        "checkbox": (False, True),
        "vector3": ((0.0, 0.1, -1.0), (1e6, 0.0, math.nan)),
        "upload_button": _FILES,
    }
    return chance.choice(values[handle.kind]) if handle.kind in values else getattr(handle, "value", None)


def fields(visit):
    """Everything on the page that does something, in the order of the page."""
    shoot, generate = visit.shoot, visit.generate
    parts = (shoot, shoot.depth, shoot.keys, generate, generate.film_view, visit.gallery, visit.inspect, visit.player)
    return [one for part in parts for one in vars(part).values() if isinstance(one, Handle) and one.callbacks]


@pytest.mark.parametrize("seed", range(3))
def test_the_page_survives_whatever_is_done_on_it(visit, monkeypatch, caplog, seed):
    def no_model(model):
        raise SightlineError("there is no model.")

    monkeypatch.setattr(depth, "_load", no_model)
    monkeypatch.setattr(visit.player, "play", lambda: None)
    chance, world = random.Random(seed), Session(visit.studio.info)
    world.set_world(3, "orbit")
    write_film(visit.studio, Session(visit.studio.info), "one")
    write_film(visit.studio, world, "two")
    caplog.set_level(logging.WARNING)
    handles = fields(visit)
    assert len(handles) > 40
    for _ in range(150):
        handle = chance.choice(handles)
        edit(visit, handle, any_value(handle, chance))
        for task in visit.studio.worker.tasks[-1:]:
            if not task.ended.is_set() and chance.random() < 0.3:
                task.ended.set()
                task.answer({"event": chance.choice(["cancelled", "failed"]), "sentence": "it did not work."})
    assert not [record for record in caplog.records if "could not do something" in record.getMessage()]
    assert not [said for said in visit.said if "please report" in said]
