"""Square panels beside a video: the trajectory from above, and the map of a procedural world."""

from __future__ import annotations

import math

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.worlds.scene import KINDS, Scene

_INK, _LINE, _TRAVELLED = (34, 38, 43), (195, 200, 207), (200, 69, 44)  # of the trajectory panel, on white
_OVERSAMPLING = 3  # lines are drawn this much larger and scaled down, which smooths them
_MAX_ROOM, _MARGIN, _MIN_MAP = (
    50.0,
    4.0,
    4.0,
)  # metres: larger is outdoors; window over the trajectory's extent; least side
_PAPER, _SOLID, _CENTRES, _CAMERA = (250, 249, 246), (203, 200, 192), (47, 93, 140), (200, 69, 44)  # of the map


def trajectory_panel(trajectory: Trajectory, frame: int, side: int) -> np.ndarray:  # -> [side, side, 3] uint8
    """The trajectory from above, the first camera's forward axis pointing up.

    The part up to `frame` is coloured, and a wedge shows the field of view at that frame.
    """
    trajectory = trajectory.anchored()
    above = trajectory.positions[:, (0, 2)].numpy() * (1, -1)  # [T, 2] right, and down the picture
    size = side * _OVERSAMPLING
    extent = max(float(np.ptp(above, axis=0).max()), 1e-9)
    middle = (above.max(0) + above.min(0)) / 2
    points = [tuple(point) for point in (above - middle) / extent * 0.62 * size + size / 2]
    panel = Image.new("RGB", (size, size), (255, 255, 255))
    draw = ImageDraw.Draw(panel)
    stroke = max(size // 90, 1)
    draw.line(points, fill=_LINE, width=stroke, joint="curve")
    draw.line(points[: frame + 1], fill=_TRAVELLED, width=stroke, joint="curve")
    # The left and right edge of the view, as directions seen from above.
    half = trajectory.width / 2 / float(trajectory.intrinsics[frame, 0, 0])
    edges = trajectory.rotations[frame].numpy() @ np.array([[-half, half], [0.0, 0.0], [1.0, 1.0]])  # [3, 2]
    x, y = points[frame]
    tips = [(x + 0.13 * size * float(right), y - 0.13 * size * float(ahead)) for right, _, ahead in edges.T]
    draw.line([(x, y), tips[0], tips[1], (x, y)], fill=_INK, width=stroke, joint="curve")
    draw.ellipse([x - 2 * stroke, y - 2 * stroke, x + 2 * stroke, y + 2 * stroke], fill=_TRAVELLED)
    return np.asarray(panel.resize((side, side), Image.Resampling.LANCZOS))


def map_window(low: Tensor, high: Tensor, centres: Tensor) -> tuple[Tensor, float]:  # [2], [2], [T, 2] -> [2], float
    """Middle and half the side of the map in metres: a whole room, or outdoors the camera centres and their surroundings."""
    if float((high - low).max()) <= _MAX_ROOM:
        return (low + high) / 2, float((high - low).max()) / 2 * 1.06
    least, most = centres.amin(0), centres.amax(0)
    return (least + most) / 2, max(_MARGIN * float((most - least).max()), _MIN_MAP) / 2


def world_map_panel(
    scene: Scene, solids: Tensor, poses: Tensor, frame: int, side: int, half_angle: float
) -> np.ndarray:  # [S, S, 3]
    """The scene from above at one frame, its z axis pointing up, with the camera centres and the field of view.

    solids: [N, 8] at that frame. poses: camera-to-world [T, 4, 4]. half_angle: of the field of view, in radians.
    """
    centres = poses[:, [0, 2], 3]
    low, high = scene.room[0, [0, 2]].double(), scene.room[0, [3, 5]].double()
    middle, reach = map_window(low, high, centres)
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
            draw.ellipse((x - r, y - r, x + r, y + r), fill=_SOLID)
            continue
        turn = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
        signs = torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=torch.float64)
        draw.polygon([place(corner) for corner in centre + (signs * half) @ turn.T], fill=_SOLID)
    draw.line([place(point) for point in centres], fill=_CENTRES, width=3)
    looking = poses[frame, [0, 2], 2]
    facing = math.atan2(float(looking[0]), float(looking[1]))
    rays = [facing - half_angle, facing + half_angle]
    here = centres[frame]
    ends = [here + 0.28 * reach * torch.tensor([math.sin(a), math.cos(a)], dtype=torch.float64) for a in rays]
    draw.line([place(ends[0]), place(here), place(ends[1])], fill=_CAMERA, width=2)
    x, y = place(here)
    draw.ellipse((x - 5, y - 5, x + 5, y + 5), fill=_CAMERA)
    return np.asarray(picture)
