"""Generation of many videos at once, from what was encoded before.

The pipelines of diffusers take one first frame per call and encode it and its prompt every time. A study generates the same
clips with every model, so here a batch of clips is denoised together. The schedule, the conditioning and the noise of each clip
are those of `sightline.generate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.cameras.camera_batch import CameraBatch
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.data.encode import ENCODER_LOCK, ClipEncoder
from sightline.errors import SightlineError
from sightline.study.videos import VideoCase


@torch.no_grad()
def generate_videos(
    model: Any,  # a transformer, on its device, which takes a camera or not
    encoder: ClipEncoder,
    cases: Sequence[VideoCase],
    empty_text: Tensor,  # [L, D], for guidance
    *,
    num_inference_steps: int,
    guidance_scale: float,
    batch_size: int,
    autocast: Any,  # the context of a forward pass
) -> Iterator[np.ndarray]:  # of [T, H, W, 3] uint8
    """The videos of all cases, in order. Case i has the noise of seed i, whatever the batches."""
    if encoder.has_condition or not encoder.pipe.config.expand_timesteps:
        raise SightlineError("model.base takes its first frame in channels of its own: expected one like TI2V-5B.")
    for start in range(0, len(cases), batch_size):
        seeds = range(start, min(start + batch_size, len(cases)))
        some = [cases[index] for index in seeds]
        latents = _denoise(model, encoder, some, seeds, empty_text, num_inference_steps, guidance_scale, autocast)
        yield from decode(encoder.pipe.vae, latents)


def camera_tokens(cases: Sequence[VideoCase], grid: TokenGrid, encoder: ClipEncoder, device: Any) -> CameraTokens:
    """The commanded trajectories of some cases on the token grid of their videos."""
    cameras = CameraBatch.cat([CameraBatch.from_trajectory(case.trajectory) for case in cases]).to(device)
    return CameraTokens.from_cameras(cameras, grid, temporal_stride=encoder.token_stride.frames)


def _denoise(
    model: Any, encoder: ClipEncoder, cases: Sequence[VideoCase], seeds: Sequence[int], empty_text: Tensor,
    num_inference_steps: int, guidance_scale: float, autocast: Any,
) -> Tensor:  # [B, C, t, h, w]  # fmt: skip
    device, scheduler = next(model.parameters()).device, encoder.pipe.scheduler
    first = torch.stack([case.first_latent for case in cases]).to(device)  # [B, C, 1, h, w]
    text = torch.stack([case.text for case in cases]).to(device)  # [B, L, D]
    empty = empty_text.to(text).expand_as(text)
    channels, _, height, width = first.shape[1:]
    frames = (len(cases[0].trajectory) - 1) // encoder.token_stride.frames + 1
    # On the CPU: the same noise on every device, and that of a video that is generated alone.
    latents = torch.cat(
        [torch.randn(1, channels, frames, height, width, generator=torch.Generator().manual_seed(s)) for s in seeds]
    ).to(device)
    grid = TokenGrid.from_latents(latents.shape, model.config.patch_size)
    kwargs: dict[str, Any] = {}
    if hasattr(model, "encoding_layers"):
        kwargs["attention_kwargs"] = {"camera": camera_tokens(cases, grid, encoder, device)}
    is_predicted = torch.ones(grid.num_tokens, device=device)  # 0 for the tokens of the first frame, which is given
    is_predicted[: grid.tokens_per_frame] = 0
    scheduler.set_timesteps(num_inference_steps, device=device)
    for t in scheduler.timesteps:
        latents[:, :, :1] = first
        timestep = (is_predicted * t).expand(len(latents), -1)
        with autocast:
            predicted = model(latents, timestep, text, return_dict=False, **kwargs)[0].float()
            if guidance_scale != 1.0:
                without = model(latents, timestep, empty, return_dict=False, **kwargs)[0].float()
                predicted = without + guidance_scale * (predicted - without)
        latents = scheduler.step(predicted, t, latents, return_dict=False)[0]
    latents[:, :, :1] = first
    return latents


def decode(vae: Any, latents: Tensor) -> Iterator[np.ndarray]:  # [B, C, t, h, w] -> B x [T, H, W, 3] uint8
    """Decode normalised latents to frames, as the pipelines do."""
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean, std = (
        torch.tensor(values).view(shape).to(latents) for values in (vae.config.latents_mean, vae.config.latents_std)
    )
    with ENCODER_LOCK:
        videos = vae.decode((latents * std + mean).to(vae.device, vae.dtype), return_dict=False)[0]  # [B, 3, T, H, W]
    for video in ((videos.float().clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 4, 1):
        yield video.cpu().numpy()
