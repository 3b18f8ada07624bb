"""From pixels and words to what a Wan transformer is trained on, exactly as the stock pipelines make it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLWan, DiffusionPipeline, WanTransformer3DModel
from torch import Tensor

from sightline.backbones.stock import WanImageToVideoPipeline, WanPipeline
from sightline.backbones.weights_digest import weights_digest
from sightline.cameras.token_grid import TokenStride
from sightline.data.clip import Clip
from sightline.digests import json_digest
from sightline.errors import SightlineError
from sightline.files import reason

_PIPELINES = {one.__name__: one for one in (WanPipeline, WanImageToVideoPipeline)}
TEXT_TOKENS = 512  # what the Wan pipelines pad prompts to
_PROBE = "A slow dolly, 3.5 m into room 27!"  # tokenizers that read this alike are taken for one
# Held by whoever encodes or decodes: AutoencoderKLWan keeps its temporal caches on itself and fast tokenizers are not
# for two threads either, while a feed's workers prepare clips as the trainer films its validation.
ONE_AT_A_TIME = threading.RLock()


def load_encoder(
    model: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> ClipEncoder:
    """The VAE and the text encoder of a Wan model, a hub id or a folder; its transformers are left where they are.

    dtype: of the text encoder; bfloat16 on a GPU and float32 elsewhere unless given. The VAE is float32.
    """
    device = torch.device(device)
    dtype = dtype or (torch.bfloat16 if device.type == "cuda" else torch.float32)
    try:
        name = DiffusionPipeline.load_config(model).get("_class_name")
        if name not in _PIPELINES:
            raise SightlineError(f"model {str(model)!r} is a {name}: expected a Wan pipeline.")
        vae = AutoencoderKLWan.from_pretrained(model, subfolder="vae", dtype=torch.float32)
        patch_size = WanTransformer3DModel.load_config(model, subfolder="transformer")["patch_size"]
        # By its own class: the base class would load the transformers all the same.
        pipe = _PIPELINES[name].from_pretrained(model, vae=vae, dtype=dtype, transformer=None, transformer_2=None)
    except SightlineError:
        raise
    except (OSError, ValueError) as error:  # missing folder, no network, an unknown id, a file that is not a model
        raise SightlineError(
            f"model {str(model)!r} cannot be loaded ({reason(error)}): expected a hub id or a folder."
        ) from None
    return ClipEncoder(pipe.to(device), patch_size)


class ClipEncoder:
    """The VAE and the text encoder of a pipeline. One clip at a time: what it gives never depends on its neighbours."""

    def __init__(self, pipe: Any, patch_size: Sequence[int] | None = None) -> None:
        """patch_size: of the transformer, where `pipe` is without one."""
        self.pipe = pipe
        self.token_stride = TokenStride.from_vae(pipe.vae.config, patch_size or pipe.transformer.config.patch_size)
        # Image-to-video with per-token timesteps (TI2V-5B) conditions on the latent of the first frame, which is latent
        # frame 0 of the whole clip, the VAE being causal. Without them (I2V-A14B) it takes channels of their own.
        self.has_condition = isinstance(pipe, WanImageToVideoPipeline) and not pipe.config.expand_timesteps

    def check_size(self, width: int, height: int) -> None:
        stride = self.token_stride
        for name, pixels, multiple in (("width", width, stride.width), ("height", height, stride.height)):
            if pixels % multiple:
                raise SightlineError(f"{name} is {pixels}: expected a multiple of {multiple} for this model.")

    def encode(self, clip: Clip, tokens: int = TEXT_TOKENS) -> dict[str, Tensor]:
        """latents [C, t, h, w] and text [tokens, D], float32; condition [C, t, h, w] for models with such channels."""
        video = pixels(clip.frames)
        tensors = {"latents": self.latents(video)[0].cpu(), "text": self.text(clip.caption, tokens)}
        if self.has_condition:
            first = torch.zeros_like(video)
            first[:, :, 0] = video[:, :, 0]
            tensors["condition"] = self.latents(first)[0].cpu()
        return tensors

    @torch.no_grad()
    def latents(self, video: Tensor) -> Tensor:  # [B, 3, T, H, W] in -1..1 -> [B, C, t, h, w], on the VAE's device
        """The mode of the posterior, normalised by the VAE's own statistics, as WanImageToVideoPipeline does."""
        vae = self.pipe.vae
        with ONE_AT_A_TIME:
            posterior = vae.encode(video.to(vae.device, vae.dtype)).latent_dist
        latents = posterior.mode().float()
        mean = torch.tensor(vae.config.latents_mean).view(1, vae.config.z_dim, 1, 1, 1).to(latents)
        inverse_std = 1.0 / torch.tensor(vae.config.latents_std).view(1, vae.config.z_dim, 1, 1, 1).to(latents)
        return (latents - mean) * inverse_std

    def text(self, caption: str, tokens: int = TEXT_TOKENS) -> Tensor:  # -> [n, D], n at most tokens
        """The pipeline's own embedding without its padding, which is zeros."""
        embedding = self.texts([caption], tokens)[0]
        used = embedding.abs().amax(-1).nonzero()
        return embedding[: int(used[-1]) + 1 if len(used) else 0]

    @torch.no_grad()
    def texts(self, captions: Sequence[str], tokens: int = TEXT_TOKENS) -> Tensor:  # -> [B, tokens, D]
        """The pipeline's own embeddings, on the CPU; longer captions are cut."""
        with ONE_AT_A_TIME:
            embeddings, _ = self.pipe.encode_prompt(
                list(captions), do_classifier_free_guidance=False, max_sequence_length=tokens
            )
        result: Tensor = embeddings.float().cpu()
        return result

    def digests(self) -> dict[str, str]:
        """Fingerprints of what latents and text depend on: the same model under another path counts as the same."""
        weights = {
            f"weights of the {name}": weights_digest(getattr(self.pipe, name)) for name in ("vae", "text_encoder")
        }
        public = {name: value for name, value in self.pipe.vae.config.items() if not name.startswith("_")}
        behaviour = {"vae": public, "condition": self.has_condition, "tokens": self.pipe.tokenizer(_PROBE)["input_ids"]}
        return weights | {"configuration of the model": json_digest(behaviour)}


def pixels(frames: np.ndarray) -> Tensor:  # [T, H, W, 3] uint8 -> [1, 3, T, H, W] float32 in -1..1
    return as_video(torch.from_numpy(frames)[None])


def as_video(frames: Tensor) -> Tensor:  # [B, T, H, W, 3] uint8 -> [B, 3, T, H, W] float32 in -1..1
    return (frames.float() / 255.0 * 2.0 - 1.0).permute(0, 4, 1, 2, 3)


def padded_text(text: Tensor, tokens: int = TEXT_TOKENS) -> Tensor:  # [n, D] -> [tokens, D]
    return torch.nn.functional.pad(text, (0, 0, 0, tokens - len(text)))
