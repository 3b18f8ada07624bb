"""An autoencoder without weights, for debugging: latents are pixels, so a run can be judged before any VAE is trained.

Interface and frame counts of AutoencoderKLWan: latent frame k is raw frame 4k, its 12 channels are 2 x 2 blocks of RGB.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import Tensor, nn

# Pixels per latent pixel, along each side. A model of velocities passes the noise of a token on, so the token's numbers (4 x
# CHANNELS with Wan's patches of 2 x 2) must be fewer than the model is wide: with blocks of 4 the tiny one could not learn.
BLOCK = 2
CHANNELS = 3 * BLOCK * BLOCK


class PixelAutoencoder(ModelMixin, ConfigMixin):
    """encode and decode as the Wan pipelines call them; frames between latent frames are blended from their neighbours."""

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
        # A model's device and dtype are those of its parameters: this one is here for that alone.
        self.place = nn.Parameter(torch.zeros(1), requires_grad=False)

    def encode(self, video: Tensor) -> Any:  # [B, 3, T, H, W] in -1..1 -> [B, 48, t, h, w]
        kept = video[:, :, :: self.config.scale_factor_temporal].transpose(1, 2)  # [B, t, 3, H, W]
        latents = F.pixel_unshuffle(kept, BLOCK).transpose(1, 2)
        return SimpleNamespace(latent_dist=SimpleNamespace(mode=lambda: latents, sample=lambda *_: latents))

    def decode(self, latents: Tensor, return_dict: bool = True) -> Any:  # [B, 48, t, h, w] -> [B, 3, T, H, W]
        kept = F.pixel_shuffle(latents.transpose(1, 2), BLOCK).transpose(1, 2)  # [B, 3, t, H, W]
        frames = self.config.scale_factor_temporal * (kept.shape[2] - 1) + 1
        size = (frames, *kept.shape[3:])
        video = F.interpolate(kept, size=size, mode="trilinear", align_corners=True) if frames > 1 else kept
        return SimpleNamespace(sample=video) if return_dict else (video,)
