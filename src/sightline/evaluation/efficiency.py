"""What a film costs: seconds of a denoising step, and the most memory, over whole runs of the pipeline."""

from __future__ import annotations

import json
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sightline import __version__
from sightline.backbones.pipelines import experts
from sightline.checks import whole_number
from sightline.evaluation.results import RESULTS
from sightline.evaluation.run import Sampling
from sightline.evaluation.tables import grid
from sightline.files import write_atomic
from sightline.generation.generate import generate
from sightline.generation.job import Job
from sightline.generation.model import Model
from sightline.generation.plan import make_plan


def measure_efficiency(
    model: Model, job: Job, sampling: Sampling, runs: int = 1, warm_up: bool = True
) -> dict[str, Any]:
    """Whole films of one job. A step's latency is from the first transformer call, or the end of the step before, to the
    step's end; the warm-up film, where there is one, is not counted."""
    whole_number("runs", runs)
    model.require_camera()
    plan = make_plan(job.check(), model.info)
    model.require_memory(plan, guided=sampling.camera_cfg != 1.0)
    pipe = model.pipe
    steps: list[list[float]] = []
    peaks: list[float] = []
    for number in range(runs + warm_up):
        clock = _Clock(model.device)
        hooks = [one.register_forward_pre_hook(clock.begin) for one in experts(pipe).values()]
        _reset_peak(model.device)
        try:
            generate(
                pipe, plan.image, plan.prompt, plan.trajectory, steps=sampling.steps, guidance=sampling.cfg,
                camera_guidance=sampling.camera_cfg, seed=sampling.seed, callback_on_step_end=clock.step,
            )  # fmt: skip
        finally:
            for hook in hooks:
                hook.remove()
        if number >= warm_up:
            steps.append(clock.seconds)
            peaks.append(_peak(model.device))
    every = np.concatenate(steps)
    path = plan.trajectory
    return {
        "protocol": "efficiency",
        "encoding": _encoding(pipe),
        "step_seconds": {"mean": float(every.mean()), "median": float(np.median(every)), "std": float(every.std())},
        "seconds_of_each_step": [np.round(one, 6).tolist() for one in steps],
        "peak_gib": max(peaks) / 2**30,
        "peak_of": "the GPU, as torch allocates it" if model.device.type == "cuda" else "the whole process in main memory",
        "n": {"asked": runs, "scored": len(steps), "failed": runs - len(steps), "steps": len(every)},
        "settings": {
            **model.settings(), "frames": len(path), "width": path.width, "height": path.height, "steps": sampling.steps,
            "cfg": sampling.cfg, "camera_cfg": sampling.camera_cfg, "seed": sampling.seed, "warm_up": warm_up,
            "device_name": _device_name(model.device), "threads": torch.get_num_threads(), "torch": torch.__version__,
            "sightline": __version__,
        },
    }  # fmt: skip


def write_efficiency(found: dict[str, Any], output: Path, label: str) -> str:
    """results.json and table.md; returns the table."""
    made, n, latency = found["settings"], found["n"], found["step_seconds"]
    row = [
        label, found["encoding"], f"{latency['mean']:.4g}", f"{latency['median']:.4g}", f"{found['peak_gib']:.4g}",
        str(n["asked"]), str(n["scored"]), str(n["failed"]),
    ]  # fmt: skip
    head = ["Method", "Camera integration", "Step latency (s) ↓", "median (s) ↓", "Peak memory (GiB) ↓", "n asked", "n scored",
            "n failed"]  # fmt: skip
    how = (
        f"Mean over {n['steps']} denoising steps of {n['scored']} whole film(s) of {made['frames']} frames of "
        f"{made['width']}x{made['height']} in {made['dtype']} on {made['device_name']}, text guidance {made['cfg']:g} "
        f"({'two passes' if made['cfg'] > 1 else 'one pass'} a step){', after one to warm up' if made['warm_up'] else ''}. "
        f"Memory is that of {found['peak_of']}."
    )
    text = f"# Efficiency\n\n{how}\n\n{grid(head, [row])}\n"
    write_atomic(output / RESULTS, json.dumps({"label": label, **found}, indent=1) + "\n")
    write_atomic(output / "table.md", text)
    return text


class _Clock:
    """Seconds of each step; a GPU is waited for before the clock is read."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.last: float | None = None
        self.seconds: list[float] = []

    def begin(self, *_: Any) -> None:
        if self.last is None:
            self.last = self._now()

    def step(self, _pipe: Any, _step: int, _timestep: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        now = self._now()
        self.seconds.append(now - (now if self.last is None else self.last))
        self.last = now
        return kwargs

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: torch.device) -> float:  # bytes
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts in KiB
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _encoding(pipe: Any) -> str:
    found = getattr(pipe.transformer.config, "encoding", None)
    return str(found.get("name") or found.get("kind") or found) if isinstance(found, dict) else str(found)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"a CPU ({platform.machine()})"
