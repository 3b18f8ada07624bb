"""What a model is given and what it gives, in the terms that all families share: normalised latents, text, and velocities.

Training, validation and caches know a model through this alone. `ModelIO` itself is how Wan and its relatives do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import LTX2VideoTransformer3DModel
from torch import Tensor

from sightline.backbones.families import LTX2, Family, patch_size
from sightline.backbones.stock import STOCK_PIPELINES
from sightline.cameras.token_grid import TokenGrid
from sightline.errors import SightlineError

_PIPELINE = STOCK_PIPELINES[LTX2.text_pipeline]


class ModelIO:
    """Wan, VACE and SkyReels V2."""

    def text_channels(self, config: Any) -> int:
        """Channels of the text that a transformer of this configuration takes."""
        return int(config.text_dim)

    def latent_statistics(self, vae: Any) -> tuple[Tensor, Tensor]:  # [1, C, 1, 1, 1] each
        """The mean and the standard deviation by which the pipelines normalise latents."""
        config = vae.config
        mean, std = (torch.tensor(values).view(1, -1, 1, 1, 1) for values in (config.latents_mean, config.latents_std))
        return mean, std

    def encode_text(self, pipe: Any, captions: Sequence[str], max_sequence_length: int) -> Tensor:  # -> [B, L, D]
        """What the pipeline gives to its transformer for these captions, on the device of the text encoder."""
        embeddings: Tensor = pipe.encode_prompt(
            list(captions),
            do_classifier_free_guidance=False,
            max_sequence_length=max_sequence_length,
            device=pipe.text_encoder.device,
        )[0]
        return embeddings

    def take_encoded_text(self, pipe: Any) -> None:
        """Make the pipeline take text as `encode_text` gives it, without a text encoder."""

    def prompt(self, text: Tensor, negative: Tensor) -> dict[str, Tensor]:  # [B, L, D] each
        """The options of such a pipeline for this text."""
        return {"prompt_embeds": text, "negative_prompt_embeds": negative}

    def inputs(
        self,
        config: Any,  # of the transformer
        latents: Tensor,  # [B, C, t, h, w]
        timestep: Tensor,  # [B], or [B, N] for each token; 0 to 1000
        text: Tensor,  # [B, L, D]
    ) -> dict[str, Any]:
        """The arguments of the transformer."""
        return {"hidden_states": latents, "timestep": timestep, "encoder_hidden_states": text}

    def output(self, config: Any, output: Tensor, latents: Tensor) -> Tensor:  # -> [B, C, t, h, w]
        """The velocities in what the transformer gives for these latents: noise - latents."""
        return output

    def velocity(
        self, model: Any, latents: Tensor, timestep: Tensor, text: Tensor, attention_kwargs: dict[str, Any] | None
    ) -> Tensor:  # -> [B, C, t, h, w]
        """What the transformer, or its DDP wrapper, predicts for such inputs."""
        config = getattr(model, "module", model).config  # DistributedDataParallel keeps the model in .module
        options = {} if attention_kwargs is None else {"attention_kwargs": attention_kwargs}
        predicted = model(**self.inputs(config, latents, timestep, text), return_dict=False, **options)[0]
        return self.output(config, predicted, latents)


class LTX2IO(ModelIO):
    """LTX-2. Text is what its two connectors make of a prompt, that for the video and, in further channels, that for the sound.

    Clips have 24 frames per second, LTX-2's own rate, and no sound: the transformer runs with the attention between video and
    sound turned off, as LTX-2 also does for a part of its guidance.
    """

    def text_channels(self, config: Any) -> int:
        return sum(_text_channels(config))

    def latent_statistics(self, vae: Any) -> tuple[Tensor, Tensor]:
        mean, std = (values.view(1, -1, 1, 1, 1) for values in (vae.latents_mean, vae.latents_std))
        return mean, std / vae.config.scaling_factor

    def encode_text(self, pipe: Any, captions: Sequence[str], max_sequence_length: int) -> Tensor:
        embeddings, mask, *_ = pipe.encode_prompt(
            list(captions),
            do_classifier_free_guidance=False,
            max_sequence_length=max_sequence_length,
            device=pipe.text_encoder.device,
        )
        connectors = pipe.connectors
        inputs = embeddings.to(connectors.device, connectors.dtype), mask.to(connectors.device)
        video, sound, _ = connectors(*inputs, padding_side=pipe.tokenizer.padding_side)
        return torch.cat([video, sound], dim=-1)

    def take_encoded_text(self, pipe: Any) -> None:
        config = pipe.connectors.config
        channels = config.video_hidden_dim if config.per_modality_projections else config.caption_channels
        pipe.register_modules(connectors=_EncodedText(channels))

    def prompt(self, text: Tensor, negative: Tensor) -> dict[str, Tensor]:
        masks = {f"{name}prompt_attention_mask": text.new_ones(text.shape[:2]) for name in ("", "negative_")}
        return super().prompt(text, negative) | masks

    def inputs(self, config: Any, latents: Tensor, timestep: Tensor, text: Tensor) -> dict[str, Any]:
        frames, rows, _ = patch_size(config)
        video_text, sound_text = text.split(_text_channels(config), dim=-1)
        sigma = timestep.amax(1) if timestep.ndim > 1 else timestep
        return {
            "hidden_states": _PIPELINE._pack_latents(latents, rows, frames),
            "audio_hidden_states": latents.new_zeros(len(latents), 1, config.audio_in_channels),
            "encoder_hidden_states": video_text,
            "audio_encoder_hidden_states": sound_text,
            "timestep": timestep,
            "audio_timestep": sigma,
            "sigma": sigma,
            "audio_num_frames": 1,
            "isolate_modalities": True,
            **dict(zip(("num_frames", "height", "width"), latents.shape[2:], strict=True)),
        }

    def output(self, config: Any, output: Tensor, latents: Tensor) -> Tensor:
        patch = patch_size(config)
        unpacked: Tensor = _PIPELINE._unpack_latents(
            output, *TokenGrid.from_latents(latents.shape, patch), patch[1], patch[0]
        )
        return unpacked


@dataclass(frozen=True)
class _EncodedText:
    """In the place of LTX-2's connectors, for text that has passed through them."""

    video_channels: int

    def __call__(self, text: Tensor, mask: Tensor, **_: Any) -> tuple[Tensor, Tensor, Tensor]:
        return text[..., : self.video_channels], text[..., self.video_channels :], mask


def _text_channels(config: Any) -> list[int]:
    """Channels of the text for the video and for the sound."""
    if config.use_prompt_embeddings:
        return [config.caption_channels] * 2
    sizes = ("num_attention_heads", "attention_head_dim")
    return [config[prefix + sizes[0]] * config[prefix + sizes[1]] for prefix in ("", "audio_")]


_WAN_IO, _LTX2_IO = ModelIO(), LTX2IO()


def io_of(model: Any) -> ModelIO:
    """How a transformer, or its DDP wrapper, is spoken to."""
    return _LTX2_IO if isinstance(getattr(model, "module", model), LTX2VideoTransformer3DModel) else _WAN_IO


def io_of_family(family: Family) -> ModelIO:
    """How the models of a family are spoken to; refused for one that has a camera already, and is not trained here."""
    if family.own_camera:
        raise SightlineError(
            f"the model is a {family.image_pipeline}, which has a camera of its own: expected one that a camera is added to."
        )
    return _LTX2_IO if family is LTX2 else _WAN_IO
