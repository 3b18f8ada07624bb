"""Four styles of clip that stand in for the four training datasets, each with its places, motion, lens and pose units.

walkthrough  RealEstate10K  rooms            smooth forward motion            an arbitrary scale per clip
orbit        DL3DV          rooms, outdoors  wide arcs around something       an arbitrary scale per clip
panorama     PanShot        rooms, outdoors  turning, any lens, tilted        metres, near depth known
openworld    OmniWorld      outdoors         gliding, things move             metres / 20
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from sightline.cameras import lens
from sightline.cameras.trajectory import Trajectory
from sightline.checks import whole_number
from sightline.errors import SightlineError
from sightline.worlds.builder import Builder
from sightline.worlds.captions import captions
from sightline.worlds.move_trajectories import is_move, sample_move_trajectories
from sightline.worlds.outdoor import build_outdoor
from sightline.worlds.render import render_batch, render_depth, render_frames
from sightline.worlds.rooms import build_room
from sightline.worlds.scene import Scene, clip_key, stack
from sightline.worlds.trajectories import sample_trajectories
from sightline.worlds.views import DEFAULT_FPS

STYLES = ("walkthrough", "orbit", "panorama", "openworld")
OPENWORLD_SCALE = 1 / 20
SFM_SCALES = (0.5, 2.0)  # structure from motion has no scale: log-uniform between these
NEAR_QUANTILE = 0.05  # near depth: this quantile of the depths of the first frame
_NEAR_GRID = 16


@dataclass(frozen=True, eq=False)
class WorldBatch:
    """B clips ready to be rendered: scenes, true cameras in metres, and what a dataset of the style would report.

    camera_to_world: [B, T, 4, 4] float64. intrinsics: [B, T, 3, 3] float64. xi: [B]. scale: [B], reported positions
    over true ones. near_depth: [B] in reported units, or None for a style that does not know it.
    paths: the number of each camera path in its scene. moves: the line of the move language that each camera follows,
    empty for the style's own motion.
    """

    style: str
    scenes: Scene
    camera_to_world: Tensor
    intrinsics: Tensor
    xi: Tensor
    scale: Tensor
    near_depth: Tensor | None
    width: int
    height: int
    paths: tuple[int, ...]
    moves: tuple[str, ...]
    fps: float = DEFAULT_FPS

    def __len__(self) -> int:
        return len(self.scenes)

    @cached_property
    def captions(self) -> tuple[str, ...]:
        return self.captions_at(0)

    def captions_at(self, frame: int) -> tuple[str, ...]:
        """Captions as if the clips began at this frame, at the time of the first one."""
        poses, lenses = self.camera_to_world[:, frame], self.intrinsics[:, frame]
        return captions(self.scenes, poses, lenses, self.xi, self.width, self.height, self.paths)

    def near_depth_at(self, frame: int) -> Tensor | None:  # -> [B]
        """The near depth of this frame in reported units; None for a style that does not know it."""
        if self.style != "panorama":
            return None
        shrink = torch.tensor([_NEAR_GRID / self.width, _NEAR_GRID / self.height, 1.0], dtype=torch.float64)
        poses, lenses = self.camera_to_world[:, frame, None], self.intrinsics[:, frame, None] * shrink[:, None]
        depth = render_depth(self.scenes, poses, lenses, self.xi, _NEAR_GRID, _NEAR_GRID)
        return depth.flatten(1).quantile(NEAR_QUANTILE, dim=1) * self.scale

    @property
    def seconds(self) -> Tensor:  # [B, T]
        return (torch.arange(self.camera_to_world.shape[1]) / self.fps).expand(len(self), -1)

    def true_trajectory(self, clip: int = 0) -> Trajectory:
        """Where the camera was, in metres of its scene."""
        return Trajectory(
            self.camera_to_world[clip],
            self.intrinsics[clip],
            self.width,
            self.height,
            xi=float(self.xi[clip]),
            fps=self.fps,
            unit="metre",
        )

    def reported_trajectory(self, clip: int = 0) -> Trajectory:
        """What a dataset of this style would report: another scale, and the near depth where the style knows it."""
        near = None if self.near_depth is None else float(self.near_depth[clip])
        unit = "metre" if self.style == "panorama" else "scene"
        return self.true_trajectory(clip).scaled(float(self.scale[clip])).replace(near_depth=near, unit=unit)

    def render(self, device: torch.device | str | None = None, **options: Any) -> tuple[Tensor, Tensor]:
        """Frames [B, T, H, W, 3] uint8 and z-depth [B, T, H, W] in metres; see `render_batch` for the options."""
        return render_batch(*self._view(device), seconds=self.seconds, **options)

    def render_frames(self, device: torch.device | str | None = None, **options: Any) -> Tensor:
        return render_frames(*self._view(device), seconds=self.seconds, **options)

    def _view(self, device: torch.device | str | None) -> tuple[Scene, Tensor, Tensor, Tensor, int, int]:
        scenes = self.scenes if device is None else self.scenes.to(device)
        return scenes, self.camera_to_world, self.intrinsics, self.xi, self.width, self.height


@dataclass(frozen=True, eq=False)
class SceneShot:
    """A scene and a camera trajectory through it, not yet rendered.

    true_trajectory: where the camera was, in metres. reported_trajectory: what a dataset of the style would say.
    """

    scene: Scene
    true_trajectory: Trajectory
    reported_trajectory: Trajectory
    caption: str


def make_scene(seed: int, style: str) -> Scene:
    """The scene of a seed in a style: the same on any device and machine."""
    check_style(style)
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or seed.__index__() < 0:
        raise SightlineError(f"seed is {seed!r}: expected a whole number of at least 0.")
    build = Builder(style, seed.__index__())
    outdoors = style == "openworld" or (style in ("orbit", "panorama") and build.random.random() < 0.5)
    if outdoors:
        return build_outdoor(build, moving=style == "openworld", street=False if style == "orbit" else None)
    return build_room(build, centrepiece=style == "orbit")


def make_scenes(seeds: Sequence[int], style: str) -> Scene:
    """The scenes of several seeds as one batch."""
    return stack([make_scene(seed, style) for seed in seeds])


def sample_clip(style: str, seed: int, frames: int = 33, width: int = 128, height: int = 128) -> SceneShot:
    """The scene and camera of a seed, not yet rendered; see `render_clip`."""
    batch = sample_batch(style, [seed], frames, width, height)
    return SceneShot(batch.scenes, batch.true_trajectory(), batch.reported_trajectory(), batch.captions[0])


def sample_batch(
    style: str,
    seeds: Sequence[int],
    frames: int = 33,
    width: int = 128,
    height: int = 128,
    returning: float = 0.0,
    *,
    paths: Sequence[int] | None = None,
    moves: float = 0.0,
) -> WorldBatch:
    """Scenes and camera trajectories of several seeds. A clip does not depend on the others in its batch.

    returning: the fraction of clips, chosen by seed, whose camera returns to where it started.
    paths: the number of each camera path in its scene, by default 0; a scene that is given several times is built once.
    moves: the fraction of clips, chosen by seed and path, whose camera follows a random line of the move language
    instead of the style's own motion (see move_draws.py).
    """
    frames, width, height = whole_number("frames", frames), whole_number("width", width), whole_number("height", height)
    paths = (0,) * len(seeds) if paths is None else tuple(paths)
    unique = list(dict.fromkeys(seeds))
    place = {seed: number for number, seed in enumerate(unique)}
    scenes = make_scenes(unique, style)
    if len(unique) < len(seeds):
        scenes = scenes.select(torch.tensor([place[seed] for seed in seeds]))
    poses, zoom, lines = _trajectories(scenes, style, paths, frames, returning, moves)
    optics = torch.tensor([_lens(style, notes.seed, path) for notes, path in zip(scenes.notes, paths, strict=True)],
                          dtype=torch.float64)  # [B, 3]  # fmt: skip
    angle, xi, scale = optics.unbind(1)
    # The unified model images a ray at angle a from the axis at f sin(a) / (cos(a) + xi).
    focal = ((width / 2) * (angle.cos() + xi) / angle.sin())[:, None] * zoom  # [B, T]
    ones = torch.ones_like(focal)
    intrinsics = lens.intrinsics_matrix(focal, focal, ones * (width / 2), ones * (height / 2))
    batch = WorldBatch(style, scenes, poses, intrinsics, xi, scale, None, width, height, paths, lines)
    return replace(batch, near_depth=batch.near_depth_at(0))


def _trajectories(
    scenes: Scene, style: str, paths: tuple[int, ...], frames: int, returning: float, moves: float
) -> tuple[Tensor, Tensor, tuple[str, ...]]:  # -> [B, T, 4, 4], [B, T], B lines
    """Poses, focal lengths relative to the first frame, and lines of the move language."""
    clips = list(zip(scenes.notes, paths, strict=True))
    by_moves = torch.tensor([is_move(style, notes.seed, path, moves) for notes, path in clips])  # [B]
    poses = torch.empty(len(clips), frames, 4, 4, dtype=torch.float64)
    zoom = torch.ones(len(clips), frames, dtype=torch.float64)
    lines = [""] * len(clips)
    own, drawn = (~by_moves).nonzero()[:, 0], by_moves.nonzero()[:, 0]
    if len(own):
        numbers = [paths[clip] for clip in own.tolist()]
        poses[own] = sample_trajectories(scenes.select(own), style, frames, DEFAULT_FPS, returning, numbers)
    if len(drawn):
        numbers = [paths[clip] for clip in drawn.tolist()]
        made = sample_move_trajectories(scenes.select(drawn), style, numbers, frames, DEFAULT_FPS)
        poses[drawn], zoom[drawn] = made.poses, made.zoom
        for clip, line in zip(drawn.tolist(), made.lines, strict=True):
            lines[clip] = line
    return poses, zoom, tuple(lines)


def _lens(style: str, seed: int, path: int) -> tuple[float, float, float]:
    """Half the horizontal field of view in radians, xi, and the scale of the reported positions."""
    pick = random.Random(f"lens {clip_key(style, seed, path)}")
    if style == "panorama":
        xi = 0.0 if pick.random() < 0.4 else pick.uniform(0.1, 0.9)
        return math.radians(pick.uniform(55.0, 105.0)) / 2, xi, 1.0
    half = math.radians(pick.uniform(58.0, 78.0)) / 2
    if style == "openworld":
        return half, 0.0, OPENWORLD_SCALE
    low, high = (math.log(scale) for scale in SFM_SCALES)
    return half, 0.0, math.exp(pick.uniform(low, high))


def check_style(style: str) -> None:
    """Raise unless this is one of STYLES."""
    if style not in STYLES:
        raise SightlineError(f"style is {style!r}: expected one of {', '.join(STYLES)}.")
