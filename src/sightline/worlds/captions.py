"""Captions that name what is there: the place, its floor, and the things in front of the first camera."""

from __future__ import annotations

import random

from torch import Tensor

from sightline.worlds.scene import Notes, Thing

_MOST_THINGS = 3
_REACH = 16.0  # metres; what is further is not worth a word
_TEMPLATES = (
    "{place} with {things} and {floor}",
    "{place} with {floor}, {things}",
    "{things} in {place} with {floor}",
    "a view of {place}: {things}, {floor}",
)


def caption(notes: Notes, first_pose: Tensor, half_width: float) -> str:
    """One sentence. first_pose: [4, 4] camera to world. half_width: tangent of half the horizontal field of view."""
    pick = random.Random(f"caption {notes.style} {notes.seed}")
    seen = _in_front(notes.things, first_pose.tolist(), half_width)
    names: list[str] = []
    for thing in seen:
        words = " ".join(part for part in ("moving" if thing.moving else "", _adjective(thing), thing.name) if part)
        if all(thing.name not in name for name in names):
            names.append(_with_article(words))
    names = names[:_MOST_THINGS]
    place, floor = _with_article(notes.place), _with_article(notes.floor)
    if not names:
        return f"{place} with {floor}"
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    template = pick.choice(_TEMPLATES)
    if template is _TEMPLATES[0] and len(names) > 1:
        listed = ", ".join(names)
    return template.format(place=place, things=listed, floor=floor)


def _in_front(things: tuple[Thing, ...], pose: list[list[float]], half_width: float) -> list[Thing]:
    """Things in the field of view, nearest first; a door or window only after what has a colour."""
    seen = []
    for thing in things:
        offset = [thing.centre[i] - pose[i][3] for i in range(3)]
        right, _, ahead = (sum(pose[row][axis] * offset[row] for row in range(3)) for axis in range(3))
        if 0.3 < ahead < _REACH and abs(right) < half_width * ahead:
            seen.append((thing.colour == "", ahead, thing))
    return [thing for _, _, thing in sorted(seen, key=lambda one: one[:2])]


def _adjective(thing: Thing) -> str:
    woods = {"oak", "birch", "walnut"}
    return f"{thing.colour} wood" if thing.colour in woods else thing.colour


def _with_article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
