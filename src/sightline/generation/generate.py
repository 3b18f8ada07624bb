"""generate: an image, a prompt and a camera path go in, a video that follows the path comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sightline.backbones.model_info import ModelInfo
from sightline.backbones.pipelines import experts, require_pipeline
from sightline.backbones.stock import AnyWanPipeline, WanImageToVideoPipeline, WanPipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.token_grid import TokenGrid, TokenStride
from sightline.cameras.tokens import CameraTokens, LatentPose
from sightline.cameras.trajectory import Trajectory
from sightline.checks import checked_seed, number, whole_number
from sightline.errors import SightlineError
from sightline.images import as_frames, load_image

_SET_BY_GENERATE = {
    "height",
    "width",
    "num_frames",
    "num_inference_steps",
    "guidance_scale",
    "generator",
    "output_type",
}


def generate(
    pipe: AnyWanPipeline,
    image: Any,  # a path, a PIL image, an array [H, W, 3], or None for text-to-video
    prompt: str,
    trajectory: Trajectory,
    *,
    negative_prompt: str | None = None,
    steps: int | None = None,
    guidance: float | None = None,
    camera_guidance: float = 1.0,
    blind: bool = False,
    seed: int = 0,
    anchor: int | None = 0,
    latent_pose: LatentPose = "last",
    **options: Any,  # passed on to the pipeline
) -> np.ndarray:  # [T, H, W, 3] uint8
    """Film the scene along the trajectory, which also sets the number of frames and the size of the picture.

    The image becomes the first frame: it is scaled to cover the trajectory's picture and cropped in the middle.
    steps and guidance are the model's own unless given: 50 and 5 for TI2V-5B, 12 and 1 for the lab model.
    guidance: of the text; both of its passes get the same camera. camera_guidance: 1 is the paper's; w takes each
    pass with the camera and without it, and goes w times the way between them, at twice the cost.
    blind: the model is not told the path, to see what it makes of the picture and the words alone; it need not take one.
    """
    require_pipeline(pipe)
    if not isinstance(trajectory, Trajectory):
        raise SightlineError(
            f"trajectory is a {type(trajectory).__name__}: expected a Trajectory, such as moves.orbit()."
        )
    if not isinstance(prompt, str):
        raise SightlineError(
            f"prompt is a {type(prompt).__name__}: expected one text; call generate once for each video."
        )
    defaults = ModelInfo.of(pipe).defaults
    steps = whole_number("steps", defaults.num_inference_steps if steps is None else steps)
    guidance = number("guidance", defaults.guidance_scale if guidance is None else guidance)
    checked_seed(seed)
    if reserved := sorted(set(options) & _SET_BY_GENERATE):
        raise SightlineError(
            f"{reserved[0]} is set by generate itself: expected trajectory, steps, guidance or seed instead."
        )
    # Models read no padding mask, so a prompt must be padded as in training: to 512, or, for a small model, to what its
    # own tokenizer says.
    options.setdefault("max_sequence_length", min(512, pipe.tokenizer.model_max_length))
    camera: dict[str, Any] = {}
    if not blind:
        camera["camera"] = camera_tokens(pipe, trajectory, anchor=anchor, latent_pose=latent_pose)
    if number("camera_guidance", camera_guidance) != 1.0:
        if blind:
            raise SightlineError("camera_guidance is given to a blind film: expected 1, since there is no camera.")
        camera["camera_guidance"] = float(camera_guidance)
    pipe = pipeline_for_mode(pipe, with_image=image is not None)
    if image is not None:
        options["image"] = load_image(image, trajectory.width, trajectory.height)
    frames = pipe(
        prompt=prompt,
        negative_prompt=negative_prompt,
        height=trajectory.height,
        width=trajectory.width,
        num_frames=len(trajectory),
        num_inference_steps=steps,
        guidance_scale=guidance,
        generator=torch.Generator().manual_seed(seed),  # on the CPU: the same noise on every device
        attention_kwargs={**camera, **(options.pop("attention_kwargs", None) or {})},
        output_type="np",
        **options,
    ).frames[0]
    return as_frames(frames)


def camera_tokens(
    pipe: AnyWanPipeline, trajectory: Trajectory, *, anchor: int | None = 0, latent_pose: LatentPose = "last"
) -> CameraTokens:
    """The path on this pipeline's token grid, for `pipe(..., attention_kwargs={"camera": tokens})`."""
    transformers = list(experts(pipe).values())
    for model in transformers:
        if not isinstance(model, CameraWanTransformer3DModel):
            raise SightlineError(
                f"the pipeline's transformer is a {type(model).__name__}, which takes no camera: load it with "
                "load_pipeline(model, camera=...)."
            )
    stride = TokenStride.from_vae(pipe.vae.config, transformers[0].config.patch_size)
    _require_fit(trajectory, stride)
    grid = TokenGrid.from_video(len(trajectory), trajectory.width, trajectory.height, stride)
    return CameraTokens.from_trajectory(
        trajectory, grid, anchor=anchor, latent_pose=latent_pose, temporal_stride=stride.frames
    )


def _require_fit(trajectory: Trajectory, stride: TokenStride) -> None:
    frames = len(trajectory)
    if (nearest := stride.nearest_num_frames(frames)) != frames:
        raise SightlineError(
            f"trajectory has {frames} frames: expected {stride.frames}n + 1, the nearest is {nearest} "
            f"(trajectory.resampled({nearest}))."
        )
    width, height = stride.nearest_size(trajectory.width, trajectory.height)
    if (width, height) != (trajectory.width, trajectory.height):
        raise SightlineError(
            f"trajectory is for {trajectory.width}x{trajectory.height}: expected multiples of {stride.width}x{stride.height}, "
            f"the nearest is {width}x{height} (trajectory.fitted({width}, {height}))."
        )


def pipeline_for_mode(pipe: AnyWanPipeline, with_image: bool) -> AnyWanPipeline:
    """The image-to-video or text-to-video pipeline over the same parts; refused where the model cannot do it."""
    both = bool(pipe.config.expand_timesteps)  # TI2V-5B
    takes_image = pipe.transformer.config.in_channels > pipe.vae.config.z_dim
    if with_image and not (both or takes_image):
        raise SightlineError("image was given but this model is text-to-video only: expected image=None.")
    if not with_image and not both and takes_image:
        raise SightlineError("image is missing: expected a first frame, since this model is image-to-video only.")
    wanted = WanImageToVideoPipeline if with_image else WanPipeline
    if isinstance(pipe, wanted):
        return pipe
    flags = {name: pipe.config[name] for name in ("boundary_ratio", "expand_timesteps")}
    parts = {name: part for name, part in pipe.components.items() if name not in ("image_encoder", "image_processor")}
    other = wanted(**parts, **flags)
    other.set_progress_bar_config(**getattr(pipe, "_progress_bar_config", {}))
    return other
