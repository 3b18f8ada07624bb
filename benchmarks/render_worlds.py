"""Clips per second of the worlds' renderer on this machine: `python benchmarks/render_worlds.py [--clips N] [--samples S]`.

Prints one json object: per style, clips of 33 frames of 128 x 128 pixels rendered per second and their ratio to the goal.
With CUDA one process renders on the device. Without, one process per core renders with one thread each, as the workers
of a data loader do; threads of one process share Python's lock and gain less.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import torch

from sightline.timing import time_calls
from sightline.worlds import STYLES, WorldBatch, render_frames, sample_batch

GOALS = {"cuda": 1000.0, "cpu": 2.0}  # clips per second
FRAMES, SIZE = 33, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, help="clips per style and process (default: 256 on CUDA, 4 on the CPU)")
    parser.add_argument("--samples", type=int, default=4, help="rays per pixel")
    parser.add_argument("--repeats", type=int, default=5, help="timed repeats; the fastest counts")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="processes where there is no CUDA")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    clips = options.clips or {"cuda": 256, "cpu": 4}[device]
    cpu = f"{platform.processor() or platform.machine()}, {options.processes} processes of one thread"
    report: dict[str, object] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else cpu,
        "torch": torch.__version__,
        "frames": FRAMES,
        "size": SIZE,
        "samples": options.samples,
    }
    for style in STYLES:
        began = time.perf_counter()
        sample_batch(style, range(10_000, 10_064), FRAMES, SIZE, SIZE)
        sampled = 64 / (time.perf_counter() - began)
        if device == "cuda":
            rendered, first = on_cuda(style, clips, options.samples, options.repeats)
        else:
            rendered, first = on_cpu(style, clips, options.samples, options.repeats, options.processes)
        report[style] = {
            "rendered_per_second": round(rendered, 2),
            "of_goal": round(rendered / GOALS[device], 2),
            "first_call_seconds": round(first, 1),
            "scenes_and_paths_per_second": round(sampled),
        }
    if device == "cuda":
        report["peak_memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    print(json.dumps(report, indent=2))


def on_cuda(style: str, clips: int, samples: int, repeats: int) -> tuple[float, float]:
    """Clips per second of the renderer, scenes already on the device, and the seconds of the first call, which compiles."""
    batch = sample_batch(style, range(clips), FRAMES, SIZE, SIZE)
    scenes, seconds = batch.scenes.to("cuda"), batch.seconds.cuda()
    cameras = batch.camera_to_world.cuda(), batch.intrinsics.cuda(), batch.xi.cuda()
    render_all = partial(render_frames, scenes, *cameras, SIZE, SIZE, seconds=seconds, samples=samples)
    first, *later = time_calls(render_all, 1 + repeats, torch.device("cuda")).seconds
    return clips / min(later), first


def on_cpu(style: str, clips: int, samples: int, repeats: int, processes: int) -> tuple[float, float]:
    """Clips per second of all processes together, and the seconds of the first round, which starts them."""
    batches = [
        sample_batch(style, range(clips * one, clips * (one + 1)), FRAMES, SIZE, SIZE) for one in range(processes)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        timing = time_calls(
            lambda: list(pool.map(render, batches, [samples] * processes)), 1 + repeats, torch.device("cpu")
        )
    first, *later = timing.seconds
    return clips * processes / min(later), first


def render(batch: WorldBatch, samples: int) -> None:
    batch.render_frames(samples=samples)


if __name__ == "__main__":
    main()
