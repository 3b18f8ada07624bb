"""Clips of held-out procedural worlds, which no training stage of the lab has seen, with their true trajectories and depth."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sightline.cameras import moves
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.errors import SightlineError
from sightline.lab.models import HELD_OUT_SEED, NUM_FRAMES, SIZE
from sightline.worlds import STYLES, Scene, render_clip, sample_batch, sample_clip
from sightline.worlds.batches import render_batches

TEXTURED_SEEDS = (900_027, 900_015, 900_012)  # held-out walkthrough scenes with brick, boards and books: many features
TRAJECTORIES: dict[str, Callable[..., Trajectory]] = {
    "forward": lambda **shot: moves.dolly(0.8, **shot),
    "truck": lambda **shot: moves.truck(0.5, **shot),
    "loop": lambda **shot: moves.loop_nonpalindromic(0.5, 2.0, **shot),
    "rotation": lambda **shot: moves.pan(25.0, **shot),
}


def held_out_clips(count: int, device: torch.device | str = "cpu", depth: bool = False) -> list[Clip]:
    """`count` clips, equally many of each style, at the size of the lab model. The source of a clip is its style.

    Trajectories are the true ones, in metres, anchored at the first frame. depth: with the depth of frame 0.
    """
    if count % len(STYLES) or count < 1:
        raise SightlineError(f"clips is {count}: expected a multiple of {len(STYLES)}.")
    each = count // len(STYLES)
    seeds = range(HELD_OUT_SEED, HELD_OUT_SEED + each)
    batches = [sample_batch(style, seeds, NUM_FRAMES, SIZE, SIZE) for style in STYLES]
    if depth:
        rendered = [batch.render(device) for batch in batches]
        frames, depths = (torch.cat([pair[part].cpu() for pair in rendered]) for part in range(2))
    else:
        frames = render_batches(batches, device).cpu()
    clips = []
    for index in range(count):
        batch, number = batches[index // each], index % each
        clips.append(
            Clip(
                frames=frames[index].numpy(),
                trajectory=batch.true_trajectory(number).anchored(),
                caption=batch.captions[number],
                source=batch.style,
                name=f"{batch.style}-{number}",
                depth=depths[index, 0].numpy() if depth else None,
            )
        )
    return clips


def rendered_clip(kind: str, seed: int = TEXTURED_SEEDS[0], num_frames: int = 33) -> Clip:
    """One of TRAJECTORIES through a held-out scene, starting where the scene's own clip starts, with the depth of frame 0."""
    style, width, height = "walkthrough", 832, 480
    shot = sample_clip(style, seed, 5, width, height)
    trajectory = TRAJECTORIES[kind](frames=num_frames, width=width, height=height).replace(unit="metre")
    start = shot.true_trajectory.camera_to_world[0]
    trajectory = trajectory.replace(camera_to_world=start @ trajectory.camera_to_world)
    rendered = render_clip(shot.scene, trajectory, seconds=[0.0] * num_frames)
    return Clip(
        frames=rendered.frames.numpy(),
        trajectory=trajectory.anchored(),
        caption=rendered.caption,
        source=style,
        name=f"{kind}-{style}-{seed}",
        depth=rendered.depth[0].numpy(),
    )


def level_view(scene: Scene, pose: Tensor, distance: float, height: float | None = None) -> Tensor:  # [4, 4] -> [4, 4]
    """A level camera at a distance, in metres, from the surface that `pose` has in its middle.

    height: of the camera above the ground; None is that of the surface. Level, because moves turn about the camera's own axes.
    """
    side = 100
    lens = moves.static(frames=1, width=side, height=side)
    depth = render_clip(scene, lens.replace(camera_to_world=pose[None], unit="metre")).depth[0]
    middle = slice(side * 2 // 5, side * 3 // 5)
    surface = pose[:3, 3] + depth[middle, middle].median() * pose[:3, 2]
    down = torch.tensor([0.0, 1.0, 0.0], dtype=pose.dtype)
    forward = torch.nn.functional.normalize(pose[:3, 2] - down * pose[1, 2], dim=0)
    level = torch.eye(4, dtype=pose.dtype)
    level[:3, :3] = torch.stack([torch.linalg.cross(down, forward), down, forward], dim=1)
    level[:3, 3] = surface - distance * forward
    if height is not None:
        level[1, 3] = -height  # y points down, and the ground is at 0
    return level
