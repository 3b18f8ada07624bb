"""The names of Wan's weights in diffusers, which camera weights use, and in ComfyUI, which keeps those of the release."""

from __future__ import annotations

import re

_TABLE = (
    (r"^condition_embedder\.text_embedder\.linear_1", "text_embedding.0"),
    (r"^condition_embedder\.text_embedder\.linear_2", "text_embedding.2"),
    (r"^condition_embedder\.time_embedder\.linear_1", "time_embedding.0"),
    (r"^condition_embedder\.time_embedder\.linear_2", "time_embedding.2"),
    (r"^condition_embedder\.time_proj", "time_projection.1"),
    (r"^scale_shift_table", "head.modulation"),
    (r"^proj_out", "head.head"),
    (r"\.scale_shift_table", ".modulation"),
    (r"\.attn1\.to_out\.0", ".self_attn.o"),
    (r"\.attn2\.to_out\.0", ".cross_attn.o"),
    (r"\.attn1\.(?:to_)?", ".self_attn."),
    (r"\.attn2\.(?:to_)?", ".cross_attn."),
    (r"\.norm2\.", ".norm3."),
    (r"\.ffn\.net\.0\.proj", ".ffn.0"),
    (r"\.ffn\.net\.2", ".ffn.2"),
)


def comfy_name(name: str) -> str:
    """The name in ComfyUI's Wan of a weight or layer of diffusers' Wan."""
    for pattern, replacement in _TABLE:
        name = re.sub(pattern, replacement, name)
    return name
