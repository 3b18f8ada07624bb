"""Previews of data: a contact sheet of some clips, and videos with the trajectory or a map beside the frames."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from sightline.cameras import lens
from sightline.checks import whole_number
from sightline.data.clip import Clip
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.sources import Source, Worlds
from sightline.errors import SightlineError
from sightline.figures.contact_sheet import contact_sheet
from sightline.figures.panels import trajectory_panel, world_map_panel
from sightline.files import atomic_write
from sightline.video import save_video
from sightline.worlds import WorldBatch
from sightline.worlds.styles import check_style

_MIN_MAP_SIDE = 256  # pixels; smaller frames are enlarged beside a map


def write_preview(
    source: Source, spec: ClipSpec, clips: int, output: str | Path, *, strict: bool = False, with_map: bool = False
) -> list[Path]:
    """Write a contact sheet and videos of the first clips of a source to a folder; returns the files.

    The sheet is NAME.png. NAME-0.mp4, NAME-1.mp4, ... show each clip beside its trajectory. with_map: only for sources
    that render their shots; one video NAME.mp4 shows all clips beside a map of their scenes.
    """
    dataset = Clips([source], spec, strict=strict)
    skipped = len(dataset.skips)
    shown = list(islice(dataset.readable(), whole_number("clips", clips)))
    if len(dataset.skips) > skipped:
        dataset.skips.log_count()
    if not shown:
        raise SightlineError(f"{source.name}: found no clip that can be read, expected at least one to show.")
    sheet = Path(output) / f"{source.name}.png"
    captions = [
        clip.caption if with_map else "   ".join(filter(None, (f"{clip.source}/{clip.name}", move, clip.caption)))
        for (window, clip) in shown
        for move in [dataset.sources[0].move(window.shot)]
    ]
    with atomic_write(sheet) as temporary:
        contact_sheet([clip.frames for _, clip in shown], captions).save(temporary)
    if with_map:
        source = dataset.sources[0]
        videos = [beside_map(clip, source.sample_shots([window.shot]).takes) for window, clip in shown]
        videos, names = [np.concatenate(videos)], [f"{source.name}.mp4"]
    else:
        videos = [beside_trajectory(clip) for _, clip in shown]
        names = [f"{source.name}-{index}.mp4" for index in range(len(shown))]
    files = [sheet]
    for video, name, (_, clip) in zip(videos, names, shown, strict=False):
        files.append(Path(output) / name)
        save_video(video, files[-1], fps=clip.trajectory.fps)
    return files


def write_world_preview(
    style: str,
    seed: int = 0,
    output: str | Path = ".",
    clips: int = 6,
    num_frames: int = 33,
    size: tuple[int, int] = (128, 128),
) -> list[Path]:
    """Preview the worlds of seeds seed, seed + 1, ... with maps: writes STYLE.png and STYLE.mp4. size: (width, height)."""
    check_style(style)
    if len(size) != 2:
        raise SightlineError(f"size is {size!r}: expected (width, height).")
    spec = ClipSpec(num_frames, width=size[0], height=size[1])
    return write_preview(Worlds(style, clips=clips, seed=seed), spec, clips, output, with_map=True)


def beside_trajectory(clip: Clip) -> np.ndarray:  # -> [T, H, W + H, 3] uint8
    """The frames, and to their right the trajectory from above with the camera of the frame on it."""
    height = clip.frames.shape[1]
    panels = [trajectory_panel(clip.trajectory, frame, height) for frame in range(len(clip.frames))]
    return np.concatenate([clip.frames, np.stack(panels)], axis=2)


def beside_map(clip: Clip, world: WorldBatch) -> np.ndarray:  # -> [T, H', W' + H', 3] uint8
    """The frames, enlarged to at least 256 rows, and to their right the map of the scene at each frame.

    world: the one scene that the clip shows, and its true cameras.
    """
    factor = max(1, math.ceil(_MIN_MAP_SIDE / clip.frames.shape[1]))
    frames = clip.frames.repeat(factor, axis=1).repeat(factor, axis=2)
    solids = world.scenes.solids_at(world.seconds)[0]  # [T, N, 8]
    edge = torch.tensor([world.width, world.height / 2], dtype=torch.float64)
    ray = lens.pixel_rays(world.intrinsics[0, 0], edge, float(world.xi[0]))
    half_angle = math.atan2(float(ray[0]), float(ray[2]))
    maps = [
        world_map_panel(world.scenes, solids[frame], world.camera_to_world[0], frame, frames.shape[1], half_angle)
        for frame in range(len(frames))
    ]
    return np.concatenate([frames, np.stack(maps)], axis=2)
