"""The objective: flow matching, with a given first frame, dropout of text and camera, and log-scale augmentation.

Per-clip randomness: every clip draws its noise, timestep, dropout and augmentation from a generator that is seeded by the
clip's index in the run. The loss therefore does not depend on the number of processes, and resuming is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sightline.backbones.families import patch_size
from sightline.backbones.model_io import io_of
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.data.latents import LatentBatch
from sightline.errors import SightlineError
from sightline.training.recipe import ObjectiveConfig, Recipe


@dataclass(frozen=True, eq=False)
class Draw:
    """The random part of a step, one entry per clip."""

    noise: Tensor  # [B, C, t, h, w]
    sigma: Tensor  # [B]
    first_frame_given: Tensor  # [B] bool, on the CPU: it decides what is computed, which must not wait for the device
    text_dropped: Tensor  # [B] bool
    camera_dropped: Tensor  # [B] bool
    log_scale: Tensor  # [B]


def draw(batch: LatentBatch, objective: ObjectiveConfig, seed: int) -> Draw:
    """The random draws of each clip, which depend on the seed and the clip's index in the run alone."""
    device = batch.latents.device
    noises, uniforms = [], []
    for index in batch.clip_indices:
        generator = torch.Generator(device).manual_seed((seed * 0x9E3779B1 + index * 0x85EBCA6B) % 2**63)
        noises.append(torch.randn(batch.latents.shape[1:], generator=generator, device=device))
        uniforms.append(torch.rand(7, generator=generator, device=device))
    u = torch.stack(uniforms, dim=1)  # [7, B]
    low, high = objective.log_scale_min, objective.log_scale_max
    return Draw(
        noise=torch.stack(noises),
        sigma=sigma_of(u[0], objective),
        first_frame_given=(u[1] < objective.image_to_video_prob).cpu(),
        text_dropped=u[2] < objective.text_dropout,
        camera_dropped=u[3] < objective.camera_dropout,
        log_scale=torch.where(u[4] < objective.log_scale_prob, low + (high - low) * u[5], torch.zeros_like(u[5])),
    )


def sigma_of(u: Tensor, objective: ObjectiveConfig) -> Tensor:  # [B] uniform in [0, 1) -> [B] in [sigma_min, sigma_max]
    """Noise levels from uniform numbers: the recipe's distribution, truncated to this expert's range.

    Truncated, not squeezed: within its range an expert sees the noise levels as often, relative to each other, as the schedule
    of the whole model visits them.
    """
    ends = torch.tensor([objective.sigma_min, objective.sigma_max], dtype=torch.float64)
    low, high = _probability_below(ends, objective).tolist()
    u = low + (high - low) * u
    if objective.timestep_sampling == "logit_normal":
        u = torch.sigmoid(torch.special.ndtri(u.clamp(1e-6, 1 - 1e-6)))
    if objective.timestep_sampling != "uniform":
        u = objective.shift * u / (1 + (objective.shift - 1) * u)
    return u.clamp(objective.sigma_min, objective.sigma_max)  # rounding must not leave the range


def _probability_below(sigma: Tensor, objective: ObjectiveConfig) -> Tensor:
    """The share of the recipe's whole distribution that lies below each noise level."""
    if objective.timestep_sampling != "uniform":
        sigma = sigma / (objective.shift - (objective.shift - 1) * sigma)
    if objective.timestep_sampling == "logit_normal":
        sigma = torch.special.ndtr(torch.logit(sigma))
    return sigma


def flow_matching_loss(model: Any, batch: LatentBatch, drawn: Draw) -> Tensor:  # -> [B]
    """The mean squared error of each clip over the frames that it had to predict, in float32."""
    x0, sigma = batch.latents, drawn.sigma[:, None, None, None, None]
    noisy = (1 - sigma) * x0 + sigma * drawn.noise
    predicted_frames = torch.ones(len(x0), x0.shape[2], device=x0.device)  # [B, t]
    timestep = 1000 * drawn.sigma
    if batch.condition is not None:
        model_input = torch.cat([noisy, batch.condition], dim=1)
    else:
        if bool(drawn.first_frame_given.any()):
            first_given = drawn.first_frame_given.to(x0.device, non_blocking=True)
            # The clean first latent is pasted in, its tokens are at time 0, and it is left out of the loss.
            noisy[:, :, 0] = torch.where(first_given[:, None, None, None], x0[:, :, 0], noisy[:, :, 0])
            predicted_frames[:, 0] = (~first_given).float()
            unwrapped = getattr(model, "module", model)  # DistributedDataParallel keeps the model in .module
            grid = TokenGrid.from_latents(x0.shape, patch_size(unwrapped.config))
            timestep = (timestep[:, None] * predicted_frames).repeat_interleave(grid.tokens_per_frame, dim=1)  # [B, N]
        model_input = noisy

    if batch.empty_text is None:
        raise SightlineError("empty_text of the batch is None: expected the embedding of the empty prompt.")
    text = torch.where(drawn.text_dropped[:, None, None], batch.empty_text.to(batch.text), batch.text)
    attention_kwargs = None
    if batch.camera_tokens is not None:
        tokens = batch.camera_tokens.with_log_scale_offset(drawn.log_scale)
        camera_rows = tokens.rows * (~drawn.camera_dropped)[:, None, None]
        attention_kwargs = {"camera": CameraTokens(camera_rows, tokens.grid)}
    predicted = io_of(model).velocity(model, model_input, timestep, text, attention_kwargs).float()
    error = (predicted - (drawn.noise - x0)).square().mean(dim=(1, 3, 4))  # [B, t]
    return (error * predicted_frames).sum(dim=1) / predicted_frames.sum(dim=1)


def autocast(recipe: Recipe, device: torch.device) -> torch.autocast:
    """The context of a forward pass: bfloat16 autocast, which does nothing for a recipe in float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=recipe.dtype == "bfloat16")
