"""Previews of data: a contact sheet of some clips, and videos of them with the camera's trajectory or a map beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.cameras import lens
from sightline.checks import whole_number
from sightline.data.clip import Clip
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.sources import Source
from sightline.errors import SightlineError
from sightline.figures.contact_sheet import contact_sheet
from sightline.figures.panels import trajectory_panel, world_map_panel
from sightline.files import atomic_write
from sightline.video import save_video
from sightline.worlds.render import DEFAULT_SAMPLES
from sightline.worlds.styles import WorldBatch, sample_batch


def write_clip_preview(
    source: Source, spec: ClipSpec, clips: int, folder: str | Path, strict: bool = False
) -> list[Path]:
    """Write NAME.png, the contact sheet of the first clips of a source, and NAME-0.mp4, ...; returns what was written."""
    folder = Path(folder)
    read = Clips([source], spec, strict=strict)
    listed = len(read.skips)
    shown = list(islice(read, whole_number("clips", clips)))
    if len(read.skips) > listed:
        read.skips.log_count()
    if not shown:
        raise SightlineError(f"{source.name}: found no clip that can be read, expected at least one to show.")
    sheet = folder / f"{source.name}.png"
    captions = [f"{clip.source}/{clip.name}   {clip.caption}" for clip in shown]
    _write_sheet(sheet, [clip.frames for clip in shown], captions)
    written = [sheet]
    for index, clip in enumerate(shown):
        written.append(folder / f"{source.name}-{index}.mp4")
        save_video(beside_trajectory(clip), written[-1], fps=clip.trajectory.fps)
    return written


def beside_trajectory(clip: Clip) -> np.ndarray:  # -> [T, H, W + H, 3] uint8
    """The frames, and to their right the trajectory from above with the camera of the frame on it."""
    height = clip.frames.shape[1]
    panels = [trajectory_panel(clip.trajectory, frame, height) for frame in range(len(clip.frames))]
    return np.concatenate([clip.frames, np.stack(panels)], axis=2)


def write_world_preview(
    style: str, seed: int = 0, output: str | Path = ".", clips: int = 6, frames: int = 33, size: tuple[int, int] = (128, 128),
    *, samples: int = DEFAULT_SAMPLES, device: torch.device | str | None = None,
) -> tuple[Path, Path]:  # fmt: skip
    """Render the clips of seeds seed, seed + 1, ...; write STYLE.png and STYLE.mp4 into output and return their paths.

    The sheet has a row per clip, its frames over time and its caption. The video shows one clip after the other with a
    map beside it: walls and solids from above, the trajectory, and the field of view. size: (width, height).
    """
    clips = whole_number("clips", clips)
    if len(size) != 2:
        raise SightlineError(f"size is {size!r}: expected (width, height).")
    batch = sample_batch(style, range(seed, seed + clips), frames, *size)
    video = batch.render_frames(device, samples=samples).cpu()  # [B, T, H, W, 3]
    sheet, video_file = Path(output) / f"{style}.png", Path(output) / f"{style}.mp4"
    _write_sheet(sheet, list(video), batch.captions)
    save_video(np.concatenate([_beside_map(batch, video, clip) for clip in range(clips)]), video_file, fps=batch.fps)
    return sheet, video_file


def _beside_map(batch: WorldBatch, video: Tensor, clip: int) -> np.ndarray:  # -> [T, H, 2 W', 3] uint8
    """The clip, enlarged to at least 256 rows, and the map at each frame on its right."""
    times = max(1, math.ceil(256 / video.shape[2]))
    frames = video[clip].repeat_interleave(times, 1).repeat_interleave(times, 2).numpy()
    side = frames.shape[1]
    poses = batch.camera_to_world[clip]  # [T, 4, 4]
    solids = batch.scenes[clip].solids_at(batch.seconds[clip : clip + 1])[0]  # [T, N, 8]
    edge = torch.tensor([batch.width, batch.height / 2], dtype=torch.float64)
    ray = lens.pixel_rays(batch.intrinsics[clip, 0], edge, float(batch.xi[clip]))
    half_angle = math.atan2(float(ray[0]), float(ray[2]))
    maps = [
        world_map_panel(batch.scenes[clip], solids[frame], poses, frame, side, half_angle)
        for frame in range(len(frames))
    ]
    return np.concatenate([frames, np.stack(maps)], axis=2)


def _write_sheet(path: Path, videos: Sequence[Any], captions: Sequence[str]) -> None:
    with atomic_write(path) as temporary:
        contact_sheet(videos, captions).save(temporary)
