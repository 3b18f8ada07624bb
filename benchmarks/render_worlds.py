"""Clips per second of the worlds' renderer on this machine: `python benchmarks/render_worlds.py [--clips N] [--samples S]`.

Prints one json object: per style, clips of 33 frames of 128 x 128 pixels sampled per second (scenes and paths, one CPU
core) and rendered per second (the CUDA device where there is one, else the CPU), and their ratio to the goal.
"""

from __future__ import annotations

import argparse
import json
import platform
import time

import torch

from sightline.worlds import STYLES, render_frames, sample_batch

GOALS = {"cuda": 1000.0, "cpu": 2.0}  # clips per second
FRAMES, SIZE = 33, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, help="clips per style (default: 256 on CUDA, 4 on the CPU)")
    parser.add_argument("--samples", type=int, default=4, help="rays per pixel")
    parser.add_argument("--repeats", type=int, default=3, help="timed repeats; the fastest counts")
    parser.add_argument("--compile", action="store_true", help="fuse with torch.compile on the CPU too")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    clips = options.clips or {"cuda": 256, "cpu": 4}[device]
    cpu = f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    name = torch.cuda.get_device_name() if device == "cuda" else cpu
    report: dict[str, object] = {
        "device": name, "torch": torch.__version__, "clips": clips, "frames": FRAMES, "size": SIZE, "samples": options.samples,
    }  # fmt: skip
    for style in STYLES:
        began = time.perf_counter()
        batch = sample_batch(style, range(clips), FRAMES, SIZE, SIZE)
        sampled = clips / (time.perf_counter() - began)
        scenes, seconds = batch.scenes.to(device), batch.seconds.to(device)
        poses, lenses, xi = batch.camera_to_world.to(device), batch.intrinsics.to(device), batch.xi.to(device)

        took = []
        for _ in range(1 + options.repeats):  # the first compiles on CUDA
            began = time.perf_counter()
            compile = options.compile or None
            render_frames(
                scenes, poses, lenses, xi, SIZE, SIZE, seconds=seconds, samples=options.samples, compile=compile
            )
            if device == "cuda":
                torch.cuda.synchronize()
            took.append(time.perf_counter() - began)
        rendered = clips / min(took[1:])
        report[style] = {
            "sampled_per_second": round(sampled, 1), "rendered_per_second": round(rendered, 2),
            "of_goal": round(rendered / GOALS[device], 2), "first_call_seconds": round(took[0], 1),
        }  # fmt: skip
    if device == "cuda":
        report["peak_memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
