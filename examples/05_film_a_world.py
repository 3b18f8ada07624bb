"""Film one procedural place along two paths: pictures, depth and cameras that agree, by construction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tyro
from PIL import Image

import sightline as sl
from sightline.worlds import render_clip, sample_clip


def main(output: Path = Path("outputs/world"), seed: int = 1, frames: int = 33, size: int = 128) -> None:
    clip = sample_clip("walkthrough", seed, frames=frames, width=size, height=size)
    print(clip.caption)

    # The same scene, first along its own path, then on a closed loop that starts from the same camera.
    loop = sl.moves.loop_truck(0.4, frames=frames, width=size, height=size)
    start = clip.true_trajectory.camera_to_world[0]
    loop = clip.true_trajectory.replace(camera_to_world=start @ loop.camera_to_world)
    for name, path in {"walk": clip.true_trajectory, "loop": loop}.items():
        shot = render_clip(clip.scene, path)  # frames [T, H, W, 3] uint8, depth [T, H, W] in metres
        sl.save_video(shot.frames, output / f"{name}.mp4", fps=path.fps)
        path.save(output / f"{name}.json")

    same = np.array_equal(shot.frames[0], shot.frames[-1])
    print(f"the loop comes home: first and last frame are {'equal' if same else 'not equal'}")
    near = 1 / shot.depth[0].numpy().clip(0.5, None)
    Image.fromarray((255 * near / near.max()).astype(np.uint8)).save(output / "depth.png")
    print(f"wrote walk.mp4, loop.mp4, their paths and depth.png to {output}")


if __name__ == "__main__":
    tyro.cli(main)
