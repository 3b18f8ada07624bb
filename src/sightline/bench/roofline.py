"""The roofline: a lower bound on the step time, from a model's matrix products and attention back to back and nothing else. In a
real step, with lighter kernels in between, a GPU at its power limit may run them slightly faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.bench.models import TEXT_TOKENS, Setting


def roofline_step(base: Any, setting: Setting, training: bool) -> Callable[[], None]:
    """One step of the products alone. Each has a random input of its own: in a chain the values would vanish, and a GPU is
    faster on zeros.

    In training the forward pass runs twice, as with gradient checkpointing, and the backward pass once.
    """
    block, device = base.blocks[0], base.device
    heads, dim, hidden = block.attn1.heads, block.attn1.inner_dim, block.ffn.net[2].in_features

    def normal(*shape: int) -> Tensor:
        return torch.randn(1, *shape, device=device, dtype=setting.dtype).requires_grad_(training)

    # As in the model, hidden values come out of a GELU, and the heads are adjacent in memory.
    tokens, text = normal(setting.tokens, dim), normal(TEXT_TOKENS, dim)
    wide = F.gelu(normal(setting.tokens, hidden).detach()).requires_grad_(training)
    query, key, value = (normal(setting.tokens, heads, dim // heads) for _ in range(3))
    text_key, text_value = (normal(TEXT_TOKENS, heads, dim // heads) for _ in range(2))

    def products(block: Any) -> list[Tensor]:
        own, cross = block.attn1, block.attn2
        of_tokens = (own.to_q, own.to_k, own.to_v, own.to_out[0], cross.to_q, cross.to_out[0], block.ffn.net[0].proj)
        results = [linear(tokens) for linear in of_tokens]
        results += [cross.to_k(text), cross.to_v(text), block.ffn.net[2](wide)]
        for keys, values in ((key, value), (text_key, text_value)):
            by_head = [x.transpose(1, 2) for x in (query, keys, values)]
            results.append(F.scaled_dot_product_attention(by_head[0], by_head[1], by_head[2]))
        return results

    def step() -> None:
        for block in base.blocks:
            with torch.no_grad():
                results = products(block)
            if training:
                results = products(block)
                torch.autograd.backward(results, [result.detach() for result in results])
        if training:
            base.zero_grad(set_to_none=True)
            for tensor in (tokens, text, wide, query, key, value, text_key, text_value):
                tensor.grad = None

    return step
