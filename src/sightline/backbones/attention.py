"""Wan's self-attention with a camera: the processor that calls an encoding's stages, and the road the camera travels."""

from __future__ import annotations

from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.transformers.transformer_wan import (
    WanAttention,
    WanAttnProcessor,
    WanRotaryPosEmbed,
    _get_qkv_projections,
)
from torch import Tensor, nn

from sightline.encodings.protocol import Attend, EncodingLayer, Layer
from sightline.encodings.rotary import apply_rope


class CameraWanAttnProcessor(WanAttnProcessor):
    """Calls the stages of the layer's encoding, `attn.camera_encoding`. Stateless; without a camera it is the stock processor."""

    _attention_backend = None
    _parallel_config = None

    def __call__(
        self,
        attn: WanAttention,
        hidden_states: Tensor,  # [B, N, dim]
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, ...] | None = None,  # cos, sin [1, N, 1, D], camera [B or 1, N, 90 and more, or 0]
    ) -> Tensor:
        assert rotary_emb is not None and encoder_hidden_states is None, "the camera is for self-attention only"
        cos, sin, camera_rows = rotary_emb
        if camera_rows.shape[-1] == 0:
            return super().__call__(attn, hidden_states, None, attention_mask, (cos, sin))
        method: EncodingLayer = attn.camera_encoding
        attend = self.attention(attention_mask)

        hidden = hidden_states
        if "input" in method.touches:
            hidden = method("input", hidden, camera_rows)

        query, key, value, layer = self.positioned(attn, hidden, (cos, sin), camera_rows, attend)
        # Under autocast the norms return float32 while the value is bf16, and flash kernels want one dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)

        if "attend" in method.touches:
            output = method("attend", query, key, value, attend, camera_rows)
        else:
            output = attend(query, key, value)
        output = output.flatten(2, 3).type_as(query)
        output = attn.to_out[1](attn.to_out[0](output))
        if "output" in method.touches:
            output = method("output", output, layer, camera_rows)
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

    def positioned(
        self, attn: WanAttention, hidden: Tensor, rotary: tuple[Tensor, Tensor], camera_rows: Tensor, attend: Attend
    ) -> tuple[Tensor, Tensor, Tensor, Layer]:
        """Project, normalise, rotate, inject: query, key, value [B, N, H, D], and what the output stage may look at."""
        method: EncodingLayer = attn.camera_encoding
        query, key, value = _get_qkv_projections(attn, hidden, None)
        query, key = attn.norm_q(query), attn.norm_k(key)
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, value))
        layer = Layer(hidden, query, key, value, attend)
        if "rotate" in method.touches:
            query, key, value = method("rotate", query, key, value, rotary, camera_rows)
        else:
            query, key = apply_rope(query, *rotary), apply_rope(key, *rotary)
        if "inject" in method.touches:
            query, key, value = method("inject", query, key, value, camera_rows)
        return query, key, value, layer


class CameraRotaryPosEmbed(WanRotaryPosEmbed):
    """RoPE tables and, beside them, the camera of the call in progress ([B or 1, N, 0] when there is none)."""

    camera_rows: Tensor | None = None

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        cos, sin = super().forward(hidden_states)
        # Always a third tensor: context parallelism splits the outputs of this module by their number.
        return cos, sin, cos.new_empty(1, cos.shape[1], 0) if self.camera_rows is None else self.camera_rows


class CameraPatchEmbedding(nn.Conv3d):
    """The pretrained patch embedding and, added to it, what a method makes of the camera of the call in progress."""

    tokens: Tensor | None = None  # [B or 1, N, dim]

    def forward(self, latents: Tensor) -> Tensor:  # [B, C, t, H, W] -> [B, dim, t, h, w]
        embedded = super().forward(latents)
        if self.tokens is None:
            return embedded
        return embedded + self.tokens.transpose(1, 2).unflatten(2, embedded.shape[2:]).to(embedded.dtype)
