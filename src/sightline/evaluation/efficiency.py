"""What a video costs with each method: seconds per denoising step and peak memory, over whole calls of the pipeline."""

from __future__ import annotations

import gc
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sightline import __version__
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.stock import experts
from sightline.backbones.wan_configs import TI2V_5B
from sightline.checks import whole_number
from sightline.encodings import encoding_from_config
from sightline.encodings.registry import encoding_names
from sightline.errors import SightlineError
from sightline.evaluation.paper import PAPER, is_release
from sightline.evaluation.results import PaperRecord, Sampling
from sightline.generation.generate import generate
from sightline.generation.job import Job
from sightline.generation.model import Model
from sightline.generation.model_options import ModelOptions
from sightline.generation.plan import Plan, make_plan
from sightline.parsing import parse_query, parse_scalar
from sightline.timing import GB, GIB, StepTimer, peak_gpu_gib, peak_process_gib, reset_peak_memory

PAPER_METHODS = ("ucpe", "prope", "scope")  # in the order of the paper's table
STOCK = "stock"
INTEGRATIONS = {
    "scope": "Additive Q/K injection",
    "ucpe": "Compressed parallel branch",
    "prope": "Full parallel branch",
    STOCK: "none",
}


@dataclass(frozen=True)
class StepSeconds:
    mean: float
    median: float
    std: float


@dataclass(frozen=True)
class MethodCost:
    """One method. integration: how the camera enters the model. peak_gb: in 10^9 bytes, as the paper reports it.

    failure: one sentence where the method could not be measured; the numbers are then None.
    """

    label: str
    encoding: str
    integration: str
    step_seconds: StepSeconds | None = None
    seconds_of_each_step: list[list[float]] = field(default_factory=list)
    peak_gb: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class EfficiencySettings:
    """What decides the numbers. peak_of: whose memory the peak is. paper: for a run by the paper's protocol."""

    model: str
    dtype: str
    offload: str
    speed: str
    attention: str
    sampling: Sampling
    num_frames: int
    width: int
    height: int
    videos: int
    warm_up: bool
    device_name: str
    threads: int
    peak_of: str
    torch: str
    sightline: str
    paper: PaperRecord | None = None


@dataclass(frozen=True)
class EfficiencyResults:
    """What results.json holds."""

    protocol: str
    methods: list[MethodCost]
    settings: EfficiencySettings


def measure_efficiency(
    options: ModelOptions,
    methods: Sequence[str],
    job: Job,
    sampling: Sampling,
    *,
    label: str,
    videos: int = 1,
    warm_up: bool = True,
    paper: bool = False,
    on_done: Callable[[str], None] = lambda line: None,
) -> EfficiencyResults:
    """Generate the video of one job `videos` times with each method; a warm-up video before them is not counted.

    methods: encodings by name, with settings as in "ucpe?ratio=4", which are added untrained (time and memory do not depend on
    the weights); files of camera weights; "stock", the model without a camera. Empty: the model with its own camera, as `label`.
    """
    whole_number("runs", videos)
    for name in methods:
        open_method(options, name)  # a wrong name is refused before the first one is measured
    costs: list[MethodCost] = []
    for method in (*methods,) or (None,):
        model = Model(options) if method is None else open_method(options, method)
        model.on_load = lambda pipe: pipe.set_progress_bar_config(disable=True)
        if method is None:
            model.require_camera()
        plan = make_plan(job.check(), model.info)
        model.require_memory(plan, camera_guidance=sampling.camera_guidance_scale != 1.0)
        costs.append(_measure(model, method or label, plan, sampling, videos, warm_up))
        on_done(f"{costs[-1].label}: {costs[-1].failure or 'measured'}")
        settings, is_paper_model = _settings(model, plan, sampling, videos, warm_up), is_release(model.info, TI2V_5B)
        del model  # so that nothing of it stays in memory for the next one
        gc.collect()
    if paper:
        settings = replace(settings, paper=_paper_record(settings, [cost.encoding for cost in costs], is_paper_model))
    return EfficiencyResults("efficiency", costs, settings)


def open_method(options: ModelOptions, method: str) -> Model:
    """The model with this method; nothing is loaded yet."""
    if method == STOCK:
        return Model(replace(options, model=options.model or "lab", camera=None))
    name, settings = parse_query("the method", method)
    if name in encoding_names():
        config: dict[str, Any] = {"name": name, **{key: parse_scalar(value) for key, value in settings.items()}}
        if name == "cameractrl":  # whose encoder sees pixels
            config.setdefault("pixels", Model(replace(options, camera=None)).info.stride.width)
        return Model(replace(options, camera=None), encoding=encoding_from_config(config))
    if not Path(method).exists():
        raise SightlineError(
            f"methods has {method!r}: expected {STOCK}, camera weights, or one of {', '.join(encoding_names())}."
        )
    return Model(replace(options, camera=Path(method)))


