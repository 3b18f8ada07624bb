"""Compose camera moves, plot them, and write them in the formats of other tools."""

from __future__ import annotations

from pathlib import Path

import tyro

import sightline as sl


def main(output: Path = Path("outputs/moves")) -> None:
    # At the same time: push in while the focal length goes from 35 to 24 mm. Then: pan right.
    push = sl.moves.dolly(0.6, frames=41, focal_mm=35, easing="ease").combine(sl.moves.zoom(35, 24, frames=41))
    trajectory = push.concatenate(sl.moves.pan(25, frames=41, focal_mm=24, easing="ease"))
    trajectory.plot(output / "push_then_pan.png", title="push in, widen, pan right")

    # The same as a string, as the command line takes it.
    sl.moves.parse("dolly:0.6+zoom:35>24, pan:25", frames=81, easing="ease")

    # The unit may be a metre or the scale of the scene. A trajectory can be rescaled, resampled and reversed.
    metres = trajectory.scaled(2.0).replace(unit="metre")
    there_and_back = metres.concatenate(metres.reversed()).resampled(81)
    there_and_back.save(output / "there_and_back.json")

    # For other tools. docs/formats.md lists what each format cannot store.
    for name, file in {"re10k": "clip.txt", "nerfstudio": "transforms.json", "colmap": "sparse"}.items():
        trajectory.save(output / file, format=name)
        loaded = sl.Trajectory.load(output / file)
        pose = (loaded.camera_to_world - trajectory.camera_to_world).abs().max()
        lens = (loaded.intrinsics - trajectory.intrinsics).abs().max()
        print(f"{name}: {loaded}, largest difference in poses {pose:.1e}, in the lens {lens:.1e} pixels")


if __name__ == "__main__":
    tyro.cli(main)
