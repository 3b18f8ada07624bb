"""What generating a video costs: seconds per denoising step and peak memory, over whole calls of the pipeline."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sightline import __version__
from sightline.backbones.pipelines import experts
from sightline.checks import whole_number
from sightline.evaluation.results import RESULTS, Sampling, write_result
from sightline.evaluation.tables import grid
from sightline.files import write_atomic
from sightline.generation.generate import generate
from sightline.generation.job import Job
from sightline.generation.model import Model
from sightline.generation.plan import make_plan
from sightline.timing import StepTimer, peak_gpu_gib, peak_process_gib, reset_peak_memory


@dataclass(frozen=True)
class StepSeconds:
    mean: float
    median: float
    std: float


@dataclass(frozen=True)
class EfficiencyCounts:
    """Videos asked for, measured and failed, and the denoising steps of all of them."""

    asked: int
    scored: int
    failed: int
    steps: int


@dataclass(frozen=True)
class EfficiencySettings:
    """model: as the model describes itself."""

    model: dict[str, Any]
    sampling: Sampling
    num_frames: int
    width: int
    height: int
    warm_up: bool
    device_name: str
    threads: int
    torch: str
    sightline: str


@dataclass(frozen=True)
class EfficiencyResults:
    """What results.json holds. peak_of: whose memory peak_gib is."""

    label: str
    protocol: str
    encoding: str
    step_seconds: StepSeconds
    seconds_of_each_step: list[list[float]]
    peak_gib: float
    peak_of: str
    counts: EfficiencyCounts
    settings: EfficiencySettings


def measure_efficiency(
    model: Model, job: Job, sampling: Sampling, label: str, runs: int = 1, warm_up: bool = True
) -> EfficiencyResults:
    """Generate the video of one job `runs` times. The warm-up video, if there is one, is not counted."""
    whole_number("runs", runs)
    model.require_camera()
    plan = make_plan(job.check(), model.info)
    model.require_memory(plan, camera_guidance=sampling.camera_guidance_scale != 1.0)
    pipe, device = model.pipe, model.device
    steps: list[list[float]] = []
    peaks: list[float] = []
    for number in range(runs + warm_up):
        timer = StepTimer(device)
        hooks = [expert.register_forward_pre_hook(timer.begin) for expert in experts(pipe).values()]
        reset_peak_memory(device)
        try:
            generate(
                pipe, plan.image, plan.prompt, plan.trajectory, num_inference_steps=sampling.num_inference_steps,
                guidance_scale=sampling.guidance_scale, camera_guidance_scale=sampling.camera_guidance_scale, seed=sampling.seed,
                callback_on_step_end=timer.end_step,
            )  # fmt: skip
        finally:
            for hook in hooks:
                hook.remove()
        if number >= warm_up:
            steps.append(timer.seconds)
            peaks.append(peak_gpu_gib(device) or peak_process_gib())
    seconds = np.concatenate(steps)
    trajectory = plan.trajectory
    return EfficiencyResults(
        label=label,
        protocol="efficiency",
        encoding=_encoding(pipe),
        step_seconds=StepSeconds(float(seconds.mean()), float(np.median(seconds)), float(seconds.std())),
        seconds_of_each_step=[np.round(of_run, 6).tolist() for of_run in steps],
        peak_gib=max(peaks),
        peak_of="the GPU, as torch allocates it" if device.type == "cuda" else "the whole process in main memory",
        counts=EfficiencyCounts(runs, len(steps), runs - len(steps), len(seconds)),
        settings=EfficiencySettings(
            model=model.settings(),
            sampling=sampling,
            num_frames=len(trajectory),
            width=trajectory.width,
            height=trajectory.height,
            warm_up=warm_up,
            device_name=_device_name(device),
            threads=torch.get_num_threads(),
            torch=torch.__version__,
            sightline=__version__,
        ),
    )


def write_efficiency(results: EfficiencyResults, output: Path) -> str:
    """Write results.json and table.md; returns the table."""
    settings, counts, scale = results.settings, results.counts, results.settings.sampling.guidance_scale
    row = [
        results.label, results.encoding, f"{results.step_seconds.mean:.4g}", f"{results.step_seconds.median:.4g}",
        f"{results.peak_gib:.4g}", str(counts.asked), str(counts.scored), str(counts.failed),
    ]  # fmt: skip
    head = ["Method", "Camera integration", "Step latency (s) ↓", "median (s) ↓", "Peak memory (GiB) ↓", "n asked", "n scored",
            "n failed"]  # fmt: skip
    method = (
        f"Mean over {counts.steps} denoising steps of {counts.scored} whole video(s) of {settings.num_frames} frames of "
        f"{settings.width}x{settings.height} in {settings.model['dtype']} on {settings.device_name}, text guidance "
        f"{scale:g} ({'two passes' if scale > 1 else 'one pass'} a step)"
        f"{', after one to warm up' if settings.warm_up else ''}. Memory is that of {results.peak_of}."
    )
    text = f"# Efficiency\n\n{method}\n\n{grid(head, [row])}\n"
    write_result(output / RESULTS, results)
    write_atomic(output / "table.md", text)
    return text


def _encoding(pipe: Any) -> str:
    config = getattr(pipe.transformer.config, "encoding", None)
    return str(config.get("name") or config.get("kind") or config) if isinstance(config, dict) else str(config)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"a CPU ({platform.machine()})"
