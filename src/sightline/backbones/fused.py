"""Wan's attention, block and timestep embedding with the fused kernels: the same parameters and names, another `forward`.

Where a kernel cannot serve a call (a CPU, another dtype, weights that an offloader keeps elsewhere), each class behaves as its
stock parent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from diffusers.models.activations import GELU
from diffusers.models.transformers import transformer_wan as wan
from diffusers.models.transformers.transformer_wan import WanAttention, WanAttnProcessor, _get_qkv_projections
from torch import Tensor, nn

from sightline.backbones.attention import CameraWanAttnProcessor
from sightline.backbones.low_precision_linear import Fp8Linear
from sightline.encodings.protocol import Attend, AttentionState, EncodingLayer
from sightline.kernels import ops, usable

MAX_TIMESTEPS = 512  # distinct ones in a call, such as one or two for each clip; more take the stock path
_FEW = 64  # up to this number, blocks are compiled again for every other number of distinct timesteps


class FusedWanAttnProcessor(CameraWanAttnProcessor):
    """QKNorm and RoPE in one kernel, with the camera's addition where the encoding has a fused form.

    Serves the self-attention of stock models and of camera models.
    """

    def __call__(
        self,
        attn: WanAttention,
        hidden_states: Tensor,  # [B, N, dim]
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, ...] | None = None,  # cos, sin [1, N, 1, D]; in a camera model also the camera rows
    ) -> Tensor:
        assert rotary_emb is not None and encoder_hidden_states is None, "fused processors are for self-attention only"
        cos, sin, *camera_rows = rotary_emb
        if camera_rows and camera_rows[0].shape[-1]:
            return super().__call__(attn, hidden_states, None, attention_mask, rotary_emb)
        if not _weights_beside(attn, hidden_states):
            return WanAttnProcessor.__call__(self, attn, hidden_states, None, attention_mask, (cos, sin))
        query, key, value = _project(attn, hidden_states)
        query, key = _qk_without_camera(attn, query, key, (cos, sin))
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, value))
        output = self.attention(attention_mask)(query, key, value).flatten(2, 3).type_as(query)
        return attn.to_out[1](attn.to_out[0](output))

    def query_key_value(
        self, attn: WanAttention, hidden: Tensor, rotary: tuple[Tensor, Tensor], camera_rows: Tensor, attend: Attend
    ) -> tuple[Tensor, Tensor, Tensor, AttentionState]:
        encoding: EncodingLayer = attn.camera_encoding
        if not can_fuse(encoding) or not _weights_beside(attn, hidden):
            return super().query_key_value(attn, hidden, rotary, camera_rows, attend)
        query, key, value = _project(attn, hidden)
        if "inject" in encoding.stages:
            norms = (attn.norm_q.weight, attn.norm_k.weight)
            query, key = encoding("fused", query, key, norms, attn.norm_q.eps, rotary, camera_rows)
        else:
            query, key = _qk_without_camera(attn, query, key, rotary)
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, value))
        # Query and key before RoPE do not exist here, and `can_fuse` excludes encodings that read them.
        missing = query.new_empty(0)
        return query, key, value, AttentionState(hidden, missing, missing, value, attend)


def can_fuse(encoding: EncodingLayer) -> bool:
    """Whether one kernel can do QKNorm and RoPE, and the camera's addition if there is one, in layers of this encoding."""
    if "rotate" in encoding.stages or ("output" in encoding.stages and encoding.reads_query_key):
        return False
    return encoding.has_fused or "inject" not in encoding.stages


def _weights_beside(attn: WanAttention, hidden: Tensor) -> bool:
    """Whether the kernels can take these hidden states, and the weights of the layer's norms."""
    return usable(hidden) and _is_beside(attn.norm_q, hidden) and _is_beside(attn.norm_k, hidden)


def _is_beside(layer: Any, x: Tensor) -> bool:
    """Whether a layer's weights can be used without calling it: they are on the device of x, and no hook brings them there when
    the layer is called, or takes them away. Weights that such a hook fetches in advance may not have arrived yet."""
    hooked = hasattr(layer, "_diffusers_hook") or hasattr(layer, "_hf_hook")
    return not hooked and bool(layer.weight.device == x.device)


