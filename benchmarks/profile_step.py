"""Where a step's time goes, kernel by kernel, and how long the CPU takes to launch them.

    python benchmarks/profile_step.py --model 14b --layers 4
    python benchmarks/profile_step.py --layers 10 --size 416x256

The second video is so small that launching takes most of the time.
"""

from __future__ import annotations

import gc
import time
from typing import Any, Literal

import torch
import tyro
from torch.profiler import ProfilerActivity, profile

from sightline.bench.models import MODES, Setting, random_base, variant
from sightline.bench.results import ROOFLINE
from sightline.bench.roofline import roofline_step
from sightline.bench.run import make_step, measure
from sightline.checks import whole_number
from sightline.cli._console import print_line, print_table
from sightline.encodings import ENCODINGS
from sightline.errors import SightlineError
from sightline.timing import synchronized_time


def main(
    model: Literal["5b", "14b"] = "5b",
    layers: int | None = None,
    rows: tuple[str, ...] = (ROOFLINE, "stock compiled", "scope fused compiled"),
    size: str | None = None,
    num_frames: int | None = None,
    steps: int = 6,
    most: int = 20,
    tiny: bool = False,
) -> None:
    """rows: the roofline, or a method and a mode as `sightline bench` names them. size: WIDTHxHEIGHT, 832x480 by default, with
    81 frames. most: kernels to show. tiny: rehearse on a CPU."""
    if not torch.cuda.is_available() and not tiny:
        raise SightlineError("profile_step needs a CUDA GPU and there is none: expected one, or --tiny.")
    device, setting = (
        torch.device("cpu" if tiny else "cuda"),
        Setting.from_options(model, layers, num_frames, size, tiny),
    )
    steps, most = whole_number("steps", steps), whole_number("most", most)
    methods = ("stock", *ENCODINGS)
    known = {ROOFLINE, *(f"{method} {mode}" for method in methods for mode in MODES)}
    for row in rows:
        if row not in known:
            raise SightlineError(f"rows has '{row}': expected '{ROOFLINE}', or one of {methods} and one of {MODES}.")
    base = random_base(setting, device)
    for row in rows:
        torch._dynamo.reset()
        step: Any
        if row == ROOFLINE:
            step = roofline_step(base, setting, False)
        else:
            method, mode = row.split(" ", 1)
            step = make_step(variant(base, method, mode, setting), setting, False, device)  # type: ignore[arg-type]
        seconds = measure(step, steps, device).seconds
        print_line(f"{row}: {1000 * seconds:.2f} ms; {launching(step, device)}")
        print_kernels(step, device, most)
        del step
        gc.collect()


def launching(step: Any, device: torch.device) -> str:
    """When the CPU has launched a step's kernels, and when the GPU has finished them."""
    started = time.perf_counter()
    step()
    launched = time.perf_counter() - started
    done = synchronized_time(device) - started
    return f"launched after {1000 * launched:.2f} ms, done after {1000 * done:.2f}"


def print_kernels(step: Any, device: torch.device, most: int) -> None:
    cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profiled:
        step()
        if cuda:
            torch.cuda.synchronize()
    kernels = [
        (event.self_device_time_total if cuda else event.self_cpu_time_total, event.count, event.key)
        for event in profiled.key_averages()
    ]
    kernels.sort(reverse=True)
    total = sum(spent for spent, _, _ in kernels)
    lines = [(f"{us / 1000:.2f}", str(count), f"{us / count:.1f}", name[:70]) for us, count, name in kernels[:most]]
    print_table(f"{total / 1000:.2f} ms in all kernels", ("ms", "times", "us each", "kernel"), lines)


if __name__ == "__main__":
    tyro.cli(main)
