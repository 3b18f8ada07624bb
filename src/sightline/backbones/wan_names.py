"""Wan transformers under the names of Wan's own code, which most released fine-tunes keep, and under those of diffusers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]

_ATTENTION = {"q": "to_q", "k": "to_k", "v": "to_v", "o": "to_out.0", "norm_q": "norm_q", "norm_k": "norm_k"}
_IMAGE_ATTENTION = {"k_img": "add_k_proj", "v_img": "add_v_proj", "norm_k_img": "norm_added_k"}
_BLOCK = {
    "modulation": "scale_shift_table",
    "norm3": "norm2",  # the only norm of a block that has weights: before the cross-attention
    "ffn.0": "ffn.net.0.proj",
    "ffn.2": "ffn.net.2",
    **{f"self_attn.{wan}": f"attn1.{name}" for wan, name in _ATTENTION.items()},
    **{f"cross_attn.{wan}": f"attn2.{name}" for wan, name in (_ATTENTION | _IMAGE_ATTENTION).items()},
}
_CONDITION = "condition_embedder"
_OUTSIDE = {
    "patch_embedding": "patch_embedding",
    "text_embedding.0": f"{_CONDITION}.text_embedder.linear_1",
    "text_embedding.2": f"{_CONDITION}.text_embedder.linear_2",
    "time_embedding.0": f"{_CONDITION}.time_embedder.linear_1",
    "time_embedding.2": f"{_CONDITION}.time_embedder.linear_2",
    "time_projection.1": f"{_CONDITION}.time_proj",
    "img_emb.proj.0": f"{_CONDITION}.image_embedder.norm1",
    "img_emb.proj.1": f"{_CONDITION}.image_embedder.ff.net.0.proj",
    "img_emb.proj.3": f"{_CONDITION}.image_embedder.ff.net.2",
    "img_emb.proj.4": f"{_CONDITION}.image_embedder.norm2",
    "head.head": "proj_out",
    "head.modulation": "scale_shift_table",
}
_HEAD_DIM = 128  # of every released Wan model

# Tensors without which a file is no Wan transformer under Wan's own names.
_REQUIRED = ("patch_embedding.weight", "blocks.0.self_attn.q.weight", "blocks.0.ffn.0.weight", "head.head.weight",
             "text_embedding.0.weight", "time_embedding.0.weight")  # fmt: skip


def is_wan(shapes: Shapes) -> bool:
    """Whether these are the tensors of a Wan transformer under Wan's own names."""
    ranks = {len(shapes.get(name, ())) for name in _REQUIRED[1:]}
    return ranks == {2} and len(shapes.get(_REQUIRED[0], ())) == 5


def diffusers_name(name: str) -> str | None:
    """The name that diffusers has for a parameter of Wan's own code; None for one that Wan does not have."""
    match = re.fullmatch(r"(blocks\.\d+\.)?(.+?)(\.weight|\.bias)?", name)
    assert match is not None
    block, module, kind = match.groups(default="")
    renamed = (_BLOCK if block else _OUTSIDE).get(module)
    return None if renamed is None else f"{block}{renamed}{kind}"


def wan_config(shapes: Shapes, num_heads: int | None = None) -> dict[str, Any]:
    """The configuration of diffusers' WanTransformer3DModel for these tensors (see is_wan)."""
    dim, in_channels, *patch_size = shapes["patch_embedding.weight"]
    heads = num_heads or max(dim // _HEAD_DIM, 1)
    has_image = "img_emb.proj.0.weight" in shapes
    pixels = patch_size[0] * patch_size[1] * patch_size[2]
    return {
        "patch_size": tuple(patch_size),
        "num_attention_heads": heads,
        "attention_head_dim": dim // heads,
        "in_channels": in_channels,
        "out_channels": shapes["head.head.weight"][0] // pixels,
        "text_dim": shapes["text_embedding.0.weight"][1],
        "freq_dim": shapes["time_embedding.0.weight"][1],
        "ffn_dim": shapes["blocks.0.ffn.0.weight"][0],
        "num_layers": 1 + max(int(name.split(".")[1]) for name in shapes if re.match(r"blocks\.\d+\.", name)),
        "image_dim": shapes["img_emb.proj.0.weight"][0] if has_image else None,
        "added_kv_proj_dim": dim if has_image else None,
    }
