"""Validation: losses on held-out clips with the right and with wrong cameras, and generated videos beside the ground truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor, nn

from sightline.backbones.families import family_of
from sightline.backbones.model_io import io_of_family
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.data.encode import ENCODER_LOCK
from sightline.data.latents import LatentBatch
from sightline.figures import side_by_side
from sightline.generation.generate import first_frame, pipeline_for_mode
from sightline.images import as_frames
from sightline.training.feeds import Feed
from sightline.training.objective import Draw, draw, flow_matching_loss, sigma_of
from sightline.training.parallelize import is_sharded
from sightline.training.recipe import Recipe
from sightline.training.report import Report
from sightline.training.sampler import Sampler
from sightline.video import can_write_mp4, save_video

_LEVELS = 4  # noise levels at which the loss of each held-out clip is measured


@torch.no_grad()
def validate(
    model: nn.Module,  # without a DDP wrapper: the processes work on different clips
    sampler: Sampler | None,  # None where the recipe asks for no videos
    feed: Feed,
    recipe: Recipe,
    report: Report,
    step: int,
    device: torch.device,
) -> dict[str, float]:
    """Measure, log and write samples. Each process takes its share of the clips; the result does not depend on their number."""
    model.eval()
    # Clips are processed one at a time: compiling the blocks for that size takes longer than it saves.
    eager = torch.compiler.set_stance("force_eager") if recipe.model.compile else nullcontext()
    try:
        with eager:
            scalars = held_out_losses(model, feed, recipe, device)
            scalars |= encoding_scalars(model)
            report.log_validation(scalars, step)
            if sampler is not None:
                write_samples(model, sampler, feed, recipe, report, step, device)
            return scalars
    finally:
        model.train()


def write_samples(
    model: nn.Module, sampler: Sampler, feed: Feed, recipe: Recipe, report: Report, step: int, device: torch.device
) -> None:
    """Generate this process's share of the videos and write each beside the true one."""
    indices = evenly_spaced(recipe.validation.num_videos, len(feed.held_out))
    suffix = "mp4" if can_write_mp4() else "gif"  # a missing library must not end a long training
    with sampler.placed(model, device) as pipe:
        for index, is_own in own_share(indices, recipe):
            true, generated = generate_sample(pipe, feed, recipe, index, device)
            if not is_own:
                continue
            both = side_by_side(true, generated)
            save_video(both, Path(recipe.output) / "samples" / f"step-{step:08d}-{index}.{suffix}")
            report.video(f"true beside generated {index}", both, step)  # a tracker gets the main process's share


@torch.no_grad()
def held_out_losses(model: nn.Module, feed: Feed, recipe: Recipe, device: torch.device) -> dict[str, float]:
    """Mean loss over held-out clips at fixed noise: with the clip's camera, without any, and with the next clip's."""
    indices = evenly_spaced(recipe.validation.num_clips, len(feed.held_out))
    measured: dict[int, dict[str, list[float]]] = {}
    for position, is_own in own_share(range(len(indices)), recipe):
        losses = _clip_losses(model, feed, recipe, device, indices, position)
        if is_own:
            measured[position] = losses
    measured = _gathered(measured)
    in_order = [measured[position] for position in range(len(indices))]  # the sum does not depend on who measured what
    names = dict.fromkeys(name for losses in in_order for name in losses)  # a shape's only clip has no other camera
    return {
        name: float(np.mean([loss for losses in in_order for loss in losses.get(name, [])], dtype=np.float64))
        for name in names
    }


