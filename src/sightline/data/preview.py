"""Clips to look at: a contact sheet of several, and a video of each with its camera path beside it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from sightline.cameras.trajectory import Trajectory
from sightline.checks import whole_number
from sightline.data.clip import Clip
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.sources import Source
from sightline.errors import SightlineError
from sightline.files import atomic_write
from sightline.pictures import contact_sheet
from sightline.video import save_video

_PAPER, _INK, _QUIET, _DONE = (255, 255, 255), (34, 38, 43), (195, 200, 207), (200, 69, 44)
_OVERSAMPLING = 3  # lines are drawn this much larger and scaled down, which smooths them


def write_preview(source: Source, spec: ClipSpec, clips: int, folder: str | Path, strict: bool = False) -> list[Path]:
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
    with atomic_write(sheet) as temporary:
        captions = [f"{clip.source}/{clip.name}   {clip.caption}" for clip in shown]
        contact_sheet([clip.frames for clip in shown], captions).save(temporary)
    written = [sheet]
    for index, clip in enumerate(shown):
        written.append(folder / f"{source.name}-{index}.mp4")
        save_video(beside_path(clip), written[-1], fps=clip.trajectory.fps)
    return written


def beside_path(clip: Clip) -> np.ndarray:  # -> [T, H, W + H, 3] uint8
    """The frames, and to their right the path from above with the camera of the frame on it."""
    height = clip.frames.shape[1]
    panels = [path_panel(clip.trajectory, frame, height) for frame in range(len(clip.frames))]
    return np.concatenate([clip.frames, np.stack(panels)], axis=2)


def path_panel(trajectory: Trajectory, frame: int, side: int) -> np.ndarray:  # -> [side, side, 3] uint8
    """The path seen from above, first camera's forward upwards; what was travelled is coloured, the view a wedge."""
    path = trajectory.anchored()
    above = path.positions[:, (0, 2)].numpy() * (1, -1)  # [T, 2] right, and down the picture
    size = side * _OVERSAMPLING
    spread = max(float(np.ptp(above, axis=0).max()), 1e-9)
    middle = (above.max(0) + above.min(0)) / 2
    points = [tuple(point) for point in (above - middle) / spread * 0.62 * size + size / 2]
    panel = Image.new("RGB", (size, size), _PAPER)
    draw = ImageDraw.Draw(panel)
    stroke = max(size // 90, 1)
    draw.line(points, fill=_QUIET, width=stroke, joint="curve")
    draw.line(points[: frame + 1], fill=_DONE, width=stroke, joint="curve")
    # The left and right edge of the view, as directions on the floor plan.
    half = path.width / 2 / float(path.intrinsics[frame, 0, 0])
    edges = path.rotations[frame].numpy() @ np.array([[-half, half], [0.0, 0.0], [1.0, 1.0]])  # [3, 2]
    x, y = points[frame]
    tips = [(x + 0.13 * size * float(right), y - 0.13 * size * float(ahead)) for right, _, ahead in edges.T]
    draw.line([(x, y), tips[0], tips[1], (x, y)], fill=_INK, width=stroke, joint="curve")
    draw.ellipse([x - 2 * stroke, y - 2 * stroke, x + 2 * stroke, y + 2 * stroke], fill=_DONE)
    return np.asarray(panel.resize((side, side), Image.Resampling.LANCZOS))
