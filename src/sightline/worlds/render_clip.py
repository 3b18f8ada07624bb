"""Rendering of one scene along any trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.worlds.captions import caption
from sightline.worlds.render import DEFAULT_SAMPLES, render_batch
from sightline.worlds.scene import Scene


@dataclass(frozen=True, eq=False)
class RenderedClip:
    """A rendered video.

    frames: [T, H, W, 3] uint8. depth: [T, H, W] float32, along the optical axis in metres, FAR in the sky.
    """

    frames: Tensor
    depth: Tensor
    trajectory: Trajectory
    caption: str


def render_clip(
    scene: Scene, trajectory: Trajectory, size: tuple[int, int] | None = None, *, samples: int = DEFAULT_SAMPLES,
    compile: bool | None = None, seconds: float | Sequence[float] | Tensor | None = None,
) -> RenderedClip:  # fmt: skip
    """Render a scene along a trajectory given in metres of its world (y down, the ground at y = 0).

    size: (width, height) of the frames; by default the trajectory's own. The view is scaled to cover it.
    seconds: when each frame is taken, for what moves: T times (all alike: a frozen world), or the moment of the first
    frame, after which time runs at the trajectory's rate. By default from 0.
    Frames and depth come back on the CPU, whatever the scene's device.
    """
    if len(scene) != 1:
        raise SightlineError(f"scene holds {len(scene)} scenes: expected one (see render_batch for several).")
    if size is not None:
        trajectory = trajectory.fit_to(*size)
    times = _times(seconds, trajectory)
    frames, depth = render_batch(
        scene, trajectory.camera_to_world[None], trajectory.intrinsics[None], torch.tensor([trajectory.xi]), trajectory.width,
        trajectory.height, seconds=times[None], samples=samples, compile=compile,
    )  # fmt: skip
    text = caption(
        scene, trajectory.camera_to_world[0], trajectory.intrinsics[0], trajectory.xi, trajectory.width, trajectory.height,
        float(times[0]),
    )  # fmt: skip
    return RenderedClip(frames[0].cpu(), depth[0].cpu(), trajectory, text)


def _times(seconds: float | Sequence[float] | Tensor | None, trajectory: Trajectory) -> Tensor:  # -> [T]
    running = torch.arange(len(trajectory)) / trajectory.fps
    if seconds is None:
        return running
    try:
        times = torch.as_tensor(seconds, dtype=torch.float32).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise SightlineError(f"seconds is {seconds!r}: expected a number or a time for each frame.") from error
    if times.shape not in ((), (len(trajectory),)):
        raise SightlineError(
            f"seconds has shape {list(times.shape)}: expected one number or {len(trajectory)}, one for each frame."
        )
    if not bool(times.isfinite().all()):
        raise SightlineError("seconds is not finite: expected numbers.")
    return times + running if times.ndim == 0 else times
