"""Wan's self-attention with a camera: the processor that calls an encoding's stages, and the road the camera travels."""

from __future__ import annotations

import torch
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.transformers.transformer_wan import (
    WanAttention,
    WanAttnProcessor,
    WanRotaryPosEmbed,
    _get_qkv_projections,
)
from torch import Tensor

from sightline.encodings.protocol import CameraLayer, Layer


class CameraWanAttnProcessor(WanAttnProcessor):
    """Calls the stages of the layer's encoding, `attn.camera`. Stateless; without a camera it is the stock processor."""

    _attention_backend = None
    _parallel_config = None

    def __call__(
        self,
        attn: WanAttention,
        hidden_states: Tensor,  # [B, N, dim]
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, ...] | None = None,  # cos, sin [1, N, 1, D], camera [B or 1, N, 23 or 0]
    ) -> Tensor:
        assert rotary_emb is not None and encoder_hidden_states is None, "the camera is for self-attention only"
        cos, sin, camera = rotary_emb
        if camera.shape[-1] == 0:
            return super().__call__(attn, hidden_states, None, attention_mask, (cos, sin))
        method: CameraLayer = attn.camera

        def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return dispatch_attention_fn(
                query,
                key,
                value,
                attn_mask=attention_mask,
                backend=self._attention_backend,
                parallel_config=self._parallel_config,
            )

        hidden = hidden_states
        if "input" in method.touches:
            hidden = method("input", hidden, camera)

        query, key, value = _get_qkv_projections(attn, hidden, None)
        query, key = attn.norm_q(query), attn.norm_k(key)
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, value))
        layer = Layer(hidden, query, key, value, attend)

        if "rotate" in method.touches:
            query, key, value = method("rotate", query, key, value, (cos, sin), camera)
        else:
            query, key = apply_rope(query, cos, sin), apply_rope(key, cos, sin)
        if "inject" in method.touches:
            query, key, value = method("inject", query, key, value, camera)
        # Under autocast the norms return float32 while the value is bf16, and flash kernels want one dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)

        if "attend" in method.touches:
            output = method("attend", query, key, value, attend, camera)
        else:
            output = attend(query, key, value)
        output = output.flatten(2, 3).type_as(query)
        output = attn.to_out[1](attn.to_out[0](output))
        if "output" in method.touches:
            output = method("output", output, layer, camera)
        return output


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # [B, N, H, D], [1, N, 1, D] x2 -> [B, N, H, D]
    """Wan's rotary embedding, pairs (2p, 2p+1), in diffusers' own order of operations so that the bits agree."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[..., 0::2], sin[..., 1::2]
    rotated = torch.empty_like(x)
    rotated[..., 0::2] = even * cos - odd * sin
    rotated[..., 1::2] = even * sin + odd * cos
    return rotated.type_as(x)


class CameraRotaryPosEmbed(WanRotaryPosEmbed):
    """RoPE tables and, beside them, the camera of the call in progress ([B or 1, N, 0] when there is none)."""

    camera: Tensor | None = None

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        cos, sin = super().forward(hidden_states)
        # Always a third tensor: context parallelism splits the outputs of this module by their number.
        return cos, sin, cos.new_empty(1, cos.shape[1], 0) if self.camera is None else self.camera
