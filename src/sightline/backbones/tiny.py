"""Tiny, untrained Wan2.2 pipelines: every class of the real ones at a few thousand parameters. For demos and tests."""

from __future__ import annotations

import string
from typing import Any, Literal

import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

from sightline.backbones.pixels import CHANNELS, PixelAutoencoder
from sightline.backbones.stock import AnyWanPipeline, WanImageToVideoPipeline, WanPipeline
from sightline.errors import SightlineError

Kind = Literal["ti2v-5b", "i2v-a14b", "t2v-a14b", "pixels"]

_TEXT_DIM = 32

# What differs between the three releases, apart from size: channels, VAE, experts and the pipeline's flags.
# "pixels" is TI2V-5B over an autoencoder without weights, and a little wider, so that it can learn something on a CPU.
_TRANSFORMER_CHANNELS = {
    "ti2v-5b": (48, 48),
    "i2v-a14b": (36, 16),
    "t2v-a14b": (16, 16),
    "pixels": (CHANNELS, CHANNELS),
}
_TRANSFORMER_SIZE = {"num_attention_heads": 2, "attention_head_dim": 12, "ffn_dim": 32, "num_layers": 2, "freq_dim": 64}
_PIXELS_SIZE = {"num_attention_heads": 4, "attention_head_dim": 24, "ffn_dim": 256, "num_layers": 4, "freq_dim": 64}
_PIPELINE_FLAGS: dict[str, dict[str, Any]] = {
    "ti2v-5b": {"expand_timesteps": True},
    "pixels": {"expand_timesteps": True},
    "i2v-a14b": {"boundary_ratio": 0.9},
    "t2v-a14b": {"boundary_ratio": 0.875},
}
_FLOW_SHIFT = {"ti2v-5b": 5.0, "pixels": 5.0, "i2v-a14b": 5.0, "t2v-a14b": 12.0}


def tiny_transformer(kind: Kind = "ti2v-5b", seed: int = 0) -> WanTransformer3DModel:
    """A stock Wan transformer of this kind with 2 layers of 2 heads (4 of 4 for pixels), random weights."""
    _require_kind(kind)
    in_channels, out_channels = _TRANSFORMER_CHANNELS[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = WanTransformer3DModel(
            patch_size=(1, 2, 2),
            in_channels=in_channels,
            out_channels=out_channels,
            text_dim=_TEXT_DIM,
            rope_max_seq_len=64,
            **(_PIXELS_SIZE if kind == "pixels" else _TRANSFORMER_SIZE),
        )
    return model.eval()


def tiny_vae(kind: Kind = "ti2v-5b", seed: int = 0) -> AutoencoderKLWan | PixelAutoencoder:
    """The matching video autoencoder: 4 x 16 x 16 for TI2V-5B, 4 x 8 x 8 for the A14B pair, 4 x 2 x 2 for pixels."""
    _require_kind(kind)
    if kind == "pixels":
        return PixelAutoencoder()
    config: dict[str, Any] = {
        "base_dim": 3,
        "z_dim": 16,
        "dim_mult": [1, 1, 1, 1],
        "num_res_blocks": 1,
        "temperal_downsample": [False, True, True],
    }
    if kind == "ti2v-5b":
        config |= {
            "z_dim": 48,
            "in_channels": 12,
            "out_channels": 12,
            "is_residual": True,
            "patch_size": 2,
            "scale_factor_spatial": 16,
            "scale_factor_temporal": 4,
            "latents_mean": [0.0] * 48,
            "latents_std": [1.0] * 48,
        }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoencoderKLWan(**config).eval()


def tiny_pipeline(kind: Kind = "ti2v-5b", seed: int = 0) -> AnyWanPipeline:
    """A whole stock pipeline: image-to-video, and text-to-video for t2v-a14b."""
    pipeline_class = WanPipeline if kind == "t2v-a14b" else WanImageToVideoPipeline
    experts = {"transformer": tiny_transformer(kind, seed)}
    if kind.endswith("a14b"):
        experts["transformer_2"] = tiny_transformer(kind, seed + 1)
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction",
        use_flow_sigmas=True,
        num_train_timesteps=1000,
        flow_shift=_FLOW_SHIFT[kind],
    )
    return pipeline_class(
        tokenizer=tiny_tokenizer(),
        text_encoder=tiny_text_encoder(seed),
        vae=tiny_vae(kind, seed),
        scheduler=scheduler,
        **experts,
        **_PIPELINE_FLAGS[kind],
    )


def _require_kind(kind: str) -> None:
    if kind not in _TRANSFORMER_CHANNELS:
        raise SightlineError(f"kind is {kind!r}: expected one of {sorted(_TRANSFORMER_CHANNELS)}.")


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A Unigram tokenizer over single characters, with UMT5's special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    characters = [(character, -3.0) for character in "▁" + string.ascii_letters + string.digits + string.punctuation]
    tokenizer = Tokenizer(models.Unigram(special + characters, unk_id=2, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=512
    )


def tiny_text_encoder(seed: int = 0) -> UMT5EncoderModel:
    """A UMT5 encoder one layer deep."""
    config = UMT5Config(
        vocab_size=128, d_model=_TEXT_DIM, d_kv=8, d_ff=37, num_layers=1, num_heads=4, relative_attention_num_buckets=8
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return UMT5EncoderModel(config).eval()
