"""Captions that name the place, its ground, and the things in front of the first camera."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from sightline.cameras import lens
from sightline.worlds.scene import Scene, Thing

_MAX_THINGS = 3
_REACH = 16.0  # metres; things beyond this are not mentioned
_MIN_FRACTION = 0.003  # of the frame; smaller things are not mentioned
_MIN_INSIDE, _LARGE_FRACTION = 0.2, 0.05  # a thing of which less than this is inside must fill this much of the frame
# Corners, edges, faces and centre of a solid's box: enough points to locate it in the frame.
_LATTICE = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)] * 3)  # [27, 3]
_TEMPLATES = (
    "{place} with {things} and {ground}",
    "{place} with {ground}, {things}",
    "{things} in {place} with {ground}",
    "a view of {place}: {things}, {ground}",
)


def caption(
    scene: Scene, first_pose: Tensor, intrinsics: Tensor, xi: float, width: int, height: int, second: float = 0.0
) -> str:
    """The caption of one scene. first_pose: [4, 4] camera to world. intrinsics: [3, 3], second: of the first frame."""
    notes = scene.notes[0]
    pick = random.Random(f"caption {notes.style} {notes.seed}")
    names: list[str] = []
    for thing in _in_front(scene, first_pose, intrinsics, xi, width, height, second):
        words = " ".join(part for part in ("moving" if thing.moving else "", _adjective(thing), thing.name) if part)
        if _with_article(words) not in names:
            names.append(_with_article(words))
    names = names[:_MAX_THINGS]
    place, ground = _with_article(notes.place), _with_article(notes.ground)
    if not names:
        return f"{place} with {ground}"
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    template = pick.choice(_TEMPLATES)
    if template is _TEMPLATES[0] and len(names) > 1:
        listed = ", ".join(names)
    return template.format(place=place, things=listed, ground=ground)


def _in_front(
    scene: Scene, pose: Tensor, intrinsics: Tensor, xi: float, width: int, height: int, second: float
) -> list[Thing]:
    """Things in the first frame, the largest in the frame first; things without a colour (doors, windows) come last."""
    solids = scene.solids_at(torch.tensor([[second]], device=scene.device))[0, 0].cpu().double()  # [N, 8]
    pose, intrinsics = pose.cpu().double(), intrinsics.cpu().double()
    cos, sin = solids[:, None, 6], solids[:, None, 7]
    local = _LATTICE * solids[:, None, 3:6]  # [N, 27, 3]
    turned = torch.stack(
        [cos * local[..., 0] + sin * local[..., 2], local[..., 1], cos * local[..., 2] - sin * local[..., 0]], -1
    )
    points = (solids[:, None, :3] + turned - pose[:3, 3]) @ pose[:3, :3]  # in camera axes
    # Some solids are far below the world or behind the camera: only points in front of it are projected.
    ahead = (points[..., 2] > 0.05) & (points.norm(dim=-1) < _REACH)
    pixels = lens.project(intrinsics, torch.where(ahead[..., None], points, torch.tensor([0.0, 0.0, 1.0])), xi)
    size = torch.tensor([width, height], dtype=torch.float64)
    inside = ahead & ((pixels >= 0) & (pixels <= size)).all(-1)  # [N, 27]
    seen = []
    for thing in scene.notes[0].things:
        slots = list(thing.slots)
        if not inside[slots].any():
            continue
        shown = pixels[slots][ahead[slots]].clamp_min(0).minimum(size)  # [P, 2]
        fraction = float((shown.amax(0) - shown.amin(0)).prod() / size.prod())
        # A thing that is mostly outside the frame is only mentioned where it is large, such as a house at the side.
        if fraction >= (_MIN_FRACTION if inside[slots].double().mean() > _MIN_INSIDE else _LARGE_FRACTION):
            seen.append((thing.colour == "", -fraction, thing))
    return [thing for _, _, thing in sorted(seen, key=lambda entry: entry[:2])]


def _adjective(thing: Thing) -> str:
    woods = {"oak", "birch", "walnut"}
    return f"{thing.colour} wood" if thing.colour in woods else thing.colour


def _with_article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
