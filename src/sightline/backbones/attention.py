"""Self-attention with a camera: what calls an encoding's stages, in any backbone and in Wan's, and the modules that carry the
camera rows through Wan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

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

Rotary: TypeAlias = tuple[Tensor, Tensor]  # cos and sin: [1, N, 1, D] each in Wan


class CameraAttnProcessor:
    """Calls the stages of a layer's encoding, `attn.camera_encoding`, in the self-attention of a backbone.

    A backbone's processor derives from this and from diffusers' own, says how it projects and rotates, and calls
    `with_camera` where there are camera rows. It holds no state of its own.
    """

    _attention_backend = None
    _parallel_config = None

    def project(self, attn: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # [B, N, dim] -> 3 x [B, N, H, D]
        """The layer's query and key, normalised, before RoPE, and its value."""
        raise NotImplementedError

    def rotate(self, attn: Any, x: Tensor, rotary: Rotary) -> Tensor:  # [B, N, H, D] -> [B, N, H, D]
        """RoPE."""
        raise NotImplementedError

    def with_camera(
        self,
        attn: Any,
        hidden_states: Tensor,  # [B, N, dim]
        rotary: Rotary,
        camera_rows: Tensor,  # [B or 1, N, 90 or more]
        mask: Tensor | None,
        finish: Callable[[Tensor, Tensor, Tensor], Tensor],
    ) -> Tensor:  # [B, N, dim]
        """The layer with its encoding. finish: the layer's output, from what attention gives, [B, N, H, D], the input of the
        projections, [B, N, dim], and the value, [B, N, H, D]."""
        encoding: EncodingLayer = attn.camera_encoding
        attend = self.attention(mask)
        hidden = encoding("input", hidden_states, camera_rows) if "input" in encoding.stages else hidden_states

        query, key, value, state = self.query_key_value(attn, hidden, rotary, camera_rows, attend)
        # Under autocast the norms return float32 while the value is bfloat16, and flash kernels need one dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)

        if "attend" in encoding.stages:
            output = encoding("attend", query, key, value, attend, camera_rows)
        else:
            output = attend(query, key, value)
        output = finish(output.type_as(query), hidden, value)
        return encoding("output", output, state, camera_rows) if "output" in encoding.stages else output

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
        self, attn: Any, hidden: Tensor, rotary: Rotary, camera_rows: Tensor, attend: Attend
    ) -> tuple[Tensor, Tensor, Tensor, AttentionState]:
        """Project, normalise, rotate and inject. Returns query, key, value [B, N, H, D], and the output stage's state."""
        encoding: EncodingLayer = attn.camera_encoding
        query, key, value = self.project(attn, hidden)
        state = AttentionState(hidden, query, key, value, attend)
        if "rotate" in encoding.stages:
            query, key, value = encoding("rotate", query, key, value, rotary, camera_rows)
        else:
            query, key = self.rotate(attn, query, rotary), self.rotate(attn, key, rotary)
        if "inject" in encoding.stages:
            query, key, value = encoding("inject", query, key, value, camera_rows)
        return query, key, value, state


class CameraWanAttnProcessor(CameraAttnProcessor, WanAttnProcessor):
    """Wan's self-attention with a camera. Without camera rows it is the stock processor."""

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
            return WanAttnProcessor.__call__(self, attn, hidden_states, None, attention_mask, (cos, sin))
        return self.with_camera(
            attn, hidden_states, (cos, sin), camera_rows, attention_mask, partial(_project_out, attn)
        )

    def project(self, attn: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = _get_qkv_projections(attn, hidden, None)
        query, key = attn.norm_q(query), attn.norm_k(key)
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, value))
        return query, key, value

    def rotate(self, attn: Any, x: Tensor, rotary: Rotary) -> Tensor:
        return apply_rope(x, *rotary)


def _project_out(attn: WanAttention, output: Tensor, hidden: Tensor, value: Tensor) -> Tensor:
    return attn.to_out[1](attn.to_out[0](output.flatten(2, 3)))


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


class RopeWithCamera(nn.Module):
    """Before a module of RoPE tables in a class's bases: it returns the camera rows of the call in progress beside them, or
    [1, N, 0] without a camera. token_dim: the dimension of the tables that counts tokens."""

    token_dim = 1

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # On the instance from the start: a compiler that first saw a class attribute would compile the model twice.
        self.camera_rows: Tensor | None = None

    def forward(self, *args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
        cos, sin = super().forward(*args, **options)
        # Always three tensors: context parallelism splits the outputs of this module by their number.
        return (
            cos,
            sin,
            cos.new_empty(1, cos.shape[self.token_dim], 0) if self.camera_rows is None else self.camera_rows,
        )


class EmbeddingWithCamera(nn.Module):
    """Before a module that makes tokens of latents in a class's bases: it adds the tokens that an encoding's `embed` computed for
    the call in progress."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tokens: Tensor | None = None  # [B or 1, N, dim]; on the instance, as above

    def forward(self, latents: Tensor) -> Tensor:
        embedded: Tensor = super().forward(latents)
        if self.tokens is None:
            return embedded
        tokens = self.tokens.to(embedded.dtype)
        if embedded.ndim == 5:  # [B, dim, t, h, w]
            tokens = tokens.transpose(1, 2).unflatten(2, embedded.shape[2:])
        return embedded + tokens


class CameraRotaryPosEmbed(RopeWithCamera, WanRotaryPosEmbed):
    """Wan's."""


class CameraPatchEmbedding(EmbeddingWithCamera, nn.Conv3d):
    """Wan's."""
