"""Runs a Wan VAE on a whole clip at once, with the weights and the results of the stock one: for training and for small clips.

The stock VAE processes a clip in chunks of four frames and caches features between them. That saves memory but leaves a GPU
idle. Without a cache, only its resampling layers behave differently; `prepare` makes them behave the same.
"""

from __future__ import annotations

from types import MethodType
from typing import Any, TypeVar

import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import WanResample, patchify, unpatchify
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def prepare(vae: Module) -> Module:
    """Make the resampling layers of a VAE, or of its encoder, process whole clips when they are called without a cache. Changes
    `vae` and returns it; its own encode and decode, which use a cache, work as before."""
    for layer in vae.modules():
        if isinstance(layer, WanResample):
            layer.forward = MethodType(_resample, layer)
    return vae


def encode(vae: Any, video: Tensor) -> Tensor:  # [B, 3, 4n + 1, H, W] in -1..1 -> [B, z, n + 1, h, w]
    """The mean of the posterior, as `vae.encode(video).latent_dist.mode()`. vae: anything with the config, the encoder and the
    quant_conv of a prepared VAE."""
    patches = patchify(video, vae.config.patch_size or 1)
    mean: Tensor = vae.quant_conv(vae.encoder(patches)).chunk(2, dim=1)[0]
    return mean


def decode(vae: AutoencoderKLWan, latents: Tensor) -> Tensor:  # [B, z, n + 1, h, w] -> [B, 3, 4n + 1, H, W]
    """As `vae.decode(latents).sample`, but not clamped to -1..1, since a clamp has no gradient outside."""
    patches = vae.decoder(vae.post_quant_conv(latents), first_chunk=True)
    return unpatchify(patches, vae.config.patch_size or 1)


def _resample(self: Any, x: Tensor, feat_cache: Any = None, feat_idx: Any = (0,)) -> Tensor:
    if feat_cache is not None:
        return WanResample.forward(self, x, feat_cache, feat_idx)
    if self.mode == "upsample3d" and x.shape[2] > 1:
        # Frame 0 stays one frame. Each later one becomes two, by convolutions that do not see frame 0.
        later = self.time_conv(x[:, :, 1:])  # [B, 2C, t - 1, h, w]
        first_half, second_half = later.chunk(2, dim=1)
        later = torch.stack([first_half, second_half], dim=3).flatten(2, 3)
        x = torch.cat([x[:, :, :1], later], dim=2)
    batch, _, frames = x.shape[:3]
    pictures = self.resample(x.transpose(1, 2).flatten(0, 1))
    x = pictures.unflatten(0, (batch, frames)).transpose(1, 2)
    if self.mode == "downsample3d" and frames > 1:
        x = torch.cat([x[:, :, :1], self.time_conv(x)], dim=2)
    return x
