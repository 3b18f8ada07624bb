"""From a job to a plan: everything that the job leaves to defaults is decided, before any weight is loaded."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image

from sightline.backbones.model_info import ModelInfo
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.generation.first_frame import FIRST_FRAME, shipped_caption
from sightline.generation.job import DEFAULT_STYLE, Job
from sightline.generation.prompts import note_unused_negative_prompt
from sightline.generation.shot import make_shot
from sightline.images import load_image
from sightline.worlds import distance_to_solids, render_clip, sample_clip

_log = logging.getLogger("sightline")


@dataclass(frozen=True, eq=False)
class Plan:
    """What is generated, with every default filled in."""

    trajectory: Trajectory
    image: Image.Image | None  # the first frame; None is text-to-video
    prompt: str
    num_inference_steps: int
    guidance_scale: float
    ground_truth: np.ndarray | None = None  # [T, H, W, 3] uint8, rendered, where the job is a world
    shot: str = ""  # one line that describes it


def make_plan(job: Job, info: ModelInfo) -> Plan:
    """The plan of a job for a model; refuses what the model cannot do."""
    defaults = info.defaults
    num_inference_steps = job.num_inference_steps or defaults.num_inference_steps
    guidance_scale = defaults.guidance_scale if job.guidance_scale is None else job.guidance_scale
    sampling = (num_inference_steps, guidance_scale)
    info.require_sampling(*sampling)
    note_unused_negative_prompt(job.negative_prompt, guidance_scale)
    shot = make_shot(job, info)
    info.require_lens(shot.trajectory)
    info.require_one_window(len(shot.trajectory))
    info.require_conditioning(camera_guidance_scale=job.camera_guidance_scale)
    if job.world is not None:
        _require_image_model(info, "world")
        trajectory, video, caption = _render_world(job, shot.trajectory)
        line = str(replace(shot, trajectory=trajectory))
        return Plan(trajectory, Image.fromarray(video[0]), _default(job.prompt, caption), *sampling, video, line)
    image, prompt = _image_and_prompt(job, info, shot.trajectory)
    return Plan(shot.trajectory, image, prompt, *sampling, shot=str(shot))


def _image_and_prompt(job: Job, info: ModelInfo, trajectory: Trajectory) -> tuple[Image.Image | None, str]:
    if job.text_only or (job.image is None and job.prompt is not None and not info.takes_image):
        if not info.takes_text_alone:
            raise SightlineError("text_only is given but this model is image-to-video only: expected an image.")
        return None, _default(job.prompt, "")
    if not info.takes_image and job.image is None:
        raise SightlineError("prompt is missing: expected one, since this model is text-to-video only.")
    _require_image_model(info, "image")
    image = load_image(job.image or FIRST_FRAME, trajectory.width, trajectory.height)
    # A user's own image without a prompt gets the empty one; the shipped frame has a caption.
    return image, _default(job.prompt, "" if job.image else shipped_caption())


def _default(prompt: str | None, default: str) -> str:
    return default if prompt is None else prompt


def _render_world(job: Job, trajectory: Trajectory) -> tuple[Trajectory, np.ndarray, str]:
    """The trajectory from the world's first camera on, in metres; the video rendered along it; and its caption."""
    assert job.world is not None
    clip = sample_clip(job.style or DEFAULT_STYLE, job.world, len(trajectory), trajectory.width, trajectory.height)
    if job.move is not None or job.trajectory is not None:
        poses = clip.true_trajectory.camera_to_world[0] @ trajectory.anchored().camera_to_world
        trajectory = trajectory.replace(camera_to_world=poses, unit="metre", near_depth=None)
    seconds = torch.arange(len(trajectory), dtype=torch.float64) / trajectory.fps
    distance = distance_to_solids(clip.scene, trajectory.positions[None], seconds[None])[0]  # [T]
    if float(distance.min()) < 0:
        _log.warning(
            "the trajectory leaves the room or enters a solid of this world at frame %d.",
            int((distance < 0).int().argmax()),
        )
    rendered = render_clip(clip.scene, trajectory)
    return trajectory, rendered.frames.numpy(), rendered.caption


def _require_image_model(info: ModelInfo, what: str) -> None:
    if not info.takes_image:
        raise SightlineError(f"{what} is given but this model is text-to-video only: expected a prompt alone.")
