"""Filming a job and writing its folder: the video and what it takes to judge it and to make it again."""

from __future__ import annotations

import json
import platform
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sightline import __version__
from sightline.digests import file_digest
from sightline.errors import SightlineError
from sightline.figures import contact_sheet, side_by_side
from sightline.files import atomic_folder, read_json, require_empty, write_atomic
from sightline.generation.generate import generate
from sightline.generation.job import DEFAULT_MOVE, Job
from sightline.generation.model import Model, ModelOptions
from sightline.generation.plan import Plan, make_plan
from sightline.images import psnr
from sightline.video import save_video

SETTINGS = "settings.json"


def run_job(model: Model, job: Job, *, overwrite: bool = False, rank: int = 0) -> dict[str, Any]:
    """Film the job and write its folder, whole or not at all; returns what its settings.json holds.

    Everything that can be refused is refused before weights are loaded. rank: of processes that share one video, only
    the first writes.
    """
    started = time.monotonic()
    if not overwrite or not (job.output / SETTINGS).is_file():  # what is replaced is a film, not somebody's papers
        require_empty(job.output)
    model.require_camera()
    plan = make_plan(job.check(), model.info)
    model.require_memory(plan, guided=job.camera_cfg != 1.0)
    if model.options.context_parallel != "none":
        # No process may fail alone before the others are through: the folder is opened when the film is ready.
        video = _filmed(model, job, plan)
        if rank:
            return {}
        with atomic_folder(job.output, overwrite) as folder:
            return _write(folder, model, job, plan, video, started)
    with atomic_folder(job.output, overwrite) as folder:  # before the work, so that a wrong place costs none
        _require_space(folder, plan, job.output)
        return _write(folder, model, job, plan, _filmed(model, job, plan), started)


def request(options: ModelOptions, job: Job) -> dict[str, Any]:
    """What decides the film: two equal ones need not be made twice."""
    files = {"image": job.image, "trajectory": job.trajectory}
    return {
        **job.settings(),
        "model": options.model,
        "camera": None if options.camera is None else str(options.camera),
        "dtype": options.dtype,
        "sha256": {name: file_digest(file) for name, file in files.items() if file is not None and file.is_file()},
    }


def is_finished(options: ModelOptions, job: Job) -> bool:
    """Whether the job's folder holds this very film; a folder that holds another one is refused."""
    if not (job.output / SETTINGS).is_file():
        return False
    found = read_json(job.output / SETTINGS, "the settings of a video").get("request")
    if not isinstance(found, dict):
        raise SightlineError(f"{job.output / SETTINGS} cannot be read: expected the settings of a video.")
    wanted = request(options, job)
    if different := [name for name in wanted if found.get(name) != wanted[name]]:
        name = different[0]
        raise SightlineError(
            f"{job.output} holds a film with {name} {found.get(name)!r}: expected {wanted[name]!r}, another folder, or "
            "--overwrite to replace it."
        )
    return True


def _filmed(model: Model, job: Job, plan: Plan) -> np.ndarray:  # -> [T, H, W, 3] uint8
    try:
        return generate(
            model.pipe, plan.image, plan.prompt, plan.trajectory, negative_prompt=job.negative_prompt, steps=plan.steps,
            guidance=plan.cfg, camera_guidance=job.camera_cfg, seed=job.seed,
        )  # fmt: skip
    except torch.OutOfMemoryError:
        raise SightlineError(
            "the GPU's memory is full: expected --offload model or group, --tiled-decode, a smaller --size or fewer --frames."
        ) from None


def _write(folder: Path, model: Model, job: Job, plan: Plan, video: np.ndarray, started: float) -> dict[str, Any]:
    path, title = (
        plan.trajectory,
        str(job.trajectory or job.move or (DEFAULT_MOVE if job.world is None else "own path")),
    )
    result: dict[str, Any] = {}
    save_video(video, folder / "video.mp4", fps=path.fps)
    films, captions = [video], [f"{title} | {plan.prompt}"]
    if plan.truth is not None:
        decibels = psnr(video, plan.truth)
        result["psnr"] = {"mean": round(float(decibels.mean()), 3), "of each frame": np.round(decibels, 3).tolist()}
        save_video(plan.truth, folder / "true.mp4", fps=path.fps)
        save_video(side_by_side(plan.truth, video), folder / "side-by-side.mp4", fps=path.fps)
        films, captions = [plan.truth, video], ["true", f"generated | {captions[0]}"]
    contact_sheet(films, captions).save(folder / "sheet.png")
    path.plot(folder / "path.png", title=title)
    path.save(folder / "path.json")
    result["sha256 of video.mp4"] = file_digest(folder / "video.mp4")
    result["seconds"] = round(time.monotonic() - started, 1)
    settings = {
        "request": request(model.options, job),
        "filmed": {
            "path": title, "prompt": plan.prompt, "negative_prompt": job.negative_prompt, "first frame": plan.image is not None,
            "frames": len(path), "width": path.width, "height": path.height, "fps": path.fps, "steps": plan.steps,
            "cfg": plan.cfg, "camera_cfg": job.camera_cfg, "seed": job.seed,
        },
        "model": model.settings(),
        "versions": _versions(),
        "result": result,
    }  # fmt: skip
    write_atomic(folder / SETTINGS, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    return settings


def _require_space(folder: Path, plan: Plan, output: Path) -> None:
    """Films are smaller than their pixels: where those fit, the folder will."""
    path = plan.trajectory
    needed = len(path) * path.height * path.width * 3 * (1 if plan.truth is None else 4)
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
