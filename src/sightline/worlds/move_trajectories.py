"""Camera trajectories by the move language: a random line of it, performed in a scene and kept clear of solids.

The trajectory is made by `sightline.cameras.moves`, so that a move means the same in training and in use.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.cameras import moves, se3
from sightline.errors import SightlineError
from sightline.worlds.move_draws import draw_line
from sightline.worlds.scene import Notes, Scene, clip_key
from sightline.worlds.trajectories import OUTDOOR_PLACES, is_clear

# How far the camera goes at each attempt, as a fraction of the amounts drawn. The last attempt starts on the spot that every
# builder keeps free, and stays there but for some centimetres.
TRAVELS = (1.0, 1.0, 0.75, 0.55, 0.4, 0.25, 0.12, 0.03)
# Metres above the ground where a camera starts. A picture does not show its scale: a model that has only seen level cameras from
# 1.2 m up takes what it sees from further down for more distant than it is (docs/records/lab-model-2.md).
HEIGHTS = (0.5, 1.8)
MIN_FRAMES = 5  # a line of four moves in turn has to have a step for each


@dataclass(frozen=True, eq=False)
class MoveTrajectories:
    """poses: [B, T, 4, 4] float64, metres. zoom: [B, T] focal lengths relative to the first frame. lines: what was performed."""

    poses: Tensor
    zoom: Tensor
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Start:
    """The first camera of a move: position, viewing direction (radians), and metres to the subject along it."""

    x: float
    z: float
    height: float
    heading: float
    pitch: float
    depth: float

    def pose(self) -> Tensor:  # -> [4, 4]
        rotation = se3.axis_rotation("y", torch.tensor(self.heading, dtype=torch.float64)) @ se3.axis_rotation(
            "x", torch.tensor(self.pitch, dtype=torch.float64)
        )
        return se3.from_parts(rotation, torch.tensor([self.x, -self.height, self.z], dtype=torch.float64))


def is_move(style: str, seed: int, path: int, fraction: float) -> bool:
    """Whether this camera path follows a line of the move language. fraction: of the paths that do."""
    return random.Random(f"by moves {clip_key(style, seed, path)}").random() < fraction


def sample_move_trajectories(
    scenes: Scene, style: str, paths: Sequence[int], frames: int, fps: float
) -> MoveTrajectories:
    """One line of the move language per scene, starting at its standpoint towards its focus.

    Each line is tried from several starts, and travels less far at each attempt until it keeps clear of all solids.
    Turns, zooms and the shape of a path are never changed by that.
    """
    if frames < MIN_FRAMES:
        raise SightlineError(
            f"frames is {frames}: expected at least {MIN_FRAMES} for trajectories of the move language."
        )
    clips = list(zip(scenes.notes, paths, strict=True))
    poses = torch.empty(len(clips), frames, 4, 4, dtype=torch.float64)
    zoom = torch.empty(len(clips), frames, dtype=torch.float64)
    lines = [""] * len(clips)
    waiting = torch.arange(len(clips))
    for attempt, travel in enumerate(TRAVELS):
        for clip in waiting.tolist():
            notes, path = clips[clip]
            start = _draw_start(style, notes, path, attempt)
            line, easing = draw_line(clip_key(style, notes.seed, path), start.depth, travel)
            trajectory = moves.parse(line, frames=frames, easing=easing, fps=fps)
            focal = trajectory.intrinsics[:, 0, 0]
            poses[clip], zoom[clip] = start.pose() @ trajectory.camera_to_world, focal / focal[0]
            lines[clip] = line
        if attempt == len(TRAVELS) - 1:
            break
        waiting = waiting[~is_clear(scenes.select(waiting), style, poses[waiting], fps, views=1)]
        if len(waiting) == 0:
            break
    return MoveTrajectories(poses, zoom, tuple(lines))


def _draw_start(style: str, notes: Notes, path: int, attempt: int) -> _Start:
    """Where the camera starts at an attempt: on a ring around the focus of an orbit scene, else near the standpoint."""
    pick = random.Random(f"start {attempt} {clip_key(style, notes.seed, path)}")
    x, z = notes.standpoint
    height = pick.uniform(*HEIGHTS)
    if attempt == len(TRAVELS) - 1:
        height = 1.5
    elif style == "orbit":
        around = pick.uniform(-math.pi, math.pi)
        away = pick.uniform(1.4, 3.0) if notes.place in OUTDOOR_PLACES else pick.uniform(0.8, 1.5)
        radius = notes.focus_radius + away
        x, z = notes.focus[0] - radius * math.sin(around), notes.focus[2] - radius * math.cos(around)
    else:
        x, z = x + pick.uniform(-0.3, 0.3), z + pick.uniform(-0.4, 0.3)
    distance = math.hypot(notes.focus[0] - x, notes.focus[2] - z)
    heading = math.atan2(notes.focus[0] - x, notes.focus[2] - z)
    # People photograph level as well as looking at the subject: the pitch is anywhere between the two.
    pitch = -pick.uniform(0.0, 1.0) * math.atan2(height + notes.focus[1], distance)
    depth = distance / math.cos(pitch)
    if (
        style != "orbit" and pick.random() < 0.5
    ):  # the focus of a room is its far wall: also turn around something nearer
        depth = min(depth, pick.uniform(1.2, 3.0))
        heading += pick.gauss(0.0, 0.25)
    return _Start(x, z, height, heading, pitch, depth)
