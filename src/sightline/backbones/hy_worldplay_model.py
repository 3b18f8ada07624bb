"""The transformer of HY-WorldPlay-5B: Wan2.2-TI2V-5B with a PRoPE branch, an embedded action, and chunks of latent frames."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from diffusers import WanTransformer3DModel
from diffusers.models.embeddings import TimestepEmbedding
from diffusers.models.transformers.transformer_wan import WanTimeTextImageEmbedding
from torch import Tensor

from sightline.backbones.attention import CameraWanAttnProcessor
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras import se3
from sightline.cameras.tokens import CameraTokens
from sightline.encodings.protocol import Attend
from sightline.errors import SightlineError

# In attention_kwargs: how many latent frames are of earlier chunks, which do not see the last chunk; and the actions of all.
CONTEXT_FRAMES, ACTION = "context_frames", "action"

_STILL_DEGREES, _STILL_UNITS = (
    0.05,
    1e-4,
)  # below these, the release sees no rotation and no movement between latent frames
_NEAR_AXIS = 60.0  # degrees from an axis within which the release calls a movement one along it
# The release's number of a pair of directions: none, first or second of each.
_LABELS = ((0, 3, 4), (1, 5, 6), (2, 7, 8))
_PER_MOVEMENT = 9


class HyWorldPlayTransformer3DModel(CameraWanTransformer3DModel):
    """CameraWanTransformer3DModel that also adds the embedded action of each latent frame to that of its timestep.

    `attention_kwargs` may hold "context_frames": so many first latent frames attend to one another alone, and the others to
    all. That equals the release's cache of keys and values, which it fills in a pass over the earlier frames. "action" [1, t]
    are the actions of the latent frames, by default those of their cameras.
    """

    base: ClassVar[Any] = WanTransformer3DModel

    def install(self) -> None:
        super().install()
        dim = self.config.num_attention_heads * self.config.attention_head_dim
        self.condition_embedder = ActionTimeTextEmbedding(dim, self.config.freq_dim, 6 * dim, self.config.text_dim)
        for block in self.blocks:
            block.attn1.set_processor(ContextAttnProcessor())

    def enable_parallelism(self, **options: Any) -> None:
        raise SightlineError("context_parallel is given: expected none for HY-WorldPlay, whose chunks are in order.")

    def forward(
        self,
        hidden_states: Tensor,  # [B, C, t, H, W] latents
        timestep: Tensor,  # [B, N], one per token
        encoder_hidden_states: Tensor,
        encoder_hidden_states_image: Tensor | None = None,
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        others = dict(attention_kwargs or {})
        frames, action, camera = others.pop(CONTEXT_FRAMES, 0), others.pop(ACTION, None), others.get("camera")
        processors = [block.attn1.processor for block in self.blocks]
        try:
            if isinstance(camera, CameraTokens):
                action = actions(frame_poses(camera)) if action is None else action
                self.condition_embedder.action = action.to(hidden_states.device)
                for processor in processors:
                    processor.context_tokens = frames * camera.grid.tokens_per_frame
            inputs = (hidden_states, timestep, encoder_hidden_states, encoder_hidden_states_image)
            return super().forward(*inputs, return_dict=return_dict, attention_kwargs=others)
        finally:
            self.condition_embedder.action = None
            for processor in processors:
                processor.context_tokens = 0


class ActionTimeTextEmbedding(WanTimeTextImageEmbedding):
    """Wan's embedding of timestep and text, with the action of each latent frame added to its timestep."""

    def __init__(self, dim: int, freq_dim: int, proj_dim: int, text_dim: int) -> None:
        super().__init__(dim, freq_dim, proj_dim, text_dim)
        self.action_embedder = TimestepEmbedding(in_channels=freq_dim, time_embed_dim=dim)
        self.action: Tensor | None = None  # [B or 1, t], of the call in progress

    def forward(
        self,
        timestep: Tensor,  # [B N], one per token
        encoder_hidden_states: Tensor,
        encoder_hidden_states_image: Tensor | None = None,
        timestep_seq_len: int | None = None,
    ) -> Any:
        if self.action is None or timestep_seq_len is None:
            return super().forward(timestep, encoder_hidden_states, encoder_hidden_states_image, timestep_seq_len)
        frames = self.action.shape[1]
        per_frame = timestep_seq_len // frames
        # All tokens of a latent frame have one timestep and one action, so they are embedded once.
        timestep = timestep.reshape(-1, frames, per_frame)[..., 0]  # [B, t]
        embedded = self._embed(self.time_embedder, timestep) + self._embed(self.action_embedder, self.action)
        embedded = embedded.type_as(encoder_hidden_states)  # [B, t, dim]
        projected = self.time_proj(self.act_fn(embedded))
        text = self.text_embedder(encoder_hidden_states)
        return *(x.repeat_interleave(per_frame, dim=1) for x in (embedded, projected)), text, None

    def _embed(self, embedder: TimestepEmbedding, number: Tensor) -> Tensor:  # [B, t] -> [B, t, dim]
        sines = self.timesteps_proj(number.flatten()).unflatten(0, number.shape)
        return embedder(sines.to(embedder.linear_1.weight.dtype))


