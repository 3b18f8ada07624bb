"""An autoencoder without weights, for debugging: its latents are pixels, so that a run can be judged without a trained VAE.

It has the interface and the frame counts of AutoencoderKLWan. Latent frame k is raw frame 4k; its 12 channels are the RGB
values of 2 x 2 pixels.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import Tensor, nn

# Pixels per latent pixel along each side. A model that predicts velocities must carry the noise of a token to its output, so
# the values of a token (4 x CHANNELS with Wan's patches of 2 x 2) must be fewer than the channels of the model. With blocks of
# 4 pixels the tiny model could not learn.
BLOCK = 2
CHANNELS = 3 * BLOCK * BLOCK


class PixelAutoencoder(ModelMixin, ConfigMixin):
    """encode and decode as the Wan pipelines call them; frames between latent frames are interpolated linearly."""

    @register_to_config
    def __init__(
        self,
        z_dim: int = CHANNELS,
        scale_factor_spatial: int = BLOCK,
        scale_factor_temporal: int = 4,
        latents_mean: tuple[float, ...] = (0.0,) * CHANNELS,
        latents_std: tuple[float, ...] = (0.5,) * CHANNELS,
    ) -> None:
        super().__init__()
        # diffusers takes the device and dtype of a model from its parameters; this one exists only for that.
        self.place = nn.Parameter(torch.zeros(1), requires_grad=False)

    def encode(self, video: Tensor) -> Any:  # [B, 3, T, H, W] in -1..1 -> [B, 12, t, h, w]
        sampled = video[:, :, :: self.config.scale_factor_temporal].transpose(1, 2)  # [B, t, 3, H, W]
        latents = F.pixel_unshuffle(sampled, BLOCK).transpose(1, 2)
        return SimpleNamespace(latent_dist=SimpleNamespace(mode=lambda: latents, sample=lambda *_: latents))

    def decode(self, latents: Tensor, return_dict: bool = True) -> Any:  # [B, 12, t, h, w] -> [B, 3, T, H, W]
        latent_frames = F.pixel_shuffle(latents.transpose(1, 2), BLOCK).transpose(1, 2)  # [B, 3, t, H, W]
        num_frames = self.config.scale_factor_temporal * (latent_frames.shape[2] - 1) + 1
        size = (num_frames, *latent_frames.shape[3:])
        video = (
            F.interpolate(latent_frames, size=size, mode="trilinear", align_corners=True)
            if num_frames > 1
            else latent_frames
        )
        return SimpleNamespace(sample=video) if return_dict else (video,)
