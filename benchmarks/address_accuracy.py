"""How well can a token find what it sees in another frame, by its ray alone? Minutes on a CPU core for each encoding.

    python benchmarks/address_accuracy.py --output outputs/address

An encoding that is added to query and key gives every token an address. Here one attention head of 64 channels has nothing but
these addresses: for a token of one frame, its softmax over the tokens of another frame should point at the token that sees the
same surface, which the worlds' true depth tells. The loss is the cross-entropy in nats (log 144 = 4.97 for a uniform softmax).
The depth is unknown to the ray, so no encoding reaches zero. A good address does not make a good video; a bad one is no help.

Trained on scenes of all four styles, measured on held-out ones; in metres, and in the units that each style's dataset would
report, where structure from motion gives every clip its own scale.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import tyro
from rich.console import Console
from rich.progress import track
from torch import Tensor

from sightline.cameras.tokens import CameraTokens
from sightline.encodings import encoding_from_config
from sightline.files import write_atomic
from sightline.worlds import STYLES, render_depth, sample_batch

ROWS: dict[str, dict[str, Any]] = {
    "scope": {"name": "scope"},
    "scope, min_moment 0.1": {"name": "scope", "min_moment": 0.1},
    "scope, min_moment 0.1, w/o flip": {"name": "scope", "min_moment": 0.1, "flip": False},
    "sweep": {"name": "sweep"},
    "sweep, two projections": {"name": "sweep", "tied": False},
    "sweep, one depth": {"name": "sweep", "depths": [2.0]},
    "sweep, one frequency": {"name": "sweep", "frequencies": [1.0]},
}
UNITS = ("metre", "reported")
GRID, FRAMES, HEAD_DIM = 12, tuple(range(0, 33, 4)), 64
HELD_OUT_SEED = 900_000
PROGRESS = Console(stderr=True)
ETA = {"openworld": 20.0}  # as in the worlds source


@dataclass
class Clips:
    camera_to_world: Tensor  # [C, T, 4, 4], metres, frame 0 is the identity
    intrinsics: Tensor  # [C, T, 3, 3], in pixels of the grid
    depth: Tensor  # [C, T, N], along the optical axis
    points: Tensor  # [C, T, N, 3], what each token sees
    rows: dict[str, Tensor]  # by unit, [C, T, N, 90]


def make_clips(first_seed: int, scenes_per_style: int) -> Clips:
    parts: list[Clips] = []
    for style in track(STYLES, description="scenes", console=PROGRESS):
        batch = sample_batch(style, range(first_seed, first_seed + scenes_per_style), returning=0.2)
        kept = (batch.xi == 0).nonzero().flatten()  # depth to points is written for pinhole cameras below
        frames = torch.tensor(FRAMES)
        scaled = batch.intrinsics[kept][:, frames].clone()
        scaled[..., :2, :] *= GRID / batch.width
        scenes, poses = batch.scenes.select(kept), batch.camera_to_world[kept][:, frames]
        seconds = batch.seconds[kept][:, frames]
        depth = render_depth(scenes, poses, scaled, batch.xi[kept], GRID, GRID, seconds=seconds).flatten(2).double()
        poses = torch.linalg.inv(poses[:, :1]) @ poses
        rows = {
            unit: torch.cat([_rows(batch, style, int(clip), unit) for clip in kept]).unflatten(1, (len(FRAMES), -1))
            for unit in UNITS
        }
        parts.append(Clips(poses, scaled, depth, _points(poses, scaled, depth), rows))
    return Clips(
        *(
            torch.cat([getattr(p, name) for p in parts])
            for name in ("camera_to_world", "intrinsics", "depth", "points")
        ),
        {unit: torch.cat([part.rows[unit] for part in parts]) for unit in UNITS},
    )


def _rows(batch: Any, style: str, clip: int, unit: str) -> Tensor:  # [1, T N, 90]
    trajectory = batch.true_trajectory(clip)
    if unit == "reported":
        trajectory = trajectory.scaled(float(batch.scale[clip]) * ETA.get(style, 1.0))
    return CameraTokens.from_trajectory(trajectory, (len(FRAMES), GRID, GRID)).rows


def _points(poses: Tensor, intrinsics: Tensor, depth: Tensor) -> Tensor:
    y, x = torch.meshgrid(torch.arange(GRID) + 0.5, torch.arange(GRID) + 0.5, indexing="ij")
    pixels = torch.stack([x, y, torch.ones_like(x)], -1).reshape(-1, 3).double()  # [N, 3]
    seen = pixels @ torch.linalg.inv(intrinsics).transpose(-1, -2) * depth[..., None]  # [C, T, N, 3]
    return seen @ poses[..., :3, :3].transpose(-1, -2) + poses[..., None, :3, 3]


def true_matches(
    clips: Clips, clip: Tensor, source: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:  # [B] x3 -> [B, N] x2
    """For each token of the source frames, the token of the target frame that sees the same surface, and whether there is one."""
    world_to_camera = torch.linalg.inv(clips.camera_to_world[clip, target])
    points = clips.points[clip, source] @ world_to_camera[:, :3, :3].transpose(-1, -2) + world_to_camera[:, None, :3, 3]
    z = points[..., 2]
    at = (points / z.clamp_min(1e-3)[..., None]) @ clips.intrinsics[clip, target].transpose(-1, -2)
    column, row = (at[..., axis].floor().long() for axis in (0, 1))
    inside = (z > 0.05) & (column >= 0) & (column < GRID) & (row >= 0) & (row < GRID)
    match = row.clamp(0, GRID - 1) * GRID + column.clamp(0, GRID - 1)
    surface = clips.depth[clip, target].gather(1, match)
    return match, inside & ((surface - z).abs() < 0.15 * z)  # else something else is in front


def draw(clips: Clips, unit: str, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows of source and target frames, and their matches. Half of the targets are the first frame; no frame looks at itself."""
    clip = torch.randint(len(clips.depth), (count,), generator=generator)
    source = torch.randint(1, len(FRAMES), (count,), generator=generator)
    target = (source + torch.randint(1, len(FRAMES), (count,), generator=generator)) % len(FRAMES)
    target = torch.where(torch.rand(count, generator=generator) < 0.5, 0, target)
    rows = clips.rows[unit]
    return rows[clip, source], rows[clip, target], *true_matches(clips, clip, source, target)


