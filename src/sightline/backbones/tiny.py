"""Untrained Wan2.2 pipelines of a few thousand parameters, made of the same classes as the real ones, for tests and demos."""

from __future__ import annotations

import string
from typing import Literal

import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

from sightline.backbones.pixels import CHANNELS, PixelAutoencoder
from sightline.backbones.stock import AnyWanPipeline, WanImageToVideoPipeline, WanPipeline
from sightline.backbones.wan_configs import I2V_A14B, T2V_A14B, TI2V_5B
from sightline.errors import SightlineError

Kind = Literal["ti2v-5b", "i2v-a14b", "t2v-a14b", "pixels"]

_TEXT_DIM = 32

# "pixels" is TI2V-5B over an autoencoder without weights, and a little wider, so that it can learn something on a CPU.
_RELEASES = {"ti2v-5b": TI2V_5B, "i2v-a14b": I2V_A14B, "t2v-a14b": T2V_A14B, "pixels": TI2V_5B}
_TRANSFORMER_SIZE = {"num_attention_heads": 2, "attention_head_dim": 12, "ffn_dim": 32, "num_layers": 2, "freq_dim": 64}
_PIXELS_SIZE = {"num_attention_heads": 4, "attention_head_dim": 24, "ffn_dim": 256, "num_layers": 4, "freq_dim": 64}


def tiny_transformer(kind: Kind = "ti2v-5b", seed: int = 0) -> WanTransformer3DModel:
    """A stock Wan transformer with random weights: 2 layers of 2 heads (4 layers of 4 heads for pixels)."""
    _require_kind(kind)
    release = _RELEASES[kind].transformer
    channels = {name: CHANNELS if kind == "pixels" else release[name] for name in ("in_channels", "out_channels")}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = WanTransformer3DModel(
            patch_size=release["patch_size"],
            **channels,
            text_dim=_TEXT_DIM,
            rope_max_seq_len=64,
            **(_PIXELS_SIZE if kind == "pixels" else _TRANSFORMER_SIZE),
        )
    return model.eval()


def tiny_vae(kind: Kind = "ti2v-5b", seed: int = 0) -> AutoencoderKLWan | PixelAutoencoder:
    """The matching video autoencoder, of strides 4 x 16 x 16 for TI2V-5B, 4 x 8 x 8 for the A14B pair, 4 x 2 x 2 for pixels."""
    _require_kind(kind)
    if kind == "pixels":
        return PixelAutoencoder()
    small = {"base_dim": 3, "decoder_base_dim": None, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoencoderKLWan(**{**_RELEASES[kind].vae, **small}).eval()


def tiny_pipeline(kind: Kind = "ti2v-5b", seed: int = 0) -> AnyWanPipeline:
    """A complete stock pipeline: text-to-video for t2v-a14b, image-to-video for the others."""
    _require_kind(kind)
    release = _RELEASES[kind]
    pipeline_class = WanPipeline if kind == "t2v-a14b" else WanImageToVideoPipeline
    experts = {"transformer": tiny_transformer(kind, seed)}
    if release.two_experts:
        experts["transformer_2"] = tiny_transformer(kind, seed + 1)
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction",
        use_flow_sigmas=True,
        num_train_timesteps=1000,
        flow_shift=release.flow_shift,
    )
    return pipeline_class(
        tokenizer=tiny_tokenizer(),
        text_encoder=tiny_text_encoder(seed),
        vae=tiny_vae(kind, seed),
        scheduler=scheduler,
        **experts,
        **release.pipeline,
    )


def tiny_by_name(model: object) -> AnyWanPipeline | None:
    """The pipeline that a name such as tiny:ti2v-5b stands for; None for other names."""
    kind, colon, name = str(model).partition(":")
    return tiny_pipeline(name) if kind == "tiny" and colon else None  # type: ignore[arg-type]  # refuses unknown kinds


def _require_kind(kind: str) -> None:
    if kind not in _RELEASES:
        raise SightlineError(f"kind is {kind!r}: expected one of {sorted(_RELEASES)}.")


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
    """A UMT5 encoder of one layer."""
    config = UMT5Config(
        vocab_size=128, d_model=_TEXT_DIM, d_kv=8, d_ff=37, num_layers=1, num_heads=4, relative_attention_num_buckets=8
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return UMT5EncoderModel(config).eval()