def _project(attn: WanAttention, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # [B, N, dim] -> 3 x [B, N, dim]
    """The projections of diffusers. Where all three layers are in FP8, their input is rounded once."""
    layers = (attn.to_q, attn.to_k, attn.to_v)
    if attn.fused_projections or not all(isinstance(layer, Fp8Linear) for layer in layers):
        projected: tuple[Tensor, Tensor, Tensor] = _get_qkv_projections(attn, hidden, None)
        return projected
    rounded = ops.quantize_rows(hidden, False)
    query, key, value = (layer(hidden, rounded=rounded) for layer in layers)
    return query, key, value


def _qk_without_camera(
    attn: WanAttention, query: Tensor, key: Tensor, rotary: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:  # [B, N, dim] x2
    norms = (attn.norm_q.weight, attn.norm_k.weight)
    return ops.qk(query, key, *norms, *rotary, None, [], attn.norm_q.eps, 1.0, False)


class Modulation(NamedTuple):
    """The projected timesteps of a call, one row for each distinct timestep, and the row of each token. Passed as `temb`."""

    table: Tensor  # [K, 6 dim], then [K, 6, dim]
    rows: Tensor  # [B, N] int32

    def unflatten(self, _: int, sizes: tuple[int, int]) -> Modulation:
        """The stock model calls this on `temb` between the embedding and the blocks."""
        return Modulation(self.table.unflatten(-1, sizes), self.rows)


class WanTimeTextImageEmbedding(wan.WanTimeTextImageEmbedding):
    """Embeds each distinct timestep once. TI2V-5B passes one per token, but only two differ: 0 and t."""

    def forward(
        self,
        timestep: Tensor,  # [B] or [B N]
        encoder_hidden_states: Tensor,
        encoder_hidden_states_image: Tensor | None = None,
        timestep_seq_len: int | None = None,  # N
    ) -> Any:
        texts = (encoder_hidden_states, encoder_hidden_states_image)
        # The number of distinct timesteps depends on values, which are unknown while the whole model is compiled.
        if timestep_seq_len is None or torch.compiler.is_compiling() or not usable(encoder_hidden_states):
            return super().forward(timestep, *texts, timestep_seq_len)
        distinct, index = torch.unique(timestep, return_inverse=True)
        if len(distinct) > MAX_TIMESTEPS:
            return super().forward(timestep, *texts, timestep_seq_len)
        if len(distinct) > _FEW:
            # A training batch now and then draws one timestep twice. Unused rows keep the number, and the compiled blocks.
            distinct = F.pad(distinct, (0, _FEW - len(distinct) % _FEW))
        embedded, projected, *texts = super().forward(distinct, *texts)  # [K, dim], [K, 6 dim]
        index = index.view(-1, timestep_seq_len).int()
        return F.embedding(index, embedded), Modulation(projected, index), *texts


class WanTransformerBlock(wan.WanTransformerBlock):
    """The block with fused norms and residuals. It keeps the stock class name, by which regional compilation finds blocks."""

    def forward(
        self,
        hidden_states: Tensor,  # [B, N, dim]
        encoder_hidden_states: Tensor,  # [B, text, dim]
        temb: Tensor | Modulation,  # [B, 6, dim], [B, N, 6, dim], or distinct rows
        rotary_emb: tuple[Tensor, ...],
    ) -> Tensor:
        x = hidden_states
        if isinstance(temb, Modulation):
            table, index = temb
        elif temb.ndim == 3 and len(temb) <= MAX_TIMESTEPS and usable(x):
            table, index = temb, _rows(torch.arange(len(x), dtype=torch.int32, device=x.device)[:, None], x)
        else:
            return super().forward(x, encoder_hidden_states, temb, rotary_emb)
        table = self.scale_shift_table + table.float()  # [K, 6, dim]
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = table.unbind(1)

        normed = ops.modulate(x, shift, scale, index, self.norm1.eps)
        x = ops.add_gated(x, self.attn1(normed, None, None, rotary_emb), gate, index)
        x = x + self.attn2(self._before_text(x), encoder_hidden_states, None, None)
        normed = ops.modulate(x, ffn_shift, ffn_scale, index, self.norm3.eps)
        return ops.add_gated(x, self._feed_forward(normed), ffn_gate, index)

    def _feed_forward(self, x: Tensor) -> Tensor:
        """Without gradients, the GELU of these widest activations of the model is applied before they are stored."""
        first, *rest = self.ffn.net
        if isinstance(getattr(first, "proj", None), Fp8Linear) and isinstance(rest[-1], Fp8Linear):
            return rest[-1](first.proj(x), gelu=True)
        if torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type) or not _is_tanh_gelu(first, x):
            return self.ffn(x)
        x = ops.linear_gelu(x, first.proj.weight, first.proj.bias)
        for layer in rest:
            x = layer(x)
        return x

    def _before_text(self, x: Tensor) -> Tensor:
        norm = self.norm2
        if not isinstance(norm, nn.LayerNorm) or not _is_beside(norm, x):
            return norm(x.float()).type_as(x)
        # The norm's own weights serve as a table of one row.
        first = _rows(torch.zeros(1, 1, dtype=torch.int32, device=x.device), x)
        return ops.modulate(x, norm.bias[None], norm.weight[None].float() - 1, first, norm.eps)


def _is_tanh_gelu(layer: nn.Module, x: Tensor) -> bool:
    """Whether this is diffusers' linear layer with tanh-GELU, on the device and in the dtype of x, without a LoRA adapter."""
    proj = getattr(layer, "proj", None)
    if type(layer) is not GELU or layer.approximate != "tanh" or type(proj) is not nn.Linear or proj.bias is None:
        return False
    return _is_beside(proj, x) and proj.weight.dtype == proj.bias.dtype == x.dtype


def _rows(index: Tensor, x: Tensor) -> Tensor:  # [B or 1, 1] -> [B, N], without memory
    return index.expand(x.shape[0], x.shape[1])