class ContextAttnProcessor(CameraWanAttnProcessor):
    """The camera's processor, where the first tokens, those of earlier chunks, do not attend to the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.context_tokens = 0

    def attention(self, mask: Tensor | None) -> Attend:
        attend, context = super().attention(mask), self.context_tokens
        if context == 0:
            return attend

        def attend_in_order(query: Tensor, key: Tensor, value: Tensor, scale: float | None = None) -> Tensor:
            earlier = attend(query[:, :context], key[:, :context], value[:, :context], scale)
            return torch.cat([earlier, attend(query[:, context:], key, value, scale)], dim=1)

        return attend_in_order


def frame_poses(camera: CameraTokens) -> Tensor:  # -> [B, t, 4, 4], world to camera
    """The pose of each latent frame."""
    rows = camera.world_to_camera[:, :: camera.grid.tokens_per_frame].double()  # [B, t, 3, 4]
    return se3.from_parts(rows[..., :3], rows[..., 3])


def actions(world_to_camera: Tensor) -> Tensor:  # [B, t, 4, 4] -> [B, t] float32
    """The release's number of the movement and rotation that lead to each latent frame; 0 where nothing moves."""
    step = world_to_camera[:, :-1] @ se3.inverse(
        world_to_camera[:, 1:]
    )  # [B, t - 1, 4, 4], in the earlier camera's axes
    rotation, translation = step[..., :3, :3], step[..., :3, 3]
    pitch = torch.atan2(rotation[..., 2, 1], rotation[..., 2, 2]).rad2deg()
    yaw = torch.asin((-rotation[..., 2, 0]).clamp(-1, 1)).rad2deg()
    distance = translation.norm(dim=-1)
    angle = torch.acos((translation / distance.clamp_min(_STILL_UNITS)[..., None]).clamp(-1, 1)).rad2deg()
    moves = distance > _STILL_UNITS

    def along(axis: int) -> Tensor:  # 1 towards the axis, 2 away from it, 0 neither
        towards, away = angle[..., axis] < _NEAR_AXIS, angle[..., axis] > 180 - _NEAR_AXIS
        return (towards & moves) + 2 * (away & moves)

    def turns(degrees: Tensor) -> Tensor:
        return (degrees > _STILL_DEGREES) + 2 * (degrees < -_STILL_DEGREES)

    labels = torch.tensor(_LABELS, device=step.device)
    movement, turning = labels[along(2), along(0)], labels[turns(yaw), turns(pitch)]
    number = _PER_MOVEMENT * movement + turning  # [B, t - 1]
    return torch.cat([torch.zeros_like(number[:, :1]), number], dim=1).float()
