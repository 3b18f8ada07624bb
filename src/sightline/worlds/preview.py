"""Looking at worlds: a contact sheet of several clips, and a video with the camera's way drawn beside it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from sightline.cameras import lens
from sightline.checks import whole_number
from sightline.errors import SightlineError
from sightline.files import atomic_write
from sightline.pictures import contact_sheet
from sightline.video import save_video
from sightline.worlds.render import DEFAULT_SAMPLES
from sightline.worlds.scene import KINDS, Scene
from sightline.worlds.styles import WorldBatch, sample_batch

_ROOM, _AROUND, _LEAST_MAP = 50.0, 4.0, 4.0  # metres: a larger world is outdoors; sides of the way; side of the map
_PAPER, _INK, _QUIET, _WAY, _CAMERA = (250, 249, 246), (34, 38, 43), (203, 200, 192), (47, 93, 140), (200, 69, 44)


def write_preview(
    style: str, seed: int = 0, out_dir: str | Path = ".", clips: int = 6, frames: int = 33, size: tuple[int, int] = (128, 128),
    *, samples: int = DEFAULT_SAMPLES, device: torch.device | str | None = None,
) -> tuple[Path, Path]:  # fmt: skip
    """Render the clips of seeds seed, seed + 1, ...; write STYLE.png and STYLE.mp4 into out_dir and return their paths.

    The sheet has a row per clip, its frames over time and its caption. The video shows one clip after the other with a
    map beside it: walls and solids from above, the camera's way, and where it looks. size: (width, height).
    """
    clips = whole_number("clips", clips)
    if len(size) != 2:
        raise SightlineError(f"size is {size!r}: expected (width, height).")
    batch = sample_batch(style, range(seed, seed + clips), frames, *size)
    video = batch.render_frames(device, samples=samples).cpu()  # [B, T, H, W, 3]
    sheet, film = Path(out_dir) / f"{style}.png", Path(out_dir) / f"{style}.mp4"
    with atomic_write(sheet) as temporary:
        contact_sheet(list(video), batch.captions).save(temporary)
    save_video(np.concatenate([_beside_map(batch, video, clip) for clip in range(clips)]), film, fps=batch.fps)
    return sheet, film


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
    maps = [_map(batch.scenes[clip], solids[frame], poses, frame, side, half_angle) for frame in range(len(frames))]
    return np.concatenate([frames, np.stack(maps)], axis=2)


def _map_window(low: Tensor, high: Tensor, way: Tensor) -> tuple[Tensor, float]:  # [2], [2], [T, 2] -> [2], metres
    """Middle and half the side of the map: a whole room, or outdoors the way with as much around it as shows where it is."""
    if float((high - low).max()) <= _ROOM:
        return (low + high) / 2, float((high - low).max()) / 2 * 1.06
    least, most = way.amin(0), way.amax(0)
    return (least + most) / 2, max(_AROUND * float((most - least).max()), _LEAST_MAP) / 2


def _map(
    scene: Scene, solids: Tensor, poses: Tensor, frame: int, side: int, half_angle: float
) -> np.ndarray:  # [S, S, 3]
    """The scene from above, forward (z) up, at one frame."""
    way = poses[:, [0, 2], 3]
    low, high = scene.room[0, [0, 2]].double(), scene.room[0, [3, 5]].double()
    middle, reach = _map_window(low, high, way)
    scale = side / (2 * reach)

    def place(point: Tensor) -> tuple[float, float]:
        across, along = ((point - middle) * scale).tolist()
        return side / 2 + across, side / 2 - along

    picture = Image.new("RGB", (side, side), _PAPER)
    draw = ImageDraw.Draw(picture)
    corners = (place(torch.stack([low[0], high[1]])), place(torch.stack([high[0], low[1]])))
    draw.rectangle(corners, outline=_INK, width=2)
    for number, solid in enumerate(solids.double()):
        if solid[4] <= 0:
            continue
        centre, half, cos, sin = solid[[0, 2]], solid[[3, 5]], float(solid[6]), float(solid[7])
        if number >= KINDS["cylinder"].start:
            x, y = place(centre)
            r = float(half[0]) * scale
            draw.ellipse((x - r, y - r, x + r, y + r), fill=_QUIET)
            continue
        turn = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
        signs = torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=torch.float64)
        draw.polygon([place(corner) for corner in centre + (signs * half) @ turn.T], fill=_QUIET)
    draw.line([place(point) for point in way], fill=_WAY, width=3)
    looking = poses[frame, [0, 2], 2]
    facing = math.atan2(float(looking[0]), float(looking[1]))
    rays = [facing - half_angle, facing + half_angle]
    here = way[frame]
    ends = [here + 0.28 * reach * torch.tensor([math.sin(a), math.cos(a)], dtype=torch.float64) for a in rays]
    draw.line([place(ends[0]), place(here), place(ends[1])], fill=_CAMERA, width=2)
    x, y = place(here)
    draw.ellipse((x - 5, y - 5, x + 5, y + 5), fill=_CAMERA)
    return np.asarray(picture)
