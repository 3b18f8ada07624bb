"""Camera trajectories that keep clear of solids: several candidates for each scene, vectorised over scenes.

The numbers of a trajectory depend on the scene's style and seed alone, so a clip is the same in any batch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.worlds.scene import Notes, Scene, clip_key, distance_to_solids

CANDIDATES = 6  # the last one pans at the spot that every builder keeps free
VIEW = 1.7  # metres of free sight ahead of the camera
CLEARANCE = 0.3  # metres between the camera and any solid or wall, at every frame and between frames


@dataclass
class Candidate:
    """Parameters of one trajectory; angles in radians, heights upwards. An orbit has a radius above 0 and looks at the focus."""

    x: float
    z: float
    height: float
    rise: float = 0.0
    heading: float = 0.0  # initial viewing direction; 0 is +z, positive to the right
    turn: float = 0.0
    course: float = 0.0  # direction of travel relative to the heading
    length: float = 0.0
    pitch: float = 0.0
    nod: float = 0.0  # change of pitch
    roll: float = 0.0
    radius: float = 0.0
    sweep: float = 0.0

    def row(self) -> list[float]:
        return list(vars(self).values())


def draw_candidates(style: str, notes: Notes, path: int = 0) -> list[Candidate]:
    """The candidates of one clip in order of preference, each shorter than the one before. path: number in the scene."""
    pick = random.Random(f"path {clip_key(style, notes.seed, path)}")
    outdoor = notes.place in OUTDOOR_PLACES
    x, z = notes.standpoint
    ahead = math.atan2(notes.focus[0] - x, notes.focus[2] - z)
    candidates = []
    for number in range(CANDIDATES - 1):
        shrink = 1 - number / CANDIDATES
        sign = pick.choice((-1.0, 1.0))
        if style == "walkthrough":
            candidate = Candidate(
                x + pick.uniform(-0.3, 0.3),
                z + pick.uniform(-0.4, 0.3),
                pick.uniform(1.25, 1.6),
                heading=ahead + pick.gauss(0, 0.25) * shrink,
                turn=sign * pick.uniform(0.0, 0.7),
                length=pick.uniform(1.2, 3.0) * shrink,
                pitch=pick.gauss(-0.06, 0.06),
                nod=pick.gauss(0, 0.04),
            )
        elif style == "orbit":
            away = pick.uniform(1.6, 3.4) if outdoor else pick.uniform(0.8, 1.5)
            low, high = (0.9, 2.6) if outdoor else (0.9, 1.8)
            candidate = Candidate(
                x,
                z,
                pick.uniform(low, high),
                rise=pick.uniform(-0.4, 0.4),
                heading=pick.uniform(-math.pi, math.pi),
                radius=notes.focus_radius + away * (0.6 + 0.4 * shrink),
                sweep=sign * pick.uniform(0.8, 2.2) * shrink,
            )
        elif style == "panorama":
            candidate = Candidate(
                x + pick.uniform(-0.3, 0.3),
                z + pick.uniform(-0.3, 0.3),
                pick.uniform(1.1, 1.8),
                heading=ahead + pick.gauss(0, 0.8),
                turn=sign * pick.uniform(0.3, 1.9),
                course=pick.uniform(-math.pi, math.pi),
                length=pick.uniform(0.5, 1.8) * shrink,
                pitch=pick.gauss(-0.05, 0.2),
                nod=pick.gauss(0, 0.12),
                roll=pick.gauss(0, 0.12),
            )
        else:
            candidate = Candidate(
                x + pick.uniform(-0.6, 0.6),
                z + pick.uniform(-1.0, 0.5),
                pick.uniform(1.4, 2.4),
                rise=pick.uniform(-0.3, 0.6) * shrink,
                heading=ahead * 0.3 + pick.gauss(0, 0.25),
                turn=sign * pick.uniform(0.0, 0.6),
                course=pick.choice((0.0, 0.0, 0.7, -0.7, 1.5)),
                length=pick.uniform(0.8, 2.2) * shrink,
                pitch=pick.gauss(0.0, 0.07),
                nod=pick.gauss(0, 0.04),
            )
        candidates.append(candidate)
    candidates.append(Candidate(x, z, 1.5, heading=ahead, turn=0.5))
    return candidates


OUTDOOR_PLACES = frozenset({"street", "park", "garden", "square", "courtyard", "beach"})


def sample_trajectories(
    scenes: Scene, style: str, frames: int, fps: float, returning: float = 0.0, paths: Sequence[int] | None = None
) -> Tensor:  # -> [B, T, 4, 4] float64, metres
    """One trajectory per scene: the first of its candidates that keeps CLEARANCE everywhere.

    returning: the fraction of scenes whose camera moves at twice the speed and returns to where it started.
    paths: the number of each trajectory in its scene, 0 for the first.
    """
    paths = [0] * len(scenes) if paths is None else paths
    clips = list(zip(scenes.notes, paths, strict=True))
    there_and_back = frames - 1 - (2 * torch.arange(frames) - (frames - 1)).abs()  # [T] 0, 2, ..., T - 1, ..., 2, 0
    returns = torch.tensor([_returns(clip_key(style, notes.seed, path), returning) for notes, path in clips])  # [B]
    rows = [[candidate.row() for candidate in draw_candidates(style, notes, path)] for notes, path in clips]
    numbers = torch.tensor(rows, dtype=torch.float64)  # [B, CANDIDATES, 13]
    focus = torch.tensor([notes.focus for notes in scenes.notes], dtype=torch.float64)  # [B, 3]
    poses = torch.empty(len(scenes), frames, 4, 4, dtype=torch.float64)
    waiting = torch.arange(len(scenes))
    for number in range(CANDIDATES):
        position, rotation = _follow(numbers[waiting, number], focus[waiting], frames)  # [W, T, 3], [W, T, 3, 3]
        back = returns[waiting]
        position[back], rotation[back] = position[back][:, there_and_back], rotation[back][:, there_and_back]
        poses[waiting] = se3.from_parts(rotation, position)
        if number == CANDIDATES - 1:
            break
        waiting = waiting[~is_clear(scenes.select(waiting), style, poses[waiting], fps)]
        if len(waiting) == 0:
            break
    return poses


def is_clear(scenes: Scene, style: str, poses: Tensor, fps: float, views: int | None = None) -> Tensor:  # -> [B] bool
    """Whether trajectories [B, T, 4, 4] keep CLEARANCE, and see at least VIEW metres ahead in their first `views` frames.

    views: by default all frames. An orbit looks at something near, so its view is not checked.
    """
    position, rotation = poses[..., :3, 3], poses[..., :3, :3]
    when = (torch.arange(poses.shape[1], dtype=torch.float32) / fps).expand(len(poses), -1)
    clear = distance_to_solids(scenes, position.float(), when).amin(-1)
    ahead = (position + VIEW * rotation[..., 2]).float()[:, :views]
    blocked = distance_to_solids(scenes, ahead, when[:, :views]).amin(-1) <= 0
    # The distance to a solid changes at most as fast as the camera moves: half a step covers what lies between.
    step = position.diff(dim=1).norm(dim=-1).amax(-1) if poses.shape[1] > 1 else torch.zeros(len(poses))
    needed = CLEARANCE + 0.05 + 0.5 * step + (0.2 if style == "openworld" else 0.0)
    return (clear > needed) & ~(blocked & (style != "orbit"))


def _returns(key: str, fraction: float) -> bool:
    return random.Random(f"returning {key}").random() < fraction


def _follow(numbers: Tensor, focus: Tensor, frames: int) -> tuple[Tensor, Tensor]:
    x, z, height, rise, heading, turn, course, length, pitch, nod, roll, radius, sweep = numbers[..., None].unbind(-2)
    at = torch.arange(frames, dtype=torch.float64) / max(frames - 1, 1)  # [T]
    yaw, tilt, up = heading + turn * at, pitch + nod * at, height + rise * at  # [W, T]
    # Travel along the course: the middle of each step decides its direction.
    middle = heading + course + turn * (at - 0.5 / max(frames - 1, 1))
    step = torch.where(at > 0, length / max(frames - 1, 1), 0.0)
    walk = torch.stack([x + (step * middle.sin()).cumsum(-1), -up, z + (step * middle.cos()).cumsum(-1)], -1)

    around = heading + sweep * at
    circle = torch.stack([focus[..., :1] - radius * around.sin(), -up, focus[..., 2:] - radius * around.cos()], -1)
    down = torch.atan2(circle[..., 1] - focus[..., 1:2], radius.expand_as(around))
    orbit = radius > 0
    position = torch.where(orbit[..., None], circle, walk)
    rotation = (
        se3.axis_rotation("y", torch.where(orbit, around, yaw))
        @ se3.axis_rotation("x", torch.where(orbit, down, tilt))
        @ se3.axis_rotation("z", roll.expand_as(yaw))
    )
    return position, rotation
