"""Floating-point operations of a transformer of Wan's form, from its configuration alone.

A multiplication and its addition count as two. Norms, RoPE and the camera, which are below a hundredth, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TEXT_TOKENS = 512  # of a padded prompt


def forward_flops(config: Mapping[str, Any], tokens: int, text_tokens: int = TEXT_TOKENS) -> float:
    """The operations of one pass over one clip."""
    return product_flops(config, tokens, text_tokens) + attention_flops(config, tokens, text_tokens)


def training_flops(config: Mapping[str, Any], tokens: int, text_tokens: int, trained: float) -> float:
    """The operations that the loss of one clip and its gradients need. trained: the fraction of the weights that is trained.

    Every product is computed again with the gradient of its output, to get that of its input, and once more where its weight is
    trained. The gradient of attention takes twice its own operations. What gradient checkpointing computes again is not counted.
    """
    products, attention = product_flops(config, tokens, text_tokens), attention_flops(config, tokens, text_tokens)
    return products * (2 + trained) + attention * 3


def product_flops(config: Mapping[str, Any], tokens: int, text_tokens: int) -> float:
    """Of the products with weights."""
    dim = _dim(config)
    self_attention = 4 * dim * dim * tokens
    cross_attention = 2 * dim * dim * (tokens + text_tokens)
    feed_forward = 2 * dim * config["ffn_dim"] * tokens
    patch = config["patch_size"][0] * config["patch_size"][1] * config["patch_size"][2]
    ends = patch * (config["in_channels"] + config["out_channels"]) * dim * tokens
    return 2.0 * (config["num_layers"] * (self_attention + cross_attention + feed_forward) + ends)


def attention_flops(config: Mapping[str, Any], tokens: int, text_tokens: int) -> float:
    """Of the scores and of the sums that they weigh."""
    return 4.0 * config["num_layers"] * tokens * (tokens + text_tokens) * _dim(config)


def _dim(config: Mapping[str, Any]) -> int:
    dim: int = config["num_attention_heads"] * config["attention_head_dim"]
    return dim
