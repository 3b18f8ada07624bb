"""Films of the lab model on a CPU at each speed level, in turn, in one run: seconds, the ratio to exact, and agreement with it.

    python benchmarks/film_lab.py                        two threads, three films of each level
    python benchmarks/film_lab.py --threads 1 --films 5
    python benchmarks/film_lab.py --levels exact fastest --threshold 0.1 --num-inference-steps 30

The lowest of the films of a level counts, by the clock and by the time of the processor, which other work on the machine does
not change. Reading the model is not part of them.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import sightline as sl
from sightline.backbones import speed
from sightline.images import psnr
from sightline.speed_levels import SPEEDS, Speed


def main(
    levels: tuple[Speed, ...] = SPEEDS, films: int = 3, threads: int = 2, num_frames: int = 33, num_inference_steps: int = 12,
    threshold: float = speed.CACHE_THRESHOLD, output: Path | None = None,
) -> None:  # fmt: skip
    """levels: the first one is what the others are compared with. threshold: of the cache of the last level."""
    speed.CACHE_THRESHOLD = threshold
    torch.set_num_threads(threads)
    trajectory = sl.moves.orbit(degrees=30, target_depth=2.0, frames=num_frames, width=128, height=128)
    pipes = {level: sl.set_speed(sl.load_pipeline(device="cpu"), level) for level in levels}
    videos: dict[str, list[np.ndarray]] = {level: [] for level in levels}
    clock: dict[str, list[float]] = {level: [] for level in levels}
    processor: dict[str, list[float]] = {level: [] for level in levels}
    for seed in range(films):
        for level, pipe in pipes.items():  # in turn, so that a machine that slows down does so for all
            pipe.set_progress_bar_config(disable=True)
            started = time.perf_counter(), time.process_time()
            video = sl.generate(
                pipe,
                sl.FIRST_FRAME,
                "an orange box in a playroom",
                trajectory,
                seed=seed,
                num_inference_steps=num_inference_steps,
            )
            clock[level].append(time.perf_counter() - started[0])
            processor[level].append(time.process_time() - started[1])
            videos[level].append(video)
    first, rows = levels[0], []
    for level in levels:
        decibels = np.concatenate([psnr(a, b) for a, b in zip(videos[level], videos[first], strict=True)])
        row: dict[str, Any] = {
            "level": level,
            "seconds": round(min(clock[level]), 2),
            f"over {first}": round(min(clock[level]) / min(clock[first]), 3),
            "of the processor": round(min(processor[level]), 2),
            f"of the processor, over {first}": round(min(processor[level]) / min(processor[first]), 3),
            f"PSNR to {first}, dB, mean": round(float(decibels.mean()), 1),
            "of the worst frame": round(float(decibels.min()), 1),
        }
        rows.append(row)
        print(json.dumps(row))
    results = {
        "command": " ".join(["python", "benchmarks/film_lab.py", *sys.argv[1:]]),
        "cpu": _cpu(),
        "torch": torch.__version__,
        "levels": rows,
    }
    if output is not None:
        output.write_text(json.dumps(results, indent=2) + "\n")


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    tyro.cli(main)
