"""A pipeline of a released configuration with random weights: it generates noise in the time and memory of the release."""

from __future__ import annotations

import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel
from transformers import UMT5Config, UMT5EncoderModel

from sightline.backbones.stock import WanImageToVideoPipeline
from sightline.backbones.tiny import tiny_tokenizer
from sightline.backbones.wan_configs import WanConfig
from sightline.bench.models import cast_as_loaded


def random_pipeline(config: WanConfig, device: torch.device) -> WanImageToVideoPipeline:
    """A pipeline with the experts of the release, in bfloat16 except for the VAE and for what from_pretrained keeps in float32.

    The text encoder is one layer of its width: a prompt is encoded once, and its 11 GB would hide what a step needs.
    """
    torch.manual_seed(0)
    width = config.transformer["text_dim"]
    text = UMT5Config(vocab_size=128, d_model=width, d_kv=64, d_ff=1024, num_layers=1, num_heads=8)
    with torch.device(device):
        parts = {
            **{
                name: cast_as_loaded(WanTransformer3DModel(**config.transformer), torch.bfloat16)
                for name in config.experts
            },
            "vae": AutoencoderKLWan(**config.vae),
            "text_encoder": UMT5EncoderModel(text).to(torch.bfloat16).eval(),  # without dropout
        }
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=config.flow_shift
    )
    pipe = WanImageToVideoPipeline(tokenizer=tiny_tokenizer(), scheduler=scheduler, **config.pipeline, **parts)
    return pipe.to(device)
