"""Running a job: generates its video and writes its folder, with all that is needed to judge and to repeat it."""

from __future__ import annotations

import json
import logging
import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sightline import __version__
from sightline.digests import file_digest
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.figures import contact_sheet, picture_or_warning, side_by_side
from sightline.files import atomic_folder, require_empty, write_atomic
from sightline.generation.generate import generate, speed_of_film
from sightline.generation.job import DEFAULT_MOVE, Job
from sightline.generation.model import Model
from sightline.generation.plan import Plan, make_plan
from sightline.images import psnr
from sightline.parsing import parse_size
from sightline.video import save_video

SETTINGS = "settings.json"
_log = logging.getLogger("sightline")


OnStep = Callable[[int, torch.Tensor], None]  # called after each denoising step with its number and the latents


def run_job(
    model: Model, job: Job, *, overwrite: bool = False, rank: int = 0, on_step: OnStep | None = None
) -> dict[str, Any]:
    """Generate the job's video and write its folder, completely or not at all; returns the content of its settings.json.

    Everything that can be refused is refused before weights are loaded. rank: of processes that share one video (context
    parallel), only the first writes. on_step: may raise, which ends the job and leaves nothing behind.
    """
    clock, job = _Clock(), job.check()
    if not overwrite:
        require_empty(job.output)
    elif not _holds_video(job.output):  # replace only what an earlier job wrote
        require_empty(job.output, "a folder that `sightline generate` wrote, or a new or empty one")
        overwrite = False
    model.require_camera()
    _require_memory(model, job)
    plan = make_plan(job, model.info)
    _log.info("%s", plan.shot)
    model.require_memory(plan, camera_guidance=job.camera_guidance_scale != 1.0)
    if model.options.context_parallel != "none":
        # No process may fail alone before the others are done: the folder is created when the video is ready.
        video = _generate(model, job, plan, on_step, clock)
        if rank:
            return {}
        with atomic_folder(job.output, overwrite) as folder:
            return _write(folder, model, job, plan, video, clock)
    with atomic_folder(job.output, overwrite) as folder:  # created before the work, so that a bad path fails early
        _require_space(folder, plan, job.output)
        return _write(folder, model, job, plan, _generate(model, job, plan, on_step, clock), clock)


def request(model: Model, job: Job) -> dict[str, Any]:
    """Everything that decides the video: jobs with equal requests give the same one."""
    options = model.options
    files = {"image": job.image, "trajectory": job.trajectory}
    return {
        **job.settings(),
        "model": options.model,
        "camera": None if options.camera is None else str(options.camera),
        "weights": model.files,
        "dtype": options.dtype,
        "speed": options.speed,
        "attention": options.attention or "native",
        "tiled_decode": options.tiled_decode,
        "sha256": {name: file_digest(file) for name, file in files.items() if file is not None and file.is_file()},
    }


def is_finished(model: Model, job: Job) -> bool:
    """Whether the job's folder holds the video of this very request; a folder with another video is refused."""
    if not (job.output / SETTINGS).is_file():
        return False
    earlier = read_json(job.output / SETTINGS, "the settings of a video").get("request")
    if not isinstance(earlier, dict):
        raise SightlineError(f"{job.output / SETTINGS} cannot be read: expected the settings of a video.")
    wanted = request(model, job)
    if different := [name for name in wanted if earlier.get(name) != wanted[name]]:
        name = different[0]
        if name == "weights":
            raise SightlineError(
                f"{job.output} holds a video of other weights, whose files were replaced since then: expected the same ones, "
                "another folder, or --overwrite to replace it."
            )
        raise SightlineError(
            f"{job.output} holds a video with {name} {earlier.get(name)!r}: expected {wanted[name]!r}, another folder, or "
            "--overwrite to replace it."
        )
    return True


def _holds_video(folder: Path) -> bool:
    """Whether an earlier job wrote the folder. Evaluations and caches have a settings.json too."""
    if not (folder / SETTINGS).is_file():
        return False
    try:
        return isinstance(read_json(folder / SETTINGS, "the settings of a video").get("request"), dict)
    except SightlineError:
        return False


def _require_memory(model: Model, job: Job) -> None:
    """Refuse a size that cannot fit, before a picture or a trajectory of that size is made."""
    defaults = model.info.defaults
    width, height = parse_size(job.size) if job.size else (defaults.width, defaults.height)
    num_frames = job.num_frames or defaults.num_frames
    model.info.require_size(width, height)  # no memory is enough for what the model cannot count
    model.info.require_num_frames(num_frames)
    model.require_memory_for(num_frames, width, height, job.camera_guidance_scale != 1.0)


