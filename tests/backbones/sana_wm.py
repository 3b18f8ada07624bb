"""A tiny random SANA-WM pipeline, made of the classes of the real one and saved in its layout."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKLLTX2Video,
    FlowMatchEulerDiscreteScheduler,
    SanaWMPipeline,
    SanaWMTransformer3DModel,
)
from transformers import Gemma2Config, Gemma2ForCausalLM, GemmaTokenizer

SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")


def sana_wm_pipeline() -> SanaWMPipeline:
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, "▁", *string.printable))}
    text = Gemma2Config(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, pad_token_id=0, eos_token_id=1, bos_token_id=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformer = SanaWMTransformer3DModel(
            in_channels=8, num_layers=2, hidden_size=48, num_attention_heads=2, linear_head_dim=24, softmax_every_n=2,
            caption_channels=16, chunk_plucker_post_attn_blocks=2, mlp_ratio=1.0,
        ).eval()  # fmt: skip
        vae = AutoencoderKLLTX2Video(
            latent_channels=8, block_out_channels=(8, 8, 8, 8), decoder_block_out_channels=(8, 16, 32),
            layers_per_block=(1, 1, 1, 1, 1), decoder_layers_per_block=(1, 1, 1, 1),
            spatial_compression_ratio=32, temporal_compression_ratio=8,
        ).eval()  # fmt: skip
        text_encoder = Gemma2ForCausalLM(text).eval()
    for name, parameter in transformer.named_parameters():
        if "plucker" in name:  # they start at zero, and a camera would have no effect
            parameter.data.normal_(0, 0.5, generator=torch.Generator().manual_seed(1))
    pipe = SanaWMPipeline(
        tokenizer=GemmaTokenizer(vocab=vocabulary, merges=[]),
        text_encoder=text_encoder,
        vae=vae,
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=9.95),
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def write_sana_wm(folder: Path) -> Path:
    sana_wm_pipeline().save_pretrained(folder)
    return folder
