"""generate: from a first frame, a prompt and a camera trajectory to a video that follows the trajectory."""

from __future__ import annotations

from contextlib import nullcontext
from inspect import signature
from typing import Any

import numpy as np
import torch
from PIL import Image

from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.families import Family, family_of, token_stride
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.sana_wm import camera_arguments
from sightline.backbones.speed import PLAIN_PIPELINES, FilmSpeed, film_speed, running
from sightline.backbones.stock import STOCK_PIPELINES, AnyPipeline, experts
from sightline.cameras.token_grid import TokenGrid, TokenStride
from sightline.cameras.tokens import CameraTokens, LatentPose
from sightline.cameras.trajectory import Trajectory, require_trajectory
from sightline.checks import check_seed, number, whole_number
from sightline.errors import SightlineError
from sightline.generation.joined_guidance import joined_guidance
from sightline.generation.prompts import encoded_prompts
from sightline.images import as_frames, load_image

_SET_BY_GENERATE = {"height", "width", "num_frames", "generator", "output_type"}
_CAMERA = {"camera", "camera_guidance_scale"}  # of attention_kwargs
_ONE_VIDEO = {"num_videos_per_prompt": 1, "return_dict": True}  # the values of these options that return one array


def generate(
    pipe: AnyPipeline,
    image: Any,  # a file, a PIL image, an array [H, W, 3], or None for text-to-video
    prompt: str,
    trajectory: Trajectory,
    *,
    negative_prompt: str | None = None,
    num_inference_steps: int | None = None,
    guidance_scale: float | None = None,
    camera_guidance_scale: float = 1.0,
    blind: bool = False,
    seed: int = 0,
    anchor: int | None = 0,
    latent_pose: LatentPose = "last",
    **options: Any,  # passed on to the pipeline
) -> np.ndarray:  # [T, H, W, 3] uint8
    """Generate a video along the trajectory, which also sets the number of frames and their size.

    image: becomes the first frame; it is scaled to cover the trajectory's picture and cropped in the middle.
    num_inference_steps, guidance_scale: the model's own by default, 50 and 5 for TI2V-5B, 12 and 1 for the lab model.
        Guidance is on the text; both of its passes get the same camera.
    camera_guidance_scale: 1, as in the paper, runs the camera's pass alone. Any other value w also runs a pass without
        the camera and extrapolates, without + w * (with - without), at twice the cost.
    blind: do not condition on the trajectory; the model then needs no camera. For comparison.
    anchor, latent_pose: see CameraTokens.from_trajectory.
    """
    family = family_of(pipe)
    require_trajectory(trajectory)
    if not isinstance(prompt, str):
        raise SightlineError(
            f"prompt is a {type(prompt).__name__}: expected one text; call generate once for each video."
        )
    info = ModelInfo.of(pipe)
    defaults = info.defaults
    num_inference_steps = defaults.num_inference_steps if num_inference_steps is None else num_inference_steps
    guidance_scale = defaults.guidance_scale if guidance_scale is None else guidance_scale
    num_inference_steps = whole_number("num_inference_steps", num_inference_steps)
    guidance_scale = number("guidance_scale", guidance_scale, at_least=0.0)
    camera_guidance_scale = number("camera_guidance_scale", camera_guidance_scale)
    seed = check_seed(seed)
    if reserved := sorted(set(options) & _SET_BY_GENERATE):
        raise SightlineError(f"{reserved[0]} is set by generate itself: expected trajectory or seed instead.")
    for name, value in _ONE_VIDEO.items():
        if options.get(name, value) != value:
            raise SightlineError(f"{name} is {options[name]!r}: expected {value!r}, since generate returns one video.")
    if own := sorted(_CAMERA & set(options.get("attention_kwargs") or {})):
        raise SightlineError(
            f"attention_kwargs has {own[0]!r}, set by generate: expected trajectory and camera_guidance_scale instead."
        )
    info.require_conditioning(blind=blind, camera_guidance_scale=camera_guidance_scale)
    info.require_sampling(num_inference_steps, guidance_scale)
    if not blind:
        info.require_lens(trajectory)
    if image is None and not info.takes_text_alone:
        raise SightlineError("image is missing: expected a first frame, since this model is image-to-video only.")
    sampling = {
        "height": trajectory.height,
        "width": trajectory.width,
        "num_frames": len(trajectory),
        "num_inference_steps": num_inference_steps,
        "guidance_scale": guidance_scale,
        "generator": torch.Generator().manual_seed(seed),  # on the CPU: the same noise on every device
        "output_type": "np",
    }
    film = speed_of_film(pipe, info, trajectory, num_inference_steps, guidance_scale)
    # Most models take no padding mask, so prompts must be padded as in training: to the family's length, or, for a small model,
    # to the length that its own tokenizer states.
    options.setdefault("max_sequence_length", min(family.max_sequence_length, pipe.tokenizer.model_max_length))
    if family.own_camera:
        conditions = _own_camera_conditions(info, image, trajectory, anchor, latent_pose)
        negative = negative_prompt or ""
        with running(pipe, film):
            return as_frames(pipe(prompt=prompt, negative_prompt=negative, **conditions, **sampling, **options).frames)
    if family.frame_rate is not None:
        options.setdefault(family.frame_rate, round(trajectory.fps))
    attention_kwargs: dict[str, Any] = {}
    if not blind:
        attention_kwargs["camera"] = camera_tokens(pipe, trajectory, anchor=anchor, latent_pose=latent_pose)
    info.require_num_frames(len(trajectory))  # after camera_tokens, whose errors name the trajectory
    info.require_size(trajectory.width, trajectory.height)
    if camera_guidance_scale != 1.0:
        if blind:
            raise SightlineError("camera_guidance_scale is given with blind: expected 1, since there is no camera.")
        attention_kwargs["camera_guidance_scale"] = camera_guidance_scale
    attention_kwargs |= options.pop("attention_kwargs", None) or {}
    pipe = pipeline_for_mode(pipe, with_image=image is not None)
    if not blind:
        info.require_one_window(len(trajectory), options.get("base_num_frames"))
    if image is not None:
        options |= first_frame(family, load_image(image, trajectory.width, trajectory.height), len(trajectory))
    options |= sampling | {"attention_kwargs": attention_kwargs}
    if film.speed == "exact" or type(pipe) not in PLAIN_PIPELINES:
        with running(pipe, film):
            return as_frames(pipe(prompt=prompt, negative_prompt=negative_prompt, **options).frames[0])
    texts = encoded_prompts(pipe, prompt, negative_prompt, guidance_scale > 1, options["max_sequence_length"])
    joined = joined_guidance(pipe, texts["negative_prompt_embeds"]) if film.joined else nullcontext()
    with running(pipe, film), joined:
        frames = pipe(**texts, **{**options, "output_type": "pt"}).frames[0]  # [T, 3, H, W] in 0..1
    frames = frames.permute(0, 2, 3, 1)
    if not frames.isfinite().all():
        return as_frames(frames)  # which refuses them
    # Rounded on the device, so that only a quarter of the bytes is copied.
    return as_frames(frames.mul(255).round().to(torch.uint8).contiguous())


