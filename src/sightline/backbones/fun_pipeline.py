"""The pipeline of the Fun-Control-Camera models: diffusers' image-to-video pipeline, with the first frame as they take it."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.utils.torch_utils import get_module_execution_device
from torch import Tensor

from sightline.backbones.stock import WanImageToVideoPipeline
from sightline.backbones.wan import IMAGE_CONDITION


class FunCameraPipeline(WanImageToVideoPipeline):
    """WanImageToVideoPipeline whose transformers are those of a Fun-Control-Camera release.

    A14B takes the first frame as stock Wan2.2 does. Wan2.1-Fun takes its latents alone, without a mask, and zeros for the
    other frames. 5B takes it twice: as the clean first frame of the latents, and as channels beside all of them.
    """

    def __call__(self, *args: Any, attention_kwargs: dict[str, Any] | None = None, **options: Any) -> Any:
        # A dict of this call's own, to which prepare_latents can add.
        return super().__call__(*args, attention_kwargs=dict(attention_kwargs or {}), **options)

    def prepare_latents(
        self,
        image: Tensor,  # [1, 3, H, W], from -1 to 1
        batch_size: int,
        num_channels_latents: int,
        height: int,
        width: int,
        num_frames: int,
        *rest: Any,
        **options: Any,
    ) -> Any:
        prepared = super().prepare_latents(
            image, batch_size, num_channels_latents, height, width, num_frames, *rest, **options
        )
        latents = prepared[0]
        if self.config.expand_timesteps:
            later = image.new_zeros(*image.shape[:2], num_frames - 1, height, width)
            video = torch.cat([image[:, :, None], later], dim=2)
            condition = self._encode(video, latents)
            mask = torch.zeros_like(condition[:, : self.vae_scale_factor_temporal])
            mask[:, :, 0] = 1
            self._attention_kwargs[IMAGE_CONDITION] = torch.cat([mask, condition], dim=1)
            return prepared
        if self.transformer.config.in_channels == 2 * num_channels_latents:
            condition = torch.zeros_like(latents)
            condition[:, :, :1] = self._encode(image[:, :, None], latents)
            return latents, condition
        return prepared

    def _encode(self, video: Tensor, latents: Tensor) -> Tensor:  # [1, 3, T, H, W] -> [B, C, t, h, w]
        """The normalised latents of a video, on the device and in the dtype of `latents`, for each of them."""
        device = get_module_execution_device(self.vae)  # where an offloaded VAE will run
        encoded = self.vae.encode(video.to(device, self.vae.dtype)).latent_dist.mode().to(latents)
        mean, std = (
            torch.tensor(self.vae.config[name]).view(1, -1, 1, 1, 1).to(latents)
            for name in ("latents_mean", "latents_std")
        )
        return ((encoded - mean) / std).expand(len(latents), -1, -1, -1, -1)
