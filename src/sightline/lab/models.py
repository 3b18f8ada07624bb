"""The components of the lab model: the classes of Wan2.2 TI2V at a size that trains in minutes and runs on a laptop."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel
from torch import nn
from transformers import AutoTokenizer, UMT5Config, UMT5EncoderModel

from sightline.backbones.model_info import LAB
from sightline.backbones.packed_weights import load_component
from sightline.backbones.stock import SAFETENSORS, WanImageToVideoPipeline
from sightline.checks import whole_number
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.files import atomic_folder

NUM_FRAMES, SIZE = LAB.num_frames, LAB.width
LATENT_CHANNELS, LATENT_STRIDE = 16, 8
TEXT_DIM, TEXT_TOKENS = 128, 64
FLOW_SHIFT = 3.0
HELD_OUT_SEED = 900_000  # scenes of this and larger seeds are never trained on


def lab_vae(seed: int = 0) -> AutoencoderKLWan:
    """An untrained residual VAE as in Wan2.2, of strides 4 x 8 x 8, with 6.6 M parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        vae = AutoencoderKLWan(
            is_residual=True,
            base_dim=40,
            decoder_base_dim=56,
            dim_mult=[1, 2, 2],
            num_res_blocks=1,
            temperal_downsample=[True, True],
            patch_size=2,
            in_channels=12,
            out_channels=12,
            z_dim=LATENT_CHANNELS,
            latents_mean=[0.0] * LATENT_CHANNELS,
            latents_std=[1.0] * LATENT_CHANNELS,
            scale_factor_spatial=LATENT_STRIDE,
            scale_factor_temporal=4,
        )
    for name, module in vae.named_modules():
        if name.endswith(".conv2"):  # each residual block starts as the identity
            nn.init.zeros_(module.weight)
            nn.init.zeros_(module.bias)
    return vae


def lab_transformer(layers: int = 7, heads: int = 5, ffn: int = 1024, seed: int = 0) -> WanTransformer3DModel:
    """An untrained transformer with heads of 64 channels, by default with 11.3 M parameters. ffn: width of the feed-forward."""
    for name, value in (("layers", layers), ("heads", heads), ("ffn", ffn)):
        whole_number(name, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return WanTransformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=heads,
            attention_head_dim=64,
            in_channels=LATENT_CHANNELS,
            out_channels=LATENT_CHANNELS,
            text_dim=TEXT_DIM,
            freq_dim=128,
            ffn_dim=ffn,
            num_layers=layers,
            rope_max_seq_len=64,
        )


def lab_text_config(vocabulary: int) -> UMT5Config:
    """The configuration of the text encoder, for a vocabulary of this size."""
    return UMT5Config(
        vocab_size=vocabulary,
        d_model=TEXT_DIM,
        d_kv=32,
        d_ff=256,
        num_layers=2,
        num_heads=4,
        relative_attention_num_buckets=16,
    )


def lab_text_encoder(vocabulary: int, seed: int = 0) -> UMT5EncoderModel:
    """An untrained text encoder."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return UMT5EncoderModel(lab_text_config(vocabulary))


def assemble(output: Path, vae: Path, text: Path, transformer: Path | WanTransformer3DModel | None = None) -> Path:
    """Write a complete image-to-video pipeline, in bfloat16, made of these components; returns its folder.

    transformer: a folder, or a model, which becomes bfloat16; None makes an untrained one.
    """
    for name, part in (("vae", vae), ("text", text), ("transformer", transformer)):
        if isinstance(part, Path) and not part.is_dir():
            raise SightlineError(f"{name} is {part}: found no folder there, expected a part of the lab model.")
    dtype = torch.bfloat16
    pipe = WanImageToVideoPipeline(
        tokenizer=AutoTokenizer.from_pretrained(text / "tokenizer"),
        text_encoder=UMT5EncoderModel.from_pretrained(text / "text_encoder", dtype=dtype, **SAFETENSORS),
        vae=load_component(AutoencoderKLWan, vae, dtype),
        transformer=(
            load_component(WanTransformer3DModel, transformer, torch.float32)
            if isinstance(transformer, Path)
            else transformer or lab_transformer()
        ),
        scheduler=UniPCMultistepScheduler(
            prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=FLOW_SHIFT
        ),
        expand_timesteps=True,
    )
    pipe.transformer.to(dtype)
    with atomic_folder(output, overwrite=True) as folder:
        save_pipeline(pipe, folder)
    return output


def save_pipeline(pipe: WanImageToVideoPipeline, folder: Path) -> None:
    """Write a pipeline in diffusers' layout, without the paths that it was loaded from."""
    pipe.save_pretrained(folder)
    for file in (folder / "model_index.json", *folder.glob("*/config.json")):
        content = read_json(file)
        content.pop("_name_or_path", None)
        file.write_text(json.dumps(content, indent=2) + "\n")
    for file in (folder / "model_index.json", folder / "tokenizer" / "tokenizer_config.json"):
        # transformers 5 writes a class name that earlier versions do not know; this one works in all versions.
        file.write_text(file.read_text().replace("TokenizersBackend", "PreTrainedTokenizerFast"))
