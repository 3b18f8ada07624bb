"""Diffusers' Wan transformers with a camera encoding, which the stock pipelines run: Wan 2.1 and 2.2, VACE, and SkyReels V2.

model = CameraWanTransformer3DModel.from_transformer(base, Scope())
pipe(..., attention_kwargs={"camera": tokens})
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from diffusers import SkyReelsV2Transformer3DModel, WanTransformer3DModel, WanVACETransformer3DModel

# ModelMixin must be in this namespace: a saved pipeline looks for it in the module that defines the class.
from diffusers.models.modeling_utils import ModelMixin  # noqa: F401
from torch import Tensor

from sightline.backbones.attention import (
    BlindWanAttnProcessor,
    CameraPatchEmbedding,
    CameraRotaryPosEmbed,
    CameraWanAttnProcessor,
)
from sightline.backbones.camera_transformer import CameraTransformer
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import ROW_WIDTH, CameraTokens

IMAGE_CONDITION = (
    "image_condition"  # in attention_kwargs: channels beside the latents, [B, C, t, H, W] (FunCameraPipeline)
)


class _WanForm(CameraTransformer):
    """What the transformers of Wan's form share: latents [B, C, t, H, W], a convolution into tokens, and Wan's RoPE."""

    def install(self) -> None:
        config = self.config
        self.rope = CameraRotaryPosEmbed(config.attention_head_dim, config.patch_size, config.rope_max_seq_len)
        patch = tuple(config.patch_size)
        self.patch_embedding = CameraPatchEmbedding(config.in_channels, self.blocks[0].attn1.inner_dim, patch, patch)
        for block in self.blocks:
            block.attn1.set_processor(CameraWanAttnProcessor())

    @staticmethod
    def compute_buffers(model: Any) -> None:
        config = model.config
        model.rope = type(model.rope)(config.attention_head_dim, config.patch_size, config.rope_max_seq_len)

    def grid(self, hidden_states: Tensor) -> TokenGrid:
        """The token grid of latents [B, C, t, H, W]."""
        return TokenGrid.from_latents(hidden_states.shape, self.config.patch_size)


class CameraWanTransformer3DModel(_WanForm, WanTransformer3DModel):
    """Wan 2.1 and 2.2, text-to-video and image-to-video. See CameraTransformer."""

    base: ClassVar[Any] = WanTransformer3DModel

    def forward(
        self,
        hidden_states: Tensor,  # [B, C, t, H, W] latents
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        encoder_hidden_states_image: Tensor | None = None,
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        attention_kwargs = dict(attention_kwargs or {})
        if (image_condition := attention_kwargs.pop(IMAGE_CONDITION, None)) is not None:
            hidden_states = torch.cat([hidden_states, image_condition.to(hidden_states)], dim=1)
        batched = {
            "hidden_states": hidden_states,
            "timestep": timestep,
            "encoder_hidden_states": encoder_hidden_states,
            "encoder_hidden_states_image": encoder_hidden_states_image,
        }
        return self.forward_with_camera(self.grid(hidden_states), batched, {}, attention_kwargs, return_dict)


class CameraWanVACETransformer3DModel(_WanForm, WanVACETransformer3DModel):
    """VACE. The camera is in the blocks of Wan itself; the control branch beside them has none. See CameraTransformer.

    Latent frames in front of the video, which VACE adds for its reference images, have no camera.
    """

    base: ClassVar[Any] = WanVACETransformer3DModel

    def install(self) -> None:
        super().install()
        for block in self.vace_blocks:
            block.attn1.set_processor(BlindWanAttnProcessor())

    def forward(
        self,
        hidden_states: Tensor,  # [B, C, t, H, W] latents
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        encoder_hidden_states_image: Tensor | None = None,
        control_hidden_states: Tensor | None = None,
        control_hidden_states_scale: Tensor | None = None,  # one for each VACE layer
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        batched = {
            "hidden_states": hidden_states,
            "timestep": timestep,
            "encoder_hidden_states": encoder_hidden_states,
            "encoder_hidden_states_image": encoder_hidden_states_image,
            "control_hidden_states": control_hidden_states,
        }
        others = {"control_hidden_states_scale": control_hidden_states_scale}
        return self.forward_with_camera(self.grid(hidden_states), batched, others, attention_kwargs or {}, return_dict)

    def camera_rows(self, tokens: CameraTokens, grid: TokenGrid, batch: int) -> Tensor:
        references = grid.frames - tokens.grid.frames if isinstance(tokens, CameraTokens) else 0
        if references <= 0:
            return super().camera_rows(tokens, grid, batch)
        rows = super().camera_rows(tokens, grid._replace(frames=tokens.grid.frames), batch)
        absent = rows.new_zeros(len(rows), references * grid.tokens_per_frame, ROW_WIDTH)
        return torch.cat([absent, rows], dim=1)


class CameraSkyReelsV2Transformer3DModel(_WanForm, SkyReelsV2Transformer3DModel):
    """SkyReels V2, also with diffusion forcing, in which each latent frame has a timestep. See CameraTransformer."""

    base: ClassVar[Any] = SkyReelsV2Transformer3DModel

    def forward(
        self,
        hidden_states: Tensor,  # [B, C, t, H, W] latents
        timestep: Tensor,  # [B], or [B, t] with diffusion forcing
        encoder_hidden_states: Tensor,
        encoder_hidden_states_image: Tensor | None = None,
        enable_diffusion_forcing: bool = False,
        fps: list[int] | None = None,  # for each clip 0 at 16 frames per second, else 1
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        batched = {
            "hidden_states": hidden_states,
            "timestep": timestep,
            "encoder_hidden_states": encoder_hidden_states,
            "encoder_hidden_states_image": encoder_hidden_states_image,
        }
        if isinstance(fps, list) and len(set(fps)) == 1:
            fps = fps[:1]  # serves any batch; with diffusion forcing diffusers takes no other for several clips
        others = {"enable_diffusion_forcing": enable_diffusion_forcing, "fps": fps}
        return self.forward_with_camera(self.grid(hidden_states), batched, others, attention_kwargs or {}, return_dict)
