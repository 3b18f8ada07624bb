"""Captions that name the place, its ground, and the things in front of the first camera."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from sightline.cameras import lens
from sightline.worlds.scene import Notes, Scene, Thing, clip_key

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
    lens_shape = torch.tensor([xi], dtype=torch.float64)
    return captions(scene, first_pose[None], intrinsics[None], lens_shape, width, height, [0], second)[0]


def captions(
    scenes: Scene,
    poses: Tensor,  # [B, 4, 4] camera to world
    intrinsics: Tensor,  # [B, 3, 3]
    xi: Tensor,  # [B]
    width: int,
    height: int,
    paths: Sequence[int],
    second: float = 0.0,
) -> tuple[str, ...]:
    """The captions of several scenes as these cameras see them. No caption depends on the others.

    paths: number of each camera path in its scene, which decides how the sentence is built. A caption names what is
    there and never on which side, so it is also right for the mirror image.
    """
    inside, low, high = _extents(scenes, poses, intrinsics, xi, width, height, second)
    extents = zip(inside.tolist(), low.tolist(), high.tolist(), strict=True)
    return tuple(
        _sentence(notes, _in_front(notes, *extent, width * height), path)
        for notes, path, extent in zip(scenes.notes, paths, extents, strict=True)
    )


def _sentence(notes: Notes, things: Sequence[Thing], path: int) -> str:
    pick = random.Random(f"caption {clip_key(notes.style, notes.seed, path)}")
    names: list[str] = []
    for thing in things:
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


def _extents(
    scenes: Scene, poses: Tensor, intrinsics: Tensor, xi: Tensor, width: int, height: int, second: float
) -> tuple[Tensor, Tensor, Tensor]:  # -> [B, N], [B, N, 2], [B, N, 2]
    """Of every solid: how many of its points are inside the frame, and the low and high corner of those ahead of the camera,
    in pixels cut to the frame. Without a point ahead, low is above high."""
    seconds = torch.full((len(scenes), 1), second, device=scenes.device)
    solids = scenes.solids_at(seconds)[:, 0].cpu().double()  # [B, N, 8]
    poses, intrinsics = poses.cpu().double(), intrinsics.cpu().double()
    cos, sin = solids[:, :, None, 6], solids[:, :, None, 7]
    local = _LATTICE * solids[:, :, None, 3:6]  # [B, N, 27, 3]
    turned = torch.stack(
        [cos * local[..., 0] + sin * local[..., 2], local[..., 1], cos * local[..., 2] - sin * local[..., 0]], -1
    )
    points = (solids[:, :, None, :3] + turned - poses[:, None, None, :3, 3]) @ poses[:, None, :3, :3]  # in camera axes
    # Some solids are far below the world or behind the camera: only points in front of it are projected.
    ahead = (points[..., 2] > 0.05) & (points.norm(dim=-1) < _REACH)
    front = torch.where(ahead[..., None], points, torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))
    pixels = lens.project(intrinsics[:, None, None], front, xi.cpu().double()[:, None, None])
    size = torch.tensor([width, height], dtype=torch.float64)
    inside = ahead & ((pixels >= 0) & (pixels <= size)).all(-1)  # [B, N, 27]
    shown = pixels.clamp_min(0).minimum(size)
    low = torch.where(ahead[..., None], shown, torch.inf).amin(2)
    high = torch.where(ahead[..., None], shown, -torch.inf).amax(2)
    return inside.sum(-1), low, high


def _in_front(
    notes: Notes, inside: list[int], low: list[list[float]], high: list[list[float]], area: int
) -> list[Thing]:
    """Things in the first frame, the largest in the frame first; things without a colour (doors, windows) come last."""
    seen = []
    for thing in notes.things:
        count = sum(inside[slot] for slot in thing.slots)
        if not count:
            continue
        wide, tall = (
            max(high[slot][axis] for slot in thing.slots) - min(low[slot][axis] for slot in thing.slots)
            for axis in (0, 1)
        )
        fraction = wide * tall / area
        # A thing that is mostly outside the frame is only mentioned where it is large, such as a house at the side.
        mostly_inside = count / (len(_LATTICE) * len(thing.slots)) > _MIN_INSIDE
        if fraction >= (_MIN_FRACTION if mostly_inside else _LARGE_FRACTION):
            seen.append((thing.colour == "", -fraction, thing))
    return [thing for _, _, thing in sorted(seen, key=lambda entry: entry[:2])]


def _adjective(thing: Thing) -> str:
    woods = {"oak", "birch", "walnut"}
    return f"{thing.colour} wood" if thing.colour in woods else thing.colour


def _with_article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
