"""The vocabulary of the move language: moves, the directions each one takes, and other names for both."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from sightline.cameras.moves import basic, loops
from sightline.cameras.trajectory import Trajectory

Move = Callable[..., Trajectory]

MOVES: dict[str, Move] = {
    move.__name__: move
    for move in (
        basic.static, basic.pan, basic.tilt, basic.roll, basic.truck, basic.pedestal, basic.dolly, basic.orbit, basic.arc,
        basic.crane, basic.spiral, basic.zoom, basic.dolly_zoom, basic.handheld,
    )
} | loops.REVISIT_LOOPS  # fmt: skip


class Reading(NamedTuple):
    """What a verb with a direction means: a move, and the sign of its first amount."""

    move: str
    sign: int = 1


DIRECTIONS: dict[str, str] = {
    "left": "left", "leftward": "left", "leftwards": "left", "right": "right", "rightward": "right",
    "rightwards": "right", "up": "up", "upward": "up", "upwards": "up", "down": "down", "downward": "down",
    "downwards": "down", "in": "in", "forward": "in", "forwards": "in", "inward": "in", "inwards": "in",
    "closer": "in", "out": "out", "back": "out", "backward": "out", "backwards": "out", "outward": "out",
    "outwards": "out", "away": "out", "clockwise": "clockwise", "cw": "clockwise",
    "anticlockwise": "anticlockwise", "counterclockwise": "anticlockwise", "ccw": "anticlockwise",
}  # fmt: skip

# The words that a description prints for more and less of the first amount of a move.
MORE_AND_LESS = {
    "pan": ("right", "left"),
    "tilt": ("up", "down"),
    "roll": ("clockwise", "anticlockwise"),
    "truck": ("right", "left"),
    "pedestal": ("up", "down"),
    "dolly": ("in", "out"),
    "orbit": ("right", "left"),
    "arc": ("right", "left"),
    "spiral": ("right", "left"),
    "crane": ("up", "down"),
    "dolly_zoom": ("in", "out"),
    "loop_truck": ("right", "left"),
    "loop_orbit": ("right", "left"),
    "loop_dolly": ("in", "out"),
    "loop_nonpalindromic": ("right", "left"),
}


def _takes(move: str) -> dict[str, Reading]:
    """The two directions of one move, and the move without a direction, which is the positive one."""
    more, less = MORE_AND_LESS[move]
    return {"": Reading(move), more: Reading(move, 1), less: Reading(move, -1)}


# Whatever carries the camera, its direction says where it goes.
_CARRIED = {
    "right": Reading("truck", 1), "left": Reading("truck", -1), "up": Reading("pedestal", 1),
    "down": Reading("pedestal", -1), "in": Reading("dolly", 1), "out": Reading("dolly", -1),
}  # fmt: skip
_TURNED = {
    "right": Reading("pan", 1), "left": Reading("pan", -1), "up": Reading("tilt", 1), "down": Reading("tilt", -1),
}  # fmt: skip
_ROLLED = {**_takes("roll"), "right": Reading("roll", 1), "left": Reading("roll", -1)}
_RAISED = {"": Reading("pedestal"), "up": Reading("pedestal")}
_LOWERED = {"": Reading("pedestal", -1), "down": Reading("pedestal", -1)}
_STILL = {"": Reading("static")}

# Each verb with the directions it takes; "" is the verb alone. A verb without "" is not understood alone.
VERBS: dict[str, dict[str, Reading]] = {
    **{name: _takes(name) for name in MORE_AND_LESS},
    "static": _STILL,
    "zoom": {direction: Reading("zoom") for direction in ("", "in", "out")},  # in and out: see phrase_reader.py
    "handheld": {"": Reading("handheld")},
    "roll": _ROLLED,
    "truck": {**_CARRIED, "": Reading("truck")},
    "pedestal": {**_CARRIED, "": Reading("pedestal")},
    "dolly": {**_CARRIED, "": Reading("dolly")},
    "track": {**_CARRIED, "": Reading("truck")},
    "crab": {**_CARRIED, "": Reading("truck")},
    "boom": {**_CARRIED, "": Reading("pedestal")},
    "move": _CARRIED,
    "slide": _CARRIED,
    "push": {"": Reading("dolly"), "in": Reading("dolly")},
    "pull": {"out": Reading("dolly", -1)},
    **dict.fromkeys(
        ("go", "fly", "walk", "run", "step", "travel", "glide", "drift", "float", "creep", "strafe"), _CARRIED
    ),
    **dict.fromkeys(("rise", "raise", "ascend", "lift"), _RAISED),
    **dict.fromkeys(("lower", "descend", "sink"), _LOWERED),
    "turn": _TURNED,
    "look": _TURNED,
    "yaw": _takes("pan"),
    "pitch": _takes("tilt"),
    "jib": _takes("crane"),
    "circle": _takes("orbit"),
    "dutch_tilt": _ROLLED,
    "dutch_angle": _ROLLED,
    "dutch": _ROLLED,
    "clockwise": {"": Reading("roll")},
    "anticlockwise": {"": Reading("roll", -1)},
    "vertigo": _takes("dolly_zoom"),
    "zolly": _takes("dolly_zoom"),
    "shake": {"": Reading("handheld")},
    **dict.fromkeys(("still", "fixed", "locked_off", "lock_off", "hold", "pause", "wait", "stay"), _STILL),
}

# Directions that a verb does not take, but that people write: what they may have meant.
INSTEAD = {
    ("pan", "up"): "tilt up (the camera turns) or pedestal up (it moves)",
    ("pan", "down"): "tilt down (the camera turns) or pedestal down (it moves)",
    ("tilt", "left"): "pan left (the camera turns) or roll anticlockwise",
    ("tilt", "right"): "pan right (the camera turns) or roll clockwise",
    ("orbit", "clockwise"): "orbit left, which is clockwise seen from above",
    ("orbit", "anticlockwise"): "orbit right, which is anticlockwise seen from above",
    ("orbit", "up"): "arc:0:15 (degrees around, degrees up)",
    ("arc", "up"): "arc:0:15 (degrees around, degrees up)",
    ("crane", "left"): "truck left",
    ("crane", "right"): "truck right",
}

# Names that other tools use for something else.
HINTS = {
    ("pan", "left"): "pan left turns the camera; to move it say truck left.",
    ("pan", "right"): "pan right turns the camera; to move it say truck right.",
    ("zoom", "in"): "zoom in changes the lens; to move the camera say dolly in.",
    ("zoom", "out"): "zoom out changes the lens; to move the camera say dolly out.",
}

# What `sightline trajectory moves` and docs/conventions.md show.
GRAMMAR = (
    (
        "pan:-30, pan left 30, pans to the left by 30 degrees",
        "a verb, a direction, an amount (its unit may be left out)",
    ),
    (
        "arc:30:15, orbit left 45 radius 3, orbit:45:target_depth=3",
        "several amounts, in order between colons or by name",
    ),
    (
        "dolly in 0.5 + pan left 20, also: and, while, as, with, plus, &, handheld push in",
        "moves at the same time",
    ),
    (
        "truck:1, pan:-30, also: then, and then, followed by, ;",
        "moves one after the other; they divide the time evenly",
    ),
    (
        "orbit right 45 over 3 s, truck left 2 m for 2 seconds, also: in 3 s",
        "seconds of one move; the others divide what is left",
    ),
    ("slow push in, fast pan left, whip pan left", "half, twice or three times the usual amount"),
    (
        "orbit the subject, push in on it, pull back from the subject, tracking shot left",
        "words that change nothing, with the moves that they fit",
    ),
    (
        "truck left 6 ft, 5' 6\", 10 inches, push in 50 cm",
        "feet, inches, yards and centimetres; a scene unit is read as a metre",
    ),
    ("go forward half a meter, two and a half feet, over two seconds", "amounts in words"),
    ("360 around the subject, arc left 45", "an orbit; an arc that stays level (arc:45 climbs by 15 degrees)"),
    (
        "crane up 1 m while tilting down 20",
        "a pedestal and a tilt: a crane alone tilts to keep the subject in the middle",
    ),
    ("slow pan left 30, tilt up 10", "with an amount: twice or half the others' share of the time"),
    (
        "zoom:28>70, zoom from 28 to 70 mm, zoom 28-70, zoom in to 70, zoom in 2x",
        "focal length; zoom in alone is 2x, zoom out half",
    ),
)

_GERUNDS = {
    "panning": "pan", "rolling": "roll", "moving": "move", "sliding": "slide", "circling": "circle", "stepping": "step",
    "travelling": "travel", "gliding": "glide", "rising": "rise", "raising": "raise",
}  # fmt: skip
FORMS: dict[str, str] = {  # "dollies", "panning" and "tilts" are the verbs dolly, pan and tilt
    **{verb: verb for verb in VERBS},
    **{f"{verb}s": verb for verb in VERBS if "_" not in verb},
    **{f"{verb}ing": verb for verb in VERBS if "_" not in verb},
    "dollies": "dolly",
    "pushes": "push",
    "pitches": "pitch",
    "goes": "go",
    "flies": "fly",
    "ped": "pedestal",
    "hand_held": "handheld",
    "handheld_camera": "handheld",
    "dolly_zooms": "dolly_zoom",
    "dolly_zooming": "dolly_zoom",
    **_GERUNDS,
}


def nearest(word: str, known: Iterable[str]) -> str:
    """The part of an error that names the known word most like this one; empty where none is near."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; the nearest word is {found[0].replace('_', ' ')!r}" if found else ""
