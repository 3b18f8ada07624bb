"""The debug recipe once for every encoding and every ablation: does its loss fall, and does it listen to the camera?

    python benchmarks/train_every_encoding.py --steps 300 --output outputs/every-encoding

One CPU core does a run in a minute or two. Everything is trained, from random weights, on the same clips in the same order,
new parameters at the rate of the others (the debug recipe's tenfold rate suits SCoPE's few, not an encoder's many). The
columns are the mean training loss of the first and last tenth, and the loss on held-out clips with their own camera, without
one and with another clip's. A run this short shows that a method trains, not how well.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import tyro

from sightline.training.recipe import Recipe
from sightline.training.trainer import train

ROWS: dict[str, dict[str, Any]] = {
    "scope": {"name": "scope"},
    "scope w/o flip": {"name": "scope", "flip": False},
    "scope w/o NGI": {"name": "scope", "ngi": False},
    "scope w/o PE RMSNorm": {"name": "scope", "norm": False},
    "scope w/o log-scale augmentation": {"name": "scope"},
    "scope w/o zero init": {"name": "scope", "alpha": 1.0, "projection_init": "random"},
    "scope with V transform": {"name": "scope", "value": True},
    "scope w/o B and C": {"name": "scope", "terms": "ad"},
    "scope w/o D": {"name": "scope", "terms": "abc"},
    "sweep": {"name": "sweep"},
    "sweep, two projections": {"name": "sweep", "tied": False},
    "cameractrl": {"name": "cameractrl", "pixels": 4},  # a token of the debug model is 4 pixels wide
    "cameractrl in blocks": {"name": "cameractrl", "pixels": 4, "placement": "blocks"},
    "recammaster": {"name": "recammaster"},
    "prope": {"name": "prope"},
    "prope, own projections": {"name": "prope", "branch": "own"},
    "gta": {"name": "gta"},
    "ucpe": {"name": "ucpe", "ratio": 2},  # of 4 heads
    "rerope": {"name": "rerope"},
    "freqsplit projective": {"name": "freqsplit", "phases": "projective"},
    "freqsplit camera_uv": {"name": "freqsplit", "phases": "camera_uv"},
    "freqsplit plucker": {"name": "freqsplit", "phases": "plucker"},
    "freqsplit four_dof": {"name": "freqsplit", "phases": "four_dof"},
}


def recipe_of(row: str, steps: int, output: Path) -> Recipe:
    """The debug recipe with this row's encoding; its length, what it keeps and the new parameters' rate are one for all."""
    recipe = Recipe.from_yaml("debug")
    objective = recipe.objective
    if row == "scope w/o log-scale augmentation":
        objective = dataclasses.replace(objective, log_scale_prob=0.0)
    return dataclasses.replace(
        recipe,
        model=dataclasses.replace(recipe.model, encoding=ROWS[row]),
        objective=objective,
        optimizer=dataclasses.replace(recipe.optimizer, max_steps=steps, encoding_lr_scale=1.0),
        validation=dataclasses.replace(recipe.validation, every_steps=steps, num_videos=0),
        checkpointing_steps=steps,
        output=str(output),
    )


def figures_of(run: Path) -> dict[str, float]:
    """What the run's log says of its losses."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "step" in line]
    scored = next(line for line in reversed(lines) if "loss_with_another_camera" in line)
    tenth = max(len(losses) // 10, 1)
    return {
        "first tenth": statistics.mean(losses[:tenth]),
        "last tenth": statistics.mean(losses[-tenth:]),
        "held out": scored["loss"],
        "no camera": scored["loss_without_camera"],
        "another camera": scored["loss_with_another_camera"],
    }


def main(
    steps: int = 300, output: Path = Path("outputs/every-encoding"), only: tuple[str, ...] = (), threads: int = 1
) -> None:
    """only: rows by name; all of them unless given."""
    torch.set_num_threads(threads)
    header = ("first tenth", "last tenth", "held out", "no camera", "another camera", "seconds")
    lines = [f"| encoding | {' | '.join(header)} |", "|---" * (len(header) + 1) + "|"]
    print(*lines, sep="\n", flush=True)
    failed = []
    for row in only or ROWS:
        run = output / row.replace(" ", "-").replace("/", "")
        shutil.rmtree(run, ignore_errors=True)
        started = time.perf_counter()
        figures = figures_of(train(recipe_of(row, steps, run)))
        shutil.rmtree(run / "checkpoints")
        cells = [f"{figures[name]:.3f}" for name in header[:-1]]
        lines.append(f"| {row} | {' | '.join(cells)} | {time.perf_counter() - started:.0f} |")
        print(lines[-1], flush=True)
        if not figures["last tenth"] < figures["first tenth"]:
            failed.append(row)
    (output / "table.md").write_text("\n".join(lines) + "\n")
    if failed:
        raise SystemExit(f"the loss did not fall for: {', '.join(failed)}")


if __name__ == "__main__":
    tyro.cli(main)
