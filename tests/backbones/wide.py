"""A small transformer whose linear layers count as large, its inputs, and how far two outputs are apart."""

from __future__ import annotations

import torch
from diffusers import WanTransformer3DModel
from torch import nn


def wide_model(layers: int = 3) -> nn.Module:
    """Wide enough that its linear layers count as large."""
    torch.manual_seed(0)
    return WanTransformer3DModel(
        num_attention_heads=4, attention_head_dim=64, ffn_dim=512, num_layers=layers, text_dim=32, in_channels=4, out_channels=4,
        freq_dim=32, rope_max_seq_len=32,
    ).eval()  # fmt: skip


def inputs(batch: int = 1) -> dict:
    generator = torch.Generator().manual_seed(1)
    return {
        "hidden_states": torch.randn(batch, 4, 2, 8, 8, generator=generator),
        "timestep": torch.full((batch,), 500.0),
        "encoder_hidden_states": torch.randn(batch, 6, 32, generator=generator),
        "return_dict": False,
    }


@torch.no_grad()
def output(model: nn.Module) -> torch.Tensor:
    return model(**inputs())[0]


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).square().mean().sqrt() / other.square().mean().sqrt())
