"""Validation: the loss on held-out clips, with their own camera and with others'; generated videos beside the true ones."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from sightline.cameras.tokens import CameraTokens
from sightline.data.encode import ENCODER_LOCK
from sightline.data.latents import LatentBatch
from sightline.figures import side_by_side
from sightline.generation.generate import pipeline_for_mode
from sightline.images import as_frames
from sightline.training.feeds import Feed
from sightline.training.objective import Draw, draw, flow_matching_loss, sigma_of
from sightline.training.recipe import Recipe
from sightline.video import save_video

if TYPE_CHECKING:
    from sightline.training.report import Report

_LEVELS = 4  # noise levels at which each held-out clip is scored


@torch.no_grad()
def validate(
    model: nn.Module,  # as this process runs it
    bare: nn.Module,  # the same without a wrapper
    pipe: Any,
    feed: Feed,
    recipe: Recipe,
    report: Report,
    step: int,
    device: torch.device,
) -> dict[str, float]:
    """Every process scores the same clips, since a sharded model needs them all; the main one writes."""
    bare.eval()
    # Clips are scored and filmed one at a time: compiling the blocks for that takes longer than it saves.
    eager = torch.compiler.set_stance("force_eager") if recipe.model.compile else nullcontext()
    try:
        with eager:
            figures = held_out_losses(model, feed, recipe, device)
            figures |= camera_figures(bare)
            report.log_validation(figures, step)
            for index in spread(recipe.validation.num_videos, len(feed.held_out)):
                true, generated = generate_beside(bare, pipe, feed, recipe, index, device)
                if report.speaks:
                    both = side_by_side(true, generated)
                    save_video(both, Path(recipe.output) / "samples" / f"step-{step:08d}-{index}.mp4")
                    report.video(f"true beside generated {index}", both, step)
            return figures
    finally:
        bare.train()


@torch.no_grad()
def held_out_losses(model: nn.Module, feed: Feed, recipe: Recipe, device: torch.device) -> dict[str, float]:
    """Mean loss over held-out clips at fixed noise: with the clip's camera, without any, and with the next clip's."""
    chosen = spread(recipe.validation.num_clips, len(feed.held_out))
    totals: dict[str, list[Tensor]] = {"loss": []}
    for place, index in enumerate(chosen):
        batch = feed.validation([index], device)
        variants: dict[str, CameraTokens | None] = {"loss": batch.camera_tokens}
        if batch.camera_tokens is not None:
            variants["loss_without_camera"] = CameraTokens.absent(batch.camera_tokens.grid).to(device)
            if len(chosen) > 1:  # a single clip has no other
                variants["loss_with_another_camera"] = feed.validation(
                    [chosen[(place + 1) % len(chosen)]], device
                ).camera_tokens
        for level in range(_LEVELS):
            drawn = fixed_draw(batch, recipe, (level + 0.5) / _LEVELS)
            for name, tokens in variants.items():
                # Scored in float32: differences between cameras are small beside bf16's rounding.
                losses = flow_matching_loss(model, dataclasses.replace(batch, camera_tokens=tokens), drawn)
                totals.setdefault(name, []).append(losses.mean())
    return {name: torch.stack(values).mean().item() for name, values in totals.items()}


def spread(count: int, clips: int) -> list[int]:
    """Indices of `count` clips, or of all where there are fewer, evenly spread: sources follow one another."""
    count = min(count, clips)
    return [place * clips // count for place in range(count)]


def fixed_draw(batch: LatentBatch, recipe: Recipe, level: float) -> Draw:
    """The clip's own noise at a given level of the recipe's distribution; nothing dropped, nothing augmented."""
    drawn = draw(batch, recipe.objective, recipe.seed)
    nothing = torch.zeros_like(drawn.text_dropped)
    return dataclasses.replace(
        drawn,
        sigma=sigma_of(torch.full_like(drawn.sigma, level), recipe.objective),
        first_frame_given=torch.full_like(nothing, recipe.objective.image_to_video_prob > 0),
        text_dropped=nothing,
        camera_dropped=nothing,
        log_scale=torch.zeros_like(drawn.log_scale),
    )


def camera_figures(bare: nn.Module) -> dict[str, float]:
    """What each layer's encoding has to tell, such as SCoPE's alphas and gates, under its number."""
    layers = getattr(bare, "encoding_layers", [])
    return {
        f"{name}/{number}": value for number, layer in enumerate(layers) for name, value in layer("figures").items()
    }


def generate_beside(
    bare: nn.Module, pipe: Any, feed: Feed, recipe: Recipe, index: int, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:  # 2 x [T, H, W, 3] uint8
    """A held-out clip as the VAE decodes it, and what the model makes of its first frame, words and camera."""
    batch = feed.validation([index], device)
    true = decode(pipe, batch.latents)
    pipe.register_modules(**{recipe.model.component: bare})
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
    """Normalised latents back to pictures, as the pipelines do."""
    with ENCODER_LOCK:
        vae = pipe.vae.to(latents.device)
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean, std = (
        torch.tensor(values).view(shape).to(latents) for values in (vae.config.latents_mean, vae.config.latents_std)
    )
    with ENCODER_LOCK:
        video = vae.decode((latents * std + mean).to(vae.dtype), return_dict=False)[0][0].float()  # [3, T, H, W]
    return ((video.clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 3, 0).cpu().numpy()
