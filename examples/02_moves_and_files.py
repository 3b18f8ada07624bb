"""Compose camera moves in film words, look at them, and write them in other tools' formats."""

from __future__ import annotations

from pathlib import Path

import tyro

import sightline as sl


def main(output: Path = Path("outputs/moves")) -> None:
    # At once: push in while the lens goes from 35 to 24 mm. In sequence: then look right.
    push = sl.moves.dolly(0.6, frames=41, focal_mm=35, easing="ease").combine(sl.moves.zoom(35, 24, frames=41))
    path = push.concatenate(sl.moves.pan(25, frames=41, focal_mm=24, easing="ease"))
    path.plot(output / "push_then_pan.png", title="push in, widen, pan right")

    # The same in one line, as the command line takes it.
    sl.moves.parse("dolly:0.6+zoom:35>24, pan:25", frames=81, easing="ease")

    # One unit may be a metre, or the scene's own size; a path can be rescaled, resampled, turned round.
    metres = path.scaled(2.0).replace(unit="metre")
    there_and_back = metres.concatenate(metres.reversed()).resampled(81)
    there_and_back.save(output / "there_and_back.json")

    # For another tool: what its format cannot carry is listed in docs/formats.md.
    for name, file in {"re10k": "clip.txt", "nerfstudio": "transforms.json", "colmap": "sparse"}.items():
        path.save(output / file, format=name)
        again = sl.Trajectory.load(output / file)
        pose = (again.camera_to_world - path.camera_to_world).abs().max()
        lens = (again.intrinsics - path.intrinsics).abs().max()
        print(f"{name}: {again}, largest difference in poses {pose:.1e}, in the lens {lens:.1e} pixels")


if __name__ == "__main__":
    tyro.cli(main)
