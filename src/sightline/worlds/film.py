"""Filming one scene along one trajectory: true views of any camera path."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.worlds.captions import caption
from sightline.worlds.render import DEFAULT_SAMPLES, render_batch
from sightline.worlds.scene import Scene


@dataclass(frozen=True, eq=False)
class Film:
    """frames: [T, H, W, 3] uint8. depth: [T, H, W] float32, along the optical axis in metres, FAR in the sky."""

    frames: Tensor
    depth: Tensor
    trajectory: Trajectory
    caption: str


def film(
    scene: Scene, trajectory: Trajectory, size: tuple[int, int] | None = None, *, samples: int = DEFAULT_SAMPLES,
    compile: bool | None = None,
) -> Film:  # fmt: skip
    """Render a scene along a trajectory given in metres of its world (y down, the floor at y = 0).

    size: (width, height) of the frames, the trajectory's own unless given; the view is then scaled to cover it.
    Frames and depth come back on the CPU, whatever the scene's device.
    """
    if len(scene) != 1:
        raise SightlineError(f"scene holds {len(scene)} scenes: expected one (see render_batch for several).")
    if size is not None:
        trajectory = trajectory.fitted(*size)
    seconds = (torch.arange(len(trajectory)) / trajectory.fps)[None]
    frames, depth = render_batch(
        scene, trajectory.camera_to_world[None], trajectory.intrinsics[None], torch.tensor([trajectory.xi]), trajectory.width,
        trajectory.height, seconds=seconds, samples=samples, compile=compile,
    )  # fmt: skip
    half_width = trajectory.width / float(trajectory.intrinsics[0, 0, 0]) / 2
    words = caption(scene.notes[0], trajectory.camera_to_world[0], half_width)
    return Film(frames[0].cpu(), depth[0].cpu(), trajectory, words)