def _clip_losses(
    model: nn.Module, feed: Feed, recipe: Recipe, device: torch.device, indices: Sequence[int], position: int
) -> dict[str, list[float]]:
    """The losses of one held-out clip at every noise level, by the camera that the model is given."""
    batch = feed.validation([indices[position]], device)
    variants: dict[str, CameraTokens | None] = {"loss": batch.camera_tokens}
    if batch.camera_tokens is not None:
        variants["loss_without_camera"] = CameraTokens.absent(batch.camera_tokens.grid).to(device)
        later = [*indices[position + 1 :], *indices[:position]]
        # Clips of one shape are neighbours, where none of the clips that are measured has the shape of this one.
        later += [
            near for near in (indices[position] + 1, indices[position] - 1) if later and 0 <= near < len(feed.held_out)
        ]
        other = camera_of_shape(feed, batch.camera_tokens.grid, later, device)
        # Where no clip has this shape, the passes are made all the same: a sharded model needs as many in every process.
        variants["loss_with_another_camera" if other else "dropped"] = other or batch.camera_tokens
    losses: dict[str, list[float]] = {name: [] for name in variants}
    for level in range(_LEVELS):
        drawn = fixed_draw(batch, recipe, (level + 0.5) / _LEVELS)
        for name, tokens in variants.items():
            # In float32: the differences between cameras are small compared with bfloat16's rounding.
            loss = flow_matching_loss(model, dataclasses.replace(batch, camera_tokens=tokens), drawn)
            losses[name].append(loss.mean().item())
    losses.pop("dropped", None)
    return losses


def own_share(items: Sequence[int], recipe: Recipe) -> Iterator[tuple[int, bool]]:
    """This process's items, and whether they count. A sharded model needs every process in each of its passes, so there a
    process without an item left repeats the last one, whose result is dropped."""
    rank, processes = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    for first in range(0, len(items), processes):
        if first + rank < len(items):
            yield items[first + rank], True
        elif is_sharded(recipe.parallel, processes):
            yield items[-1], False


def _gathered(measured: dict[int, Any]) -> dict[int, Any]:
    """What all processes have measured."""
    if not dist.is_initialized():
        return measured
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, measured)
    return {position: losses for part in parts for position, losses in part.items()}


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
        first_frame_given=torch.full_like(drawn.first_frame_given, recipe.objective.image_to_video_prob > 0),
        text_dropped=none,
        camera_dropped=none,
        log_scale=torch.zeros_like(drawn.log_scale),
    )


def encoding_scalars(model: nn.Module) -> dict[str, float]:
    """The scalars that each layer's encoding reports, such as SCoPE's alphas and gates, as NAME/LAYER."""
    layers = getattr(model, "encoding_layers", [])
    return {f"{name}/{index}": value for index, layer in enumerate(layers) for name, value in layer("metrics").items()}


def generate_sample(
    pipe: Any, feed: Feed, recipe: Recipe, index: int, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:  # 2 x [T, H, W, 3] uint8
    """A held-out clip as the VAE decodes it, and a video that the model generates from its first frame, text and camera."""
    batch = feed.validation([index], device)
    true = decode(pipe, batch.latents)
    with_image = recipe.objective.image_to_video_prob > 0 or batch.condition is not None
    runner = pipeline_for_mode(pipe, with_image)
    call: dict[str, Any] = {
        **io_of_family(family_of(pipe)).prompt(batch.text, feed.empty_text[None].to(device)),
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
        call |= first_frame(family_of(pipe), Image.fromarray(true[0]), len(true))
    runner.set_progress_bar_config(disable=True)
    with ENCODER_LOCK:
        return true, as_frames(runner(**call).frames[0])


def decode(pipe: Any, latents: Tensor) -> np.ndarray:  # [1, C, t, h, w] -> [T, H, W, 3] uint8
    """Decode normalized latents to frames, as the pipelines do."""
    with ENCODER_LOCK:
        vae = pipe.vae.to(latents.device)
    mean, std = (values.to(latents) for values in io_of_family(family_of(pipe)).latent_statistics(vae))
    with ENCODER_LOCK:
        video = vae.decode((latents * std + mean).to(vae.dtype), return_dict=False)[0][0].float()  # [3, T, H, W]
    return ((video.clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 3, 0).cpu().numpy()
