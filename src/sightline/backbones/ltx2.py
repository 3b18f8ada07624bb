"""CameraLTX2VideoTransformer3DModel: diffusers' LTX-2 transformer with a camera encoding, which the stock pipelines run.

LTX-2 makes video and sound. The camera is in the self-attention of the video tokens alone: sound, the prompt, and the attention
between video and sound see no camera.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, ClassVar

import torch
from diffusers import LTX2VideoTransformer3DModel

# ModelMixin must be in this namespace: a saved pipeline looks for it in the module that defines the class.
from diffusers.models.modeling_utils import ModelMixin  # noqa: F401
from diffusers.models.transformers.transformer_ltx2 import (
    AudioVisualModelOutput,
    LTX2Attention,
    LTX2AudioVideoRotaryPosEmbed,
    LTX2PerturbedAttnProcessor,
    apply_interleaved_rotary_emb,
    apply_split_rotary_emb,
)
from torch import Tensor, nn

from sightline.backbones.attention import CameraAttnProcessor, EmbeddingWithCamera, RopeWithCamera, Rotary
from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.families import patch_size
from sightline.cameras.token_grid import TokenGrid
from sightline.encodings.protocol import STAGES
from sightline.errors import SightlineError

_FORWARD = inspect.signature(LTX2VideoTransformer3DModel.forward)
_BATCHED = (
    "hidden_states", "audio_hidden_states", "encoder_hidden_states", "audio_encoder_hidden_states", "timestep",
    "audio_timestep", "sigma", "audio_sigma", "encoder_attention_mask", "audio_encoder_attention_mask", "video_coords",
    "audio_coords", "perturbation_mask", "video_self_attention_mask", "video_keyframes_mask",
)  # fmt: skip
_ROPES = {"interleaved": apply_interleaved_rotary_emb, "split": apply_split_rotary_emb}


class CameraLTX2AttnProcessor(CameraAttnProcessor, LTX2PerturbedAttnProcessor):
    """The self-attention of LTX-2's video tokens with a camera. Without camera rows it is the stock processor.

    A layer that spatio-temporal guidance skips has no attention, so it sees no camera either.
    """

    def __call__(
        self,
        attn: LTX2Attention,
        hidden_states: Tensor,  # [B, N, dim]
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        query_rotary_emb: tuple[Tensor, ...] | None = None,  # cos, sin, camera rows [B or 1, N, 90, or 0]
        key_rotary_emb: None = None,
        perturbation_mask: Tensor | None = None,  # [B, 1, 1], 0 for clips whose attention is skipped
        all_perturbed: bool | None = None,
    ) -> Tensor:
        assert query_rotary_emb is not None and encoder_hidden_states is None, "the camera is for self-attention only"
        cos, sin, camera_rows = query_rotary_emb
        if all_perturbed is None:
            all_perturbed = perturbation_mask is not None and bool((perturbation_mask == 0).all())
        if camera_rows.shape[-1] == 0 or all_perturbed:
            return LTX2PerturbedAttnProcessor.__call__(
                self, attn, hidden_states, None, attention_mask, (cos, sin), None, perturbation_mask, all_perturbed
            )
        if attention_mask is not None:
            batch, tokens, _ = hidden_states.shape
            attention_mask = attn.prepare_attention_mask(attention_mask, tokens, batch)
            attention_mask = attention_mask.view(batch, attn.heads, -1, attention_mask.shape[-1])
        finish = partial(_finish, attn, perturbation_mask)
        return self.with_camera(attn, hidden_states, (cos, sin), camera_rows, attention_mask, finish)

    def project(self, attn: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = attn.norm_q(attn.to_q(hidden)), attn.norm_k(attn.to_k(hidden)), attn.to_v(hidden)
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, value))
        return query, key, value

    def rotate(self, attn: Any, x: Tensor, rotary: Rotary) -> Tensor:
        # Unlike Wan's, the frequencies run over the channels of all heads together.
        return _ROPES[attn.rope_type](x.flatten(2), rotary).unflatten(2, (attn.heads, -1))


def _finish(
    attn: LTX2Attention, perturbation_mask: Tensor | None, output: Tensor, hidden: Tensor, value: Tensor
) -> Tensor:
    if perturbation_mask is not None:
        output = torch.lerp(value.flatten(2), output.flatten(2), perturbation_mask).unflatten(2, (attn.heads, -1))
    if attn.to_gate_logits is not None:
        output = output * (2.0 * torch.sigmoid(attn.to_gate_logits(hidden))).unsqueeze(-1)
    return attn.to_out[1](attn.to_out[0](output.flatten(2)))


class CameraLTX2RotaryPosEmbed(RopeWithCamera, LTX2AudioVideoRotaryPosEmbed):
    """The tables of the video tokens: cos and sin, [B, N, dim] each, or [B, H, N, D / 2] for the type "split"."""

    token_dim = -2


class CameraProjection(EmbeddingWithCamera, nn.Linear):
    """The projection of packed latents [B, N, C] to tokens [B, N, dim]."""


class CameraLTX2VideoTransformer3DModel(CameraTransformer, LTX2VideoTransformer3DModel):
    """LTX-2. See CameraTransformer. Encodings that replace RoPE are refused: its channels have another order than Wan's."""

    base: ClassVar[Any] = LTX2VideoTransformer3DModel
    blocks_name = "transformer_blocks"
    embedding_name = "proj_in"
    stages = frozenset(STAGES) - {"rotate"}
    output_class: ClassVar[type] = AudioVisualModelOutput

    def install(self) -> None:
        # These modules change their class and nothing else.
        self.rope.__class__, self.rope.camera_rows = CameraLTX2RotaryPosEmbed, None
        self.proj_in.__class__, self.proj_in.tokens = CameraProjection, None
        for block in self.transformer_blocks:
            block.attn1.set_processor(CameraLTX2AttnProcessor())

    def forward(self, *args: Any, **options: Any) -> Any:
        """As in diffusers; with a camera, num_frames, height and width of the latents are needed."""
        others = dict(_FORWARD.bind(self, *args, **options).arguments)
        del others["self"]
        attention_kwargs, return_dict = others.pop("attention_kwargs", None) or {}, others.pop("return_dict", True)
        batched = {name: others.pop(name) for name in _BATCHED if name in others}
        return self.forward_with_camera(self.grid(others), batched, others, attention_kwargs, return_dict)

    forward.__signature__ = _FORWARD  # type: ignore[attr-defined]  # context parallelism looks for names of arguments

    def grid(self, arguments: dict[str, Any]) -> TokenGrid | None:
        """The token grid of latents of this num_frames, height and width; None where these are not given."""
        size = [arguments.get(name) for name in ("num_frames", "height", "width")]
        if None in size:
            return None
        return TokenGrid.from_latents(size, patch_size(self.config))  # type: ignore[arg-type]

    def camera_rows(self, tokens: Any, grid: TokenGrid | None, batch: int) -> Tensor:
        if grid is None:
            raise SightlineError(
                "camera is given without num_frames, height and width: expected those of the latents beside it."
            )
        return super().camera_rows(tokens, grid, batch)
