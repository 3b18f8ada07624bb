"""An untrained LTX-2 pipeline of a few ten thousand parameters, with the strides of the real one: 8 frames and 32 x 32 pixels."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import (
    AutoencoderKLLTX2Audio,
    AutoencoderKLLTX2Video,
    FlowMatchEulerDiscreteScheduler,
    LTX2VideoTransformer3DModel,
)
from diffusers.pipelines.ltx2 import LTX2TextConnectors, LTX2Vocoder
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

_LATENT_CHANNELS, _MEL_BINS, _AUDIO_CHANNELS = 16, 16, 2
_WIDTH, _TEXT_LAYERS = 32, 2  # of the text encoder
_REGISTERS = 8  # a prompt's length is a multiple of it
_HEADS, _HEAD_DIM = 2, 16
_AUDIO_HEADS, _AUDIO_HEAD_DIM = 2, 8


def tiny_ltx2_transformer(seed: int = 0) -> LTX2VideoTransformer3DModel:
    """Two layers of two heads, with the RoPE layout and the modulation of LTX-2."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LTX2VideoTransformer3DModel(
            in_channels=_LATENT_CHANNELS,
            out_channels=_LATENT_CHANNELS,
            num_attention_heads=_HEADS,
            attention_head_dim=_HEAD_DIM,
            cross_attention_dim=_HEADS * _HEAD_DIM,
            audio_in_channels=_AUDIO_CHANNELS * _MEL_BINS // 4,
            audio_out_channels=_AUDIO_CHANNELS * _MEL_BINS // 4,
            audio_num_attention_heads=_AUDIO_HEADS,
            audio_attention_head_dim=_AUDIO_HEAD_DIM,
            audio_cross_attention_dim=_AUDIO_HEADS * _AUDIO_HEAD_DIM,
            num_layers=2,
            caption_channels=_WIDTH,
            rope_type="split",
        ).eval()


def tiny_ltx2_vae(seed: int = 0) -> AutoencoderKLLTX2Video:
    """The video autoencoder, of strides 8 x 32 x 32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoencoderKLLTX2Video(
            latent_channels=_LATENT_CHANNELS,
            block_out_channels=(8, 8, 8, 8),
            decoder_block_out_channels=(8, 8, 8),
            layers_per_block=(1, 1, 1, 1, 1),
            decoder_layers_per_block=(1, 1, 1, 1),
            upsample_factor=(1, 1, 1),
            upsample_residual=(False, False, False),
            spatial_compression_ratio=32,
            temporal_compression_ratio=8,
        ).eval()


def tiny_ltx2_parts(seed: int = 0) -> dict[str, Any]:
    """All components of the pipelines but the tokenizer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        text_encoder = Gemma3ForConditionalGeneration(
            Gemma3Config(
                text_config={
                    "vocab_size": 128, "hidden_size": _WIDTH, "intermediate_size": 32, "num_hidden_layers": _TEXT_LAYERS,
                    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
                },
                vision_config={
                    "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1,
                    "image_size": 28, "patch_size": 14,
                },
                mm_tokens_per_image=4,
            )
        )  # fmt: skip
        connector = {"num_attention_heads": 2, "attention_head_dim": _WIDTH // 2, "num_learnable_registers": _REGISTERS}
        connectors = LTX2TextConnectors(
            caption_channels=_WIDTH,
            text_proj_in_factor=_TEXT_LAYERS + 1,
            **{f"{side}_connector_{name}": value for side in ("video", "audio") for name, value in connector.items()},
            video_connector_num_layers=1,
            audio_connector_num_layers=1,
            rope_type="split",
        )
        audio_vae = AutoencoderKLLTX2Audio(
            base_channels=_AUDIO_CHANNELS * _MEL_BINS // 4,
            ch_mult=(1, 1, 1),
            num_res_blocks=1,
            resolution=32,
            latent_channels=_AUDIO_CHANNELS,
            mel_bins=_MEL_BINS,
        )
        vocoder = LTX2Vocoder(
            in_channels=2 * _MEL_BINS,
            hidden_channels=8,
            upsample_kernel_sizes=[4, 4],
            upsample_factors=[2, 2],
            resnet_kernel_sizes=[3],
            resnet_dilations=[[1]],
        )
    return {
        "scheduler": FlowMatchEulerDiscreteScheduler(
            use_dynamic_shifting=True, base_shift=0.95, max_shift=2.05, shift_terminal=0.1
        ),
        "vae": tiny_ltx2_vae(seed),
        "audio_vae": audio_vae.eval(),
        "text_encoder": text_encoder.eval(),
        "connectors": connectors.eval(),
        "transformer": tiny_ltx2_transformer(seed),
        "vocoder": vocoder.eval(),
    }
