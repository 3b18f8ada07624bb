"""From a job to what is filmed: the first frame, the words, the path on the model's grid, and the truth where it is known."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from sightline.backbones.model_info import ModelInfo
from sightline.cameras import moves
from sightline.cameras.trajectory import Trajectory
from sightline.checks import parsed_size
from sightline.errors import SightlineError
from sightline.generation.first_frame import FIRST_FRAME, shipped_caption
from sightline.generation.job import DEFAULT_MOVE, DEFAULT_STYLE, Job
from sightline.images import load_image
from sightline.worlds import distance_to_solids, render_clip, sample_clip

_log = logging.getLogger("sightline")


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything a job left open, decided. image: None is text-to-video. truth: [T, H, W, 3] uint8, of a world."""

    trajectory: Trajectory
    image: Image.Image | None
    prompt: str
    steps: int
    cfg: float
    truth: np.ndarray | None = None


def make_plan(job: Job, info: ModelInfo) -> Plan:
    """Refuses what cannot be filmed, before any weight is loaded."""
    defaults = info.defaults
    steps, cfg = job.steps or defaults.num_inference_steps, defaults.guidance_scale if job.cfg is None else job.cfg
    path = make_path(job, info)
    if job.world is not None:
        _require_image_model(info, "world")
        path, truth, caption = _filmed(job, path)
        return Plan(path, Image.fromarray(truth[0]), _first(job.prompt, caption), steps, cfg, truth)
    if job.text_only or (job.image is None and job.prompt is not None and not info.takes_image):
        if not info.takes_text_alone:
            raise SightlineError("text_only is given but this model is image-to-video only: expected an image.")
        return Plan(path, None, _first(job.prompt, ""), steps, cfg)
    if not info.takes_image and job.image is None:
        raise SightlineError("prompt is missing: expected one, since this model is text-to-video only.")
    _require_image_model(info, "image")
    image = load_image(job.image or FIRST_FRAME, path.width, path.height)
    # Somebody's own picture without words gets none; the shipped one has its caption.
    return Plan(path, image, _first(job.prompt, "" if job.image else shipped_caption()), steps, cfg)


def _first(given: str | None, otherwise: str) -> str:
    return otherwise if given is None else given


def make_path(job: Job, info: ModelInfo) -> Trajectory:
    """The job's own path; a world's is put into its place later."""
    frames = job.frames or info.defaults.num_frames
    info.require_frames(frames)
    width, height = parsed_size(job.size) if job.size else (info.defaults.width, info.defaults.height)
    info.require_size(width, height)
    if job.trajectory is not None:
        return _from_file(job.trajectory, frames, info.stride.frames).fitted(width, height)
    if job.world is not None and job.move is None:
        return sample_clip(job.style or DEFAULT_STYLE, job.world, frames, width, height).true_trajectory
    return moves.parse(job.move or DEFAULT_MOVE, frames=frames, width=width, height=height)


def _from_file(file: Path, frames: int, temporal: int) -> Trajectory:
    path = Trajectory.load(file)
    if len(path) < frames:
        fewer = (len(path) - 1) // temporal * temporal + 1
        raise SightlineError(
            f"{file} has {len(path)} frames: expected at least {frames}; say --frames {fewer}, or stretch it with "
            f"`sightline trajectory convert {file} OUT --frames {frames}`."
        )
    if len(path) > frames:
        _log.info("%s has %d frames: resampled to %d over the same time.", file, len(path), frames)
    return path.resampled(frames)


def _filmed(job: Job, path: Trajectory) -> tuple[Trajectory, np.ndarray, str]:
    """The path from where the world's first camera stands, in metres, and what is truly seen along it."""
    assert job.world is not None
    clip = sample_clip(job.style or DEFAULT_STYLE, job.world, len(path), path.width, path.height)
    if job.move is not None or job.trajectory is not None:
        poses = clip.true_trajectory.camera_to_world[0] @ path.anchored().camera_to_world
        path = path.replace(camera_to_world=poses, unit="metre", near_depth=None)
    seconds = torch.arange(len(path), dtype=torch.float64) / path.fps
    distance = distance_to_solids(clip.scene, path.positions[None], seconds[None])[0]  # [T]
    if float(distance.min()) < 0:
        _log.warning(
            "the path leaves the room or enters a solid of this world at frame %d.", int((distance < 0).int().argmax())
        )
    shot = render_clip(clip.scene, path)
    return path, shot.frames.numpy(), shot.caption


def _require_image_model(info: ModelInfo, what: str) -> None:
    if not info.takes_image:
        raise SightlineError(f"{what} is given but this model is text-to-video only: expected a prompt alone.")
