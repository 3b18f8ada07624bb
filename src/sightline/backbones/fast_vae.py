"""Wan's VAE in bfloat16 with channels last: the same networks and the same results up to rounding, in less time.

Convolutions in bfloat16 run on the matrix units of GPUs and of newer CPUs, and with channels last they need no copies in
another order. Norms and upsampling, which the stock VAE computes in float32 copies, become single passes.

A pipeline's decoder is changed in place. Its encoder stays in float32: it sees one frame or few, and its result conditions the
whole film. Training encodes whole clips with a copy of the encoder.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import WanRMS_norm, WanUpsample
from torch import Tensor, nn

from sightline.backbones import whole_sequence

_EPS = 1e-12  # of the mean square; the stock norm divides by the root of the sum, or by 1e-12 if that is larger


class ChannelsLastNorm(WanRMS_norm):
    """The VAE's norm over channels as one operation over the innermost dimension, summed in float32."""

    def forward(self, x: Tensor) -> Tensor:  # [B, C, ...]
        last = x.movedim(1, -1)
        # The scale of the stock norm, the root of the number of channels, makes a norm over the sum one over the mean.
        normed = F.rms_norm(last, last.shape[-1:], self.gamma.flatten().to(x.dtype), _EPS)
        return normed.movedim(-1, 1)


class DirectUpsample(WanUpsample):
    """Copies pixels without a detour through float32, which changes none of them. Where frames were doubled before, channels come
    first; they are reordered here, while there are four times fewer pixels."""

    def forward(self, x: Tensor) -> Tensor:  # [B T, C, H, W]
        return nn.Upsample.forward(self, x.contiguous(memory_format=torch.channels_last))


_CLASSES: dict[type, type] = {WanRMS_norm: ChannelsLastNorm, WanUpsample: DirectUpsample}


def decode_in_bfloat16(vae: AutoencoderKLWan) -> None:
    """Change the decoder in place. Its inputs and outputs stay in float32, and tiles, slices and offloading work as before."""
    for part in (vae.post_quant_conv, vae.decoder):
        _to_channels_last(part)
    vae.post_quant_conv.register_forward_pre_hook(_to_bfloat16)
    vae.decoder.register_forward_hook(_to_float32)


class WholeClipEncoder:
    """A copy of a VAE's encoder that takes all frames of a clip at once; the VAE keeps its own.

    dtype: float32 gives the results of the stock encoder; bfloat16, with channels last, the same up to rounding.
    """

    def __init__(self, vae: AutoencoderKLWan, dtype: torch.dtype) -> None:
        self.config, self.dtype = vae.config, dtype
        self.encoder, self.quant_conv = copy.deepcopy(vae.encoder), copy.deepcopy(vae.quant_conv)
        for part in (self.encoder, self.quant_conv):
            whole_sequence.prepare(part).to(dtype)
            if dtype == torch.bfloat16:
                _to_channels_last(part)

    @torch.no_grad()
    def __call__(self, video: Tensor) -> Tensor:  # [B, 3, 4n + 1, H, W] in -1..1 -> [B, z, n + 1, h, w] float32
        """The mean of the posterior."""
        video = video.to(self.encoder.conv_in.weight.device, self.dtype)
        return whole_sequence.encode(self, video).float()


def _to_channels_last(part: nn.Module) -> None:
    """Change an encoder or a decoder in place, to bfloat16 with channels last."""
    part.to(torch.bfloat16)
    for layer in part.modules():
        if isinstance(layer, nn.Conv3d):
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last_3d)
        elif isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
        elif type(layer) in _CLASSES:
            layer.__class__ = _CLASSES[type(layer)]


def _to_bfloat16(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    latents, *rest = inputs
    return latents.to(torch.bfloat16).contiguous(memory_format=torch.channels_last_3d), *rest


def _to_float32(_: nn.Module, __: Any, output: Tensor) -> Tensor:
    return output.float()
