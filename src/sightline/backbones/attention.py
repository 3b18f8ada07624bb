"""Wan's self-attention with a camera: the processor that calls an encoding's stages, and the modules that carry the camera
rows to it."""

from __future__ import annotations

from typing import Any

from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.transformers.transformer_wan import (
    WanAttention,
    WanAttnProcessor,
    WanRotaryPosEmbed,
    _get_qkv_projections,
)
from torch import Tensor, nn

from sightline.encodings.protocol import Attend, AttentionState, EncodingLayer
from sightline.encodings.rotary import apply_rope


class CameraWanAttnProcessor(WanAttnProcessor):
    """Calls the stages of the layer's encoding, `attn.camera_encoding`. Without camera rows it is the stock processor.

    It holds no state of its own.
    """

    _attention_backend = None
    _parallel_config = None

    def __call__(
        self,
        attn: WanAttention,
        hidden_states: Tensor,  # [B, N, dim]
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, ...]
        | None = None,  # cos, sin [1, N, 1, D], camera rows [B or 1, N, 90 or more, or 0]
    ) -> Tensor:
        assert rotary_emb is not None and encoder_hidden_states is None, "the camera is for self-attention only"
        cos, sin, camera_rows = rotary_emb
        if camera_rows.shape[-1] == 0:
            return super().__call__(attn, hidden_states, None, attention_mask, (cos, sin))
        encoding: EncodingLayer = attn.camera_encoding
        attend = self.attention(attention_mask)

        hidden = hidden_states
        if "input" in encoding.stages:
            hidden = encoding("input", hidden, camera_rows)

        query, key, value, state = self.query_key_value(attn, hidden, (cos, sin), camera_rows, attend)
        # Under autocast the norms return float32 while the value is bfloat16, and flash kernels need one dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)

        if "attend" in encoding.stages:
            output = encoding("attend", query, key, value, attend, camera_rows)
        else:
            output = attend(query, key, value)
        output = output.flatten(2, 3).type_as(query)
        output = attn.to_out[1](attn.to_out[0](output))
        if "output" in encoding.stages:
            output = encoding("output", output, state, camera_rows)
        return output

    def attention(self, mask: Tensor | None) -> Attend:
        """diffusers' attention with this model's backend and context parallelism."""

        def attend(query: Tensor, key: Tensor, value: Tensor, scale: float | None = None) -> Tensor:
            return dispatch_attention_fn(
                query,
                key,
                value,
                attn_mask=mask,
                scale=scale,
                backend=self._attention_backend,
                parallel_config=self._parallel_config,
            )

        return attend

    def query_key_value(
        self,
        attn: WanAttention,
        hidden: Tensor,  # [B, N, dim]
        rotary: tuple[Tensor, Tensor],  # cos and sin, [1, N, 1, D] each
        camera_rows: Tensor,  # [B or 1, N, 90 or more]
        attend: Attend,
    ) -> tuple[Tensor, Tensor, Tensor, AttentionState]:
        """Project, normalise, rotate and inject. Returns query, key, value [B, N, H, D], and the output stage's state."""
        encoding: EncodingLayer = attn.camera_encoding
        query, key, value = _get_qkv_projections(attn, hidden, None)
        query, key = attn.norm_q(query), attn.norm_k(key)
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, value))
        state = AttentionState(hidden, query, key, value, attend)
        if "rotate" in encoding.stages:
            query, key, value = encoding("rotate", query, key, value, rotary, camera_rows)
        else:
            query, key = apply_rope(query, *rotary), apply_rope(key, *rotary)
        if "inject" in encoding.stages:
            query, key, value = encoding("inject", query, key, value, camera_rows)
        return query, key, value, state


class BlindWanAttnProcessor(WanAttnProcessor):
    """The stock processor, for layers that receive camera rows and do not use them."""

    def __call__(
        self,
        attn: WanAttention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, ...] | None = None,  # cos, sin, camera rows
    ) -> Tensor:
        assert rotary_emb is not None
        return super().__call__(attn, hidden_states, encoder_hidden_states, attention_mask, rotary_emb[:2])


class CameraRotaryPosEmbed(WanRotaryPosEmbed):
    """The RoPE tables and, beside them, the camera rows of the call in progress ([B or 1, N, 0] without a camera)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # On the instance from the start: a compiler that first saw a class attribute would compile the model twice.
        self.camera_rows: Tensor | None = None

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        cos, sin = super().forward(hidden_states)
        # Always three tensors: context parallelism splits the outputs of this module by their number.
        return cos, sin, cos.new_empty(1, cos.shape[1], 0) if self.camera_rows is None else self.camera_rows


class CameraPatchEmbedding(nn.Conv3d):
    """The pretrained patch embedding, plus the tokens that an encoding's `embed` computed for the call in progress."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tokens: Tensor | None = None  # [B or 1, N, dim]; on the instance, as above

    def forward(self, latents: Tensor) -> Tensor:  # [B, C, t, H, W] -> [B, dim, t, h, w]
        embedded = super().forward(latents)
        if self.tokens is None:
            return embedded
        return embedded + self.tokens.transpose(1, 2).unflatten(2, embedded.shape[2:]).to(embedded.dtype)
