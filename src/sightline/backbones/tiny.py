"""Untrained pipelines of a few thousand parameters, made of the same classes as the real ones, for tests and demos."""

from __future__ import annotations

import string
from inspect import signature
from typing import Any, NamedTuple

import diffusers
import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

from sightline.backbones.families import LTX2, SKYREELS_V2, SKYREELS_V2_DF, VACE, WAN, Family
from sightline.backbones.pixels import CHANNELS, PixelAutoencoder
from sightline.backbones.stock import STOCK_PIPELINES, AnyPipeline
from sightline.backbones.tiny_ltx2 import tiny_ltx2_parts, tiny_ltx2_transformer, tiny_ltx2_vae
from sightline.backbones.wan_configs import I2V_21, I2V_A14B, T2V_21, T2V_A14B, TI2V_5B, WanConfig
from sightline.errors import SightlineError

LTX2_KIND = "ltx-2"
_TEXT_DIM, _IMAGE_DIM = 32, 16


class _Kind(NamedTuple):
    """A family, the release whose channels, strides and flags are taken, and further settings of the transformer."""

    family: Family
    release: WanConfig
    transformer: dict[str, Any] = {}  # noqa: RUF012  # never changed


# "pixels" is TI2V-5B over an autoencoder without weights, and a little wider, so that it can learn something on a CPU.
_KINDS = {
    "ti2v-5b": _Kind(WAN, TI2V_5B),
    "i2v-a14b": _Kind(WAN, I2V_A14B),
    "t2v-a14b": _Kind(WAN, T2V_A14B),
    "pixels": _Kind(WAN, TI2V_5B),
    "wan2.1-t2v": _Kind(WAN, T2V_21),
    "wan2.1-i2v": _Kind(WAN, I2V_21),
    "vace": _Kind(VACE, T2V_21, {"vace_layers": [0, 1], "vace_in_channels": 96}),
    "skyreels-v2-t2v": _Kind(SKYREELS_V2, T2V_21),
    "skyreels-v2-i2v": _Kind(SKYREELS_V2, I2V_21),
    "skyreels-v2-df": _Kind(SKYREELS_V2_DF, T2V_21, {"inject_sample_info": True}),
}
_TRANSFORMER_SIZE = {"num_attention_heads": 2, "attention_head_dim": 12, "ffn_dim": 32, "num_layers": 2, "freq_dim": 64}
_PIXELS_SIZE = {"num_attention_heads": 4, "attention_head_dim": 24, "ffn_dim": 256, "num_layers": 4, "freq_dim": 64}


def tiny_transformer(kind: str = "ti2v-5b", seed: int = 0) -> Any:
    """A stock transformer with random weights: 2 layers of 2 heads (4 layers of 4 heads for pixels)."""
    if kind == LTX2_KIND:
        return tiny_ltx2_transformer(seed)
    family, release, settings = _kind(kind)
    channels = {
        name: CHANNELS if kind == "pixels" else release.transformer[name] for name in ("in_channels", "out_channels")
    }
    size = _PIXELS_SIZE if kind == "pixels" else _TRANSFORMER_SIZE
    if "image_dim" in release.transformer:
        settings = settings | {
            "image_dim": _IMAGE_DIM,
            "added_kv_proj_dim": size["num_attention_heads"] * size["attention_head_dim"],
        }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return getattr(diffusers, family.transformer)(
            patch_size=release.transformer["patch_size"],
            **channels,
            text_dim=_TEXT_DIM,
            rope_max_seq_len=64,
            **size,
            **settings,
        ).eval()


def tiny_vae(kind: str = "ti2v-5b", seed: int = 0) -> Any:
    """The matching video autoencoder, of strides 4 x 16 x 16 for TI2V-5B, 4 x 2 x 2 for pixels, 8 x 32 x 32 for LTX-2, and
    4 x 8 x 8 for the others."""
    if kind == LTX2_KIND:
        return tiny_ltx2_vae(seed)
    release = _kind(kind).release
    if kind == "pixels":
        return PixelAutoencoder()
    small = {"base_dim": 3, "decoder_base_dim": None, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoencoderKLWan(**{**release.vae, **small}).eval()


def tiny_pipeline(kind: str = "ti2v-5b", seed: int = 0) -> AnyPipeline:
    """A complete stock pipeline: image-to-video where the release has a first frame, text-to-video otherwise."""
    if kind == LTX2_KIND:
        return STOCK_PIPELINES[LTX2.image_pipeline](tokenizer=tiny_tokenizer(), **tiny_ltx2_parts(seed))
    family, release, _ = _kind(kind)
    from_text = release.pipeline_class == WAN.text_pipeline and kind not in ("ti2v-5b", "pixels")
    pipeline_class = STOCK_PIPELINES[family.text_pipeline if from_text else family.image_pipeline]
    parts = {"transformer": tiny_transformer(kind, seed)}
    if release.two_experts:
        parts["transformer_2"] = tiny_transformer(kind, seed + 1)
    if "image_dim" in release.transformer:
        parts |= tiny_image_encoder(seed)
    flags = {name: value for name, value in release.pipeline.items() if name in signature(pipeline_class).parameters}
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
        **parts,
        **flags,
    )


def tiny_by_name(model: object) -> AnyPipeline | None:
    """The pipeline that a name such as tiny:ti2v-5b stands for; None for other names."""
    kind, colon, name = str(model).partition(":")
    return tiny_pipeline(name) if kind == "tiny" and colon else None


def _kind(kind: str) -> _Kind:
    if kind not in _KINDS:
        raise SightlineError(f"kind is {kind!r}: expected one of {sorted((*_KINDS, LTX2_KIND))}.")
    return _KINDS[kind]


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


def tiny_image_encoder(seed: int = 0) -> dict[str, Any]:
    """The CLIP encoder of two layers and its processor, as Wan 2.1's image-to-video pipelines hold them."""
    from transformers import CLIPImageProcessorPil, CLIPVisionConfig, CLIPVisionModel

    config = CLIPVisionConfig(
        hidden_size=_IMAGE_DIM,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=32,
        patch_size=16,
    )
    processor = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return {"image_encoder": CLIPVisionModel(config).eval(), "image_processor": processor}
