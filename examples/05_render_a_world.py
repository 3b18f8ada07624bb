"""Render one procedural world along two trajectories: frames, depth and cameras are exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tyro
from PIL import Image

import sightline as sl
from sightline.worlds import render_clip, sample_clip


def main(output: Path = Path("outputs/world"), seed: int = 1, num_frames: int = 33, size: int = 128) -> None:
    clip = sample_clip("walkthrough", seed, frames=num_frames, width=size, height=size)
    print(clip.caption)

    # The same scene, first along its own trajectory, then along a closed loop from the same first camera.
    loop = sl.moves.loop_truck(0.4, frames=num_frames, width=size, height=size)
    start = clip.true_trajectory.camera_to_world[0]
    loop = clip.true_trajectory.replace(camera_to_world=start @ loop.camera_to_world)
    for name, trajectory in {"walk": clip.true_trajectory, "loop": loop}.items():
        rendered = render_clip(clip.scene, trajectory)  # frames [T, H, W, 3] uint8, depth [T, H, W] in metres
        sl.save_video(rendered.frames, output / f"{name}.mp4", fps=trajectory.fps)
        trajectory.save(output / f"{name}.json")

    same = np.array_equal(rendered.frames[0], rendered.frames[-1])
    print(f"the loop returns: its first and last frame are {'equal' if same else 'not equal'}")
    near = 1 / rendered.depth[0].numpy().clip(0.5, None)
    Image.fromarray((255 * near / near.max()).astype(np.uint8)).save(output / "depth.png")
    print(f"wrote walk.mp4, loop.mp4, their trajectories and depth.png to {output}")


if __name__ == "__main__":
    tyro.cli(main)