class _Clock:
    """When a job started, when its model was loaded, and when its last step had ended; monotonic seconds."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.loaded: float | None = None
        self.sampled: float | None = None

    def seconds(self) -> dict[str, float]:
        """Of all until now. Where the steps were followed, also of sampling and of what came after it, both without loading."""
        now = time.monotonic()
        found = {"seconds": now - self.started}
        if self.loaded is not None and self.sampled is not None:
            found |= {"sampling_seconds": self.sampled - self.loaded, "decoding_seconds": now - self.sampled}
        return {name: round(value, 1 if name == "seconds" else 3) for name, value in found.items()}


def _generate(
    model: Model, job: Job, plan: Plan, on_step: OnStep | None, clock: _Clock
) -> np.ndarray:  # -> [T, H, W, 3] uint8
    def after_step(_pipe: Any, step: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        if on_step is not None:
            on_step(step, tensors["latents"])
        clock.sampled = time.monotonic()
        return tensors

    options: dict[str, Any] = {} if on_step is None else {"callback_on_step_end": after_step}
    try:
        pipe = model.pipe
        clock.loaded = time.monotonic()
        return generate(
            pipe,
            plan.image,
            plan.prompt,
            plan.trajectory,
            negative_prompt=job.negative_prompt,
            num_inference_steps=plan.num_inference_steps,
            guidance_scale=plan.guidance_scale,
            camera_guidance_scale=job.camera_guidance_scale,
            seed=job.seed,
            **options,
        )
    except torch.OutOfMemoryError:
        raise SightlineError(
            "the GPU's memory is full: expected --offload model or group, --tiled-decode, a smaller --size or fewer "
            "--num-frames."
        ) from None


def _write(folder: Path, model: Model, job: Job, plan: Plan, video: np.ndarray, clock: _Clock) -> dict[str, Any]:
    trajectory, truth = plan.trajectory, plan.ground_truth
    result: dict[str, Any] = {}
    title = str(job.trajectory or job.move or (DEFAULT_MOVE if job.world is None else "own trajectory"))
    save_video(video, folder / "video.mp4", fps=trajectory.fps)
    videos, captions = [video], [f"{title} | {plan.prompt}"]
    if truth is not None:
        decibels = psnr(video, truth)
        result["psnr"] = {"mean": round(float(decibels.mean()), 3), "per_frame": np.round(decibels, 3).tolist()}
        save_video(truth, folder / "true.mp4", fps=trajectory.fps)
        save_video(side_by_side(truth, video), folder / "side-by-side.mp4", fps=trajectory.fps)
        videos, captions = [truth, video], ["true", f"generated | {captions[0]}"]
    with picture_or_warning(job.output / "sheet.png"):
        contact_sheet(videos, captions).save(folder / "sheet.png")
    with picture_or_warning(job.output / "trajectory.png"):
        trajectory.plot(folder / "trajectory.png", title=title)
    trajectory.save(folder / "trajectory.json")
    result["video_sha256"] = file_digest(folder / "video.mp4")
    result |= clock.seconds()
    speed = speed_of_film(model.pipe, model.info, trajectory, plan.num_inference_steps, plan.guidance_scale)
    settings = {
        "request": request(model, job),
        "generated": {
            "trajectory": title,
            "shot": plan.shot,
            "prompt": plan.prompt,
            "negative_prompt": job.negative_prompt,
            "first_frame": plan.image is not None,
            "num_frames": len(trajectory),
            "width": trajectory.width,
            "height": trajectory.height,
            "fps": trajectory.fps,
            "num_inference_steps": plan.num_inference_steps,
            "guidance_scale": plan.guidance_scale,
            "camera_guidance_scale": job.camera_guidance_scale,
            "seed": job.seed,
        },
        "model": model.settings(),
        "speed": speed.settings(),
        "versions": _versions(),
        "result": result,
    }
    write_atomic(folder / SETTINGS, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    return settings


def _require_space(folder: Path, plan: Plan, output: Path) -> None:
    """Refuse a disk that could not hold the pixels uncompressed, which are larger than the files."""
    trajectory = plan.trajectory
    pixels = len(trajectory) * trajectory.height * trajectory.width
    needed = pixels * 3 * (1 if plan.ground_truth is None else 4)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise SightlineError(
            f"{output} lies on a disk with {free / 2**20:.1f} MiB free: expected at least {needed / 2**20:.1f} MiB."
        )


def _versions() -> dict[str, str]:
    import diffusers
    import transformers

    return {
        "sightline": __version__,
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