def speed_of_film(
    pipe: AnyPipeline, info: ModelInfo, trajectory: Trajectory, num_inference_steps: int, guidance_scale: float
) -> FilmSpeed:
    """Which optimizations of `set_speed` are used for a video along this trajectory."""
    grid = info.grid(len(trajectory), trajectory.width, trajectory.height)
    guided = guidance_scale > 1
    return film_speed(pipe, grid.num_tokens, num_inference_steps * (1 + guided), guided)


def _own_camera_conditions(
    info: ModelInfo, image: Any, trajectory: Trajectory, anchor: int | None, latent_pose: LatentPose
) -> dict[str, Any]:
    """The first frame and the camera of SANA-WM, whose pipeline reads a trajectory itself."""
    if anchor != 0 or latent_pose != "last":
        raise SightlineError(
            f"anchor is {anchor} and latent_pose is {latent_pose!r}: expected 0 and 'last' for SANA-WM, which has its own."
        )
    _require_fit(trajectory, info.stride)
    info.require_num_frames(len(trajectory))
    info.require_size(trajectory.width, trajectory.height)
    return {"image": load_image(image, trajectory.width, trajectory.height), **camera_arguments(trajectory)}


def camera_tokens(
    pipe: AnyPipeline, trajectory: Trajectory, *, anchor: int | None = 0, latent_pose: LatentPose = "last"
) -> CameraTokens:
    """The trajectory on this pipeline's token grid, for `pipe(..., attention_kwargs={"camera": tokens})`."""
    family_of(pipe)  # refuses other pipelines
    require_trajectory(trajectory)
    transformers = list(experts(pipe).values())
    for model in transformers:
        if not isinstance(model, CameraTransformer):
            raise SightlineError(
                f"the pipeline's transformer is a {type(model).__name__}, which takes no camera: load it with "
                "load_pipeline(model, camera=...)."
            )
    stride = token_stride(pipe.vae.config, transformers[0].config)
    _require_fit(trajectory, stride)
    grid = TokenGrid.from_video(len(trajectory), trajectory.width, trajectory.height, stride)
    return CameraTokens.from_trajectory(
        trajectory, grid, anchor=anchor, latent_pose=latent_pose, temporal_stride=stride.frames
    )


