"""How well the lab model follows a move from pictures that were taken from low and from high:
`python benchmarks/camera_height.py [--scenes 8] [--heights 0.5 0.8 1.2 1.6] [--model FOLDER --camera FILE] [-o FILE]`.

Held-out scenes of style orbit; a level camera 2.3 m from the surface that the clip looks at, at each height above the ground. A
picture does not show its scale, so a model has to take it from what it knows: how high cameras stand, how large things are.
Prints, for each height and move, the PSNR of the generated video against the true one and of the first frame repeated, both
from frame 1 on, as a mean over the scenes. Scenes in which any of the cameras would hit something are left out.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from torch import Tensor
from tyro.conf import arg

import sightline as sl
from sightline.cameras import moves
from sightline.evaluation.held_out import level_view
from sightline.images import psnr
from sightline.lab.models import HELD_OUT_SEED, NUM_FRAMES, SIZE
from sightline.speed_levels import Speed
from sightline.worlds import Scene, render_clip, sample_clip
from sightline.worlds.scene import distance_to_solids

DISTANCE = 2.3  # metres from the camera to the surface that is looked at
LINES = ("orbit:30", "truck:0.5")
_CLEARANCE = 0.1  # metres


@dataclass(frozen=True)
class Row:
    """Means over the scenes, in dB."""

    height: float
    move: str
    generated: float
    frozen: float


def main(
    scenes: int = 8, heights: tuple[float, ...] = (0.5, 0.8, 1.2, 1.6), model: str | None = None, camera: Path | None = None,
    speed: Speed = "exact", threads: int = torch.get_num_threads(), output: Annotated[Path | None, arg(aliases=["-o"])] = None,
) -> list[Row]:  # fmt: skip
    """model: another pipeline than the one that ships, with the camera weights `camera`."""
    torch.set_num_threads(threads)
    pipe = sl.set_speed(sl.load_pipeline(model, camera), speed)
    chosen = _chosen(scenes, heights)
    work = [(height, line, place) for height in heights for line in LINES for place in chosen]
    scores: dict[tuple[float, str], list[tuple[float, float]]] = {}
    for height, line, (scene, caption, places) in track(work, "films", console=Console(stderr=True)):
        scores.setdefault((height, line), []).append(_score(pipe, scene, caption, places[height], line))
    rows = [Row(*key, *(round(float(mean), 2) for mean in np.mean(found, axis=0))) for key, found in scores.items()]
    print(f"{len(chosen)} scenes; PSNR in dB, generated (first frame repeated)")
    for row in rows:
        print(f"{row.height:4.1f} m, {row.move}: {row.generated:.2f} ({row.frozen:.2f})")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        command = " ".join(["python", "benchmarks/camera_height.py", *sys.argv[1:]])
        document = {"command": command, "scenes": len(chosen), "rows": [asdict(row) for row in rows]}
        output.write_text(json.dumps(document, indent=1) + "\n")
    return rows


def _chosen(count: int, heights: tuple[float, ...]) -> list[tuple[Scene, str, dict[float, Tensor]]]:
    """The first scenes in which all cameras are clear of everything, with their captions and a level camera at each height."""
    found, seed = [], HELD_OUT_SEED
    while len(found) < count:
        clip = sample_clip("orbit", seed, NUM_FRAMES, SIZE, SIZE)
        start = clip.true_trajectory.camera_to_world[0]
        places = {height: level_view(clip.scene, start, DISTANCE, height) for height in heights}
        if all(_is_clear(clip.scene, pose, line) for pose in places.values() for line in LINES):
            found.append((clip.scene, clip.caption, places))
        seed += 1
    return found


def _trajectory(line: str, pose: Tensor) -> tuple[sl.Trajectory, sl.Trajectory]:
    """What is asked for, and the same in the scene."""
    asked = moves.parse(line, frames=NUM_FRAMES, width=SIZE, height=SIZE)
    return asked, asked.replace(camera_to_world=pose @ asked.camera_to_world, unit="metre")


def _is_clear(scene: Scene, pose: Tensor, line: str) -> bool:
    asked, placed = _trajectory(line, pose)
    seconds = torch.arange(len(asked), dtype=torch.float64)[None] / asked.fps
    return bool(distance_to_solids(scene, placed.camera_to_world[None, :, :3, 3], seconds).min() > _CLEARANCE)


def _score(pipe: Any, scene: Scene, caption: str, pose: Tensor, line: str) -> tuple[float, float]:
    asked, placed = _trajectory(line, pose)
    true = render_clip(scene, placed).frames.numpy()
    generated = sl.generate(pipe, true[0], caption, asked)
    frozen = np.repeat(true[:1], len(true), axis=0)
    return float(psnr(generated[1:], true[1:]).mean()), float(psnr(frozen[1:], true[1:]).mean())


if __name__ == "__main__":
    tyro.cli(main)