def _measure(model: Model, name: str, plan: Plan, sampling: Sampling, videos: int, warm_up: bool) -> MethodCost:
    label = name if not Path(name).exists() else Path(name).stem
    try:
        encoding = _encoding(model.pipe)
        steps, peak = _generate(model.pipe, model.device, plan, sampling, videos, warm_up)
    except torch.OutOfMemoryError:
        return MethodCost(label, name.partition("?")[0], "", failure="the GPU's memory is full")
    except SightlineError as error:
        return MethodCost(label, name.partition("?")[0], "", failure=str(error))
    seconds = np.concatenate(steps)
    return MethodCost(
        label,
        encoding,
        INTEGRATIONS.get(encoding, encoding),
        step_seconds=StepSeconds(float(seconds.mean()), float(np.median(seconds)), float(seconds.std())),
        seconds_of_each_step=[np.round(of_video, 6).tolist() for of_video in steps],
        peak_gb=peak,
    )


def _generate(
    pipe: Any, device: torch.device, plan: Plan, sampling: Sampling, videos: int, warm_up: bool
) -> tuple[list[list[float]], float]:
    """The seconds of each step of each video, and the peak memory in GB."""
    steps, peaks = [], []
    for number in range(videos + warm_up):
        timer = StepTimer(device)
        hooks = [expert.register_forward_pre_hook(timer.begin) for expert in experts(pipe).values()]
        reset_peak_memory(device)
        try:
            generate(
                pipe, plan.image, plan.prompt, plan.trajectory, num_inference_steps=sampling.num_inference_steps,
                guidance_scale=sampling.guidance_scale, camera_guidance_scale=sampling.camera_guidance_scale,
                negative_prompt=sampling.negative_prompt, seed=sampling.seed, blind=not ModelInfo.of(pipe).has_camera,
                callback_on_step_end=timer.end_step,
            )  # fmt: skip
        finally:
            for hook in hooks:
                hook.remove()
        if number >= warm_up:
            steps.append(timer.seconds)
            peaks.append((peak_gpu_gib(device) or peak_process_gib()) * GIB / GB)
    return steps, max(peaks)


def _settings(model: Model, plan: Plan, sampling: Sampling, videos: int, warm_up: bool) -> EfficiencySettings:
    described, device, trajectory = model.settings(), model.device, plan.trajectory
    return EfficiencySettings(
        model=model.options.model if model.options.model not in (None, "lab") else "the lab model",
        **{name: described[name] for name in ("dtype", "offload", "speed", "attention")},
        sampling=sampling,
        num_frames=len(trajectory),
        width=trajectory.width,
        height=trajectory.height,
        videos=videos,
        warm_up=warm_up,
        device_name=_device_name(device),
        threads=torch.get_num_threads(),
        peak_of="the GPU, as torch allocates it" if device.type == "cuda" else "the whole process in main memory",
        torch=torch.__version__,
        sightline=__version__,
    )


def _paper_record(settings: EfficiencySettings, encodings: Sequence[str], is_paper_model: bool) -> PaperRecord:
    paper = PAPER["standard"]
    found = {"size": f"{settings.width}x{settings.height}", "num_frames": settings.num_frames}
    wanted: dict[str, Any] = {"size": f"{paper.width}x{paper.height}", "num_frames": paper.num_frames}
    for name in ("num_inference_steps", "guidance_scale", "camera_guidance_scale"):
        found[name], wanted[name] = getattr(settings.sampling, name), getattr(paper, name)
    deviations = [
        f"{name} is {found[name]}, the paper's {wanted[name]}" for name in found if found[name] != wanted[name]
    ]
    if missing := [name for name in PAPER_METHODS if name not in encodings]:
        deviations.append(f"not measured: {', '.join(missing)}")
    if not is_paper_model:
        deviations.append(f"the model is another than the paper's {TI2V_5B.hub_id}")
    fixed = [f"{name}: {value}" for name, value in wanted.items()]
    fixed += [f"methods: {', '.join(PAPER_METHODS)}", f"model: {TI2V_5B.hub_id}"]
    left_open = [
        f"the GPU: {settings.device_name}",
        f"the data type: {settings.dtype}; offload: {settings.offload}; speed: {settings.speed}; attention: "
        f"{settings.attention}",
        "the first frame, the prompt and the trajectory: those that ship, on an orbit",
    ]
    return PaperRecord(fixed, deviations, left_open)


def _encoding(pipe: Any) -> str:
    if ModelInfo.of(pipe).needs_camera:
        return "its own"
    config = getattr(pipe.transformer.config, "encoding", None)
    return str(config["name"]) if isinstance(config, dict) else STOCK


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"a CPU ({platform.machine()})"