def first_frame(family: Family, image: Image.Image, num_frames: int) -> dict[str, Any]:
    """The options of the family's pipelines that make this picture the first frame of a video."""
    if not family.image_as_video:
        return {"image": image}
    unknown = Image.new("RGB", image.size, (127, 127, 127))
    kept, made = Image.new("L", image.size, 0), Image.new("L", image.size, 255)
    later = num_frames - 1
    return {"video": [image] + [unknown] * later, "mask": [kept] + [made] * later}


def _require_fit(trajectory: Trajectory, stride: TokenStride) -> None:
    num_frames = len(trajectory)
    if (nearest := stride.nearest_num_frames(num_frames)) != num_frames:
        raise SightlineError(
            f"trajectory has {num_frames} frames: expected {stride.frames}n + 1, the nearest is {nearest} "
            f"(trajectory.resampled({nearest}))."
        )
    width, height = stride.nearest_size(trajectory.width, trajectory.height)
    if (width, height) != (trajectory.width, trajectory.height):
        raise SightlineError(
            f"trajectory is for {trajectory.width}x{trajectory.height}: expected multiples of {stride.width}x{stride.height}, "
            f"the nearest is {width}x{height} (trajectory.fit_to({width}, {height}))."
        )


def pipeline_for_mode(pipe: AnyPipeline, with_image: bool) -> AnyPipeline:
    """The image-to-video or the text-to-video pipeline over the same components; refused where the model cannot do it."""
    family = family_of(pipe)
    takes = family.takes(pipe.config, pipe.transformer.config, pipe.vae.config)
    if with_image and "image" not in takes:
        raise SightlineError("image was given but this model is text-to-video only: expected image=None.")
    if not with_image and "text" not in takes:
        raise SightlineError("image is missing: expected a first frame, since this model is image-to-video only.")
    pipeline_class = STOCK_PIPELINES[family.image_pipeline if with_image else family.text_pipeline]
    if isinstance(pipe, pipeline_class):
        return pipe
    parts = {**pipe.config, **pipe.components}  # flags such as boundary_ratio, and models
    converted = pipeline_class(**{name: parts[name] for name in signature(pipeline_class).parameters if name in parts})
    converted.set_progress_bar_config(**getattr(pipe, "_progress_bar_config", {}))
    return converted
