"""Validation: losses on held-out clips with the right and with wrong cameras, and generated videos beside the ground truth."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.data.encode import ENCODER_LOCK
from sightline.data.latents import LatentBatch
from sightline.figures import side_by_side
from sightline.generation.generate import pipeline_for_mode
from sightline.images import as_frames
from sightline.training.feeds import Feed
from sightline.training.objective import Draw, draw, flow_matching_loss, sigma_of
from sightline.training.recipe import Recipe
from sightline.training.report import Report
from sightline.video import save_video

_LEVELS = 4  # noise levels at which the loss of each held-out clip is measured


@torch.no_grad()
def validate(
    parallel_model: nn.Module,  # as `parallelize` returned it
    model: nn.Module,  # the same without a DDP wrapper
    pipe: Any,
    feed: Feed,
    recipe: Recipe,
    report: Report,
    step: int,
    device: torch.device,
) -> dict[str, float]:
    """Measure, log and write samples. All processes work on the same clips, because a sharded model needs every process;
    only the main process writes."""
    model.eval()
    # Clips are processed one at a time: compiling the blocks for that size takes longer than it saves.
    eager = torch.compiler.set_stance("force_eager") if recipe.model.compile else nullcontext()
    try:
        with eager:
            scalars = held_out_losses(parallel_model, feed, recipe, device)
            scalars |= encoding_scalars(model)
            report.log_validation(scalars, step)
            for index in evenly_spaced(recipe.validation.num_videos, len(feed.held_out)):
                true, generated = generate_sample(model, pipe, feed, recipe, index, device)
                if report.is_main:
                    both = side_by_side(true, generated)
                    save_video(both, Path(recipe.output) / "samples" / f"step-{step:08d}-{index}.mp4")
                    report.video(f"true beside generated {index}", both, step)
            return scalars
    finally:
        model.train()


@torch.no_grad()
def held_out_losses(model: nn.Module, feed: Feed, recipe: Recipe, device: torch.device) -> dict[str, float]:
    """Mean loss over held-out clips at fixed noise: with the clip's camera, without any, and with the next clip's."""
    indices = evenly_spaced(recipe.validation.num_clips, len(feed.held_out))
    totals: dict[str, list[Tensor]] = {"loss": []}
    for position, index in enumerate(indices):
        batch = feed.validation([index], device)
        variants: dict[str, CameraTokens | None] = {"loss": batch.camera_tokens}
        if batch.camera_tokens is not None:
            variants["loss_without_camera"] = CameraTokens.absent(batch.camera_tokens.grid).to(device)
            later = [*indices[position + 1 :], *indices[:position]]
            # Clips of one shape are neighbours, where none of the clips that are measured has the shape of this one.
            later += [near for near in (index + 1, index - 1) if later and 0 <= near < len(feed.held_out)]
            if (other := camera_of_shape(feed, batch.camera_tokens.grid, later, device)) is not None:
                variants["loss_with_another_camera"] = other
        for level in range(_LEVELS):
            drawn = fixed_draw(batch, recipe, (level + 0.5) / _LEVELS)
            for name, tokens in variants.items():
                # In float32: the differences between cameras are small compared with bfloat16's rounding.
                losses = flow_matching_loss(model, dataclasses.replace(batch, camera_tokens=tokens), drawn)
                totals.setdefault(name, []).append(losses.mean())
    return {name: torch.stack(values).mean().item() for name, values in totals.items()}


def camera_of_shape(feed: Feed, grid: TokenGrid, indices: list[int], device: torch.device) -> CameraTokens | None:
    """The camera of the first of these held-out clips that has this token grid; None where no clip has it."""
    for index in indices:
        tokens = feed.validation([index], device).camera_tokens
        if tokens is not None and tokens.grid == grid:
            return tokens
    return None


def evenly_spaced(count: int, n: int) -> list[int]:
    """`count` of the indices 0 to n - 1, or all where there are fewer, at equal distances: clips are ordered by source."""
    count = min(count, n)
    return [position * n // count for position in range(count)]


def fixed_draw(batch: LatentBatch, recipe: Recipe, level: float) -> Draw:
    """The clip's own noise at this quantile of the recipe's noise levels, without dropout and augmentation."""
    drawn = draw(batch, recipe.objective, recipe.seed)
    none = torch.zeros_like(drawn.text_dropped)
    return dataclasses.replace(
        drawn,
        sigma=sigma_of(torch.full_like(drawn.sigma, level), recipe.objective),
        first_frame_given=torch.full_like(none, recipe.objective.image_to_video_prob > 0),
        text_dropped=none,
        camera_dropped=none,
        log_scale=torch.zeros_like(drawn.log_scale),
    )


def encoding_scalars(model: nn.Module) -> dict[str, float]:
    """The scalars that each layer's encoding reports, such as SCoPE's alphas and gates, as NAME/LAYER."""
    layers = getattr(model, "encoding_layers", [])
    return {f"{name}/{index}": value for index, layer in enumerate(layers) for name, value in layer("metrics").items()}


def generate_sample(
    model: nn.Module, pipe: Any, feed: Feed, recipe: Recipe, index: int, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:  # 2 x [T, H, W, 3] uint8
    """A held-out clip as the VAE decodes it, and a video that the model generates from its first frame, text and camera."""
    batch = feed.validation([index], device)
    true = decode(pipe, batch.latents)
    pipe.register_modules(**{recipe.model.component: model})
    with_image = recipe.objective.image_to_video_prob > 0 or batch.condition is not None
    runner = pipeline_for_mode(pipe, with_image)
    call: dict[str, Any] = {
        "prompt_embeds": batch.text,
        "negative_prompt_embeds": feed.empty_text[None].to(device),
        "height": true.shape[1],
        "width": true.shape[2],
        "num_frames": true.shape[0],
        "num_inference_steps": recipe.validation.num_inference_steps,
        "guidance_scale": recipe.validation.guidance_scale,
        "generator": torch.Generator().manual_seed(recipe.seed),
        "output_type": "np",
    }
    if batch.camera_tokens is not None:
        call["attention_kwargs"] = {"camera": batch.camera_tokens}
    if with_image:
        call["image"] = Image.fromarray(true[0])
    runner.set_progress_bar_config(disable=True)
    with ENCODER_LOCK:
        return true, as_frames(runner(**call).frames[0])


def decode(pipe: Any, latents: Tensor) -> np.ndarray:  # [1, C, t, h, w] -> [T, H, W, 3] uint8
    """Decode normalized latents to frames, as the pipelines do."""
    with ENCODER_LOCK:
        vae = pipe.vae.to(latents.device)
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean, std = (
        torch.tensor(values).view(shape).to(latents) for values in (vae.config.latents_mean, vae.config.latents_std)
    )
    with ENCODER_LOCK:
        video = vae.decode((latents * std + mean).to(vae.dtype), return_dict=False)[0][0].float()  # [3, T, H, W]
    return ((video.clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 3, 0).cpu().numpy()