def scores(layer: Any, source: Tensor, target: Tensor) -> Tensor:  # [B, N, 90] x2 -> [B, N, N]
    if "embed" in layer.stages:
        source, target = (layer("embed", rows, (1, GRID, GRID))[1] for rows in (source, target))
    query, key = layer.encode(source)[0][:, :, 0], layer.encode(target)[1][:, :, 0]
    return query @ key.transpose(-1, -2) / HEAD_DIM**0.5


def measure(row: str, unit: str, train: Clips, held_out: Clips, steps: int, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    layer = encoding_from_config(ROWS[row]).layer(HEAD_DIM, 1)
    with torch.no_grad():
        for alpha in (layer.alpha_q, layer.alpha_k):
            alpha.fill_(1.0)  # there is no content here that an address of zero could start from
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 50) * (1 - step / steps))
    generator = torch.Generator().manual_seed(seed)
    for _ in track(range(steps), description=f"{row}, {unit}, seed {seed}", console=PROGRESS):
        source, target, match, known = draw(train, unit, 64, generator)
        loss = F.cross_entropy(scores(layer, source, target)[known], match[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        source, target, match, known = draw(held_out, unit, 1000, torch.Generator().manual_seed(99))
        logits = scores(layer, source, target)[known]
    hits = (logits.argmax(-1) == match[known]).double().mean()
    return {"nats": F.cross_entropy(logits, match[known]).item(), "found": hits.item()}


def main(output: Path = Path("outputs/address"), steps: int = 300, scenes: int = 240, seeds: int = 3) -> None:
    """steps: of training. scenes: of each style, to train on; a quarter as many are held out. seeds: runs of each row."""
    torch.set_num_threads(1)
    train, held_out = make_clips(0, scenes), make_clips(HELD_OUT_SEED, max(scenes // 4, 1))
    results: dict[str, Any] = {}
    print("| " + " | ".join(["encoding", *(f"{unit}: nats | found" for unit in UNITS)]) + " |")
    print("|---" * (1 + 2 * len(UNITS)) + "|")
    for row in ROWS:
        cells = []
        for unit in UNITS:
            runs = [measure(row, unit, train, held_out, steps, seed) for seed in range(seeds)]
            results[f"{row}, {unit}"] = runs
            for key, form in (("nats", "{:.3f}"), ("found", "{:.1%}")):
                values = [run[key] for run in runs]
                spread = f" ({form.format(min(values))} to {form.format(max(values))})" if len(values) > 1 else ""
                cells.append(form.format(statistics.mean(values)) + spread)
        print(f"| {row} | {' | '.join(cells)} |", flush=True)
        write_atomic(output / "results.json", json.dumps(results, indent=1))


if __name__ == "__main__":
    tyro.cli(main)
