"""Encoding of frames and captions to what a transformer is trained on, exactly as the stock pipelines do it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLWan, DiffusionPipeline
from torch import Tensor

from sightline.backbones import shipped
from sightline.backbones.families import family_of, require_family, token_stride
from sightline.backbones.fast_vae import WholeClipEncoder
from sightline.backbones.model_io import io_of_family
from sightline.backbones.pipelines import load_vae, transformer_config
from sightline.backbones.stock import EXPERTS, SAFETENSORS, STOCK_PIPELINES, model_errors
from sightline.backbones.tiny import tiny_by_name
from sightline.backbones.weights_digest import weights_digest
from sightline.data.clip import Clip
from sightline.devices import as_device, as_dtype
from sightline.digests import json_digest
from sightline.errors import SightlineError

MAX_SEQUENCE_LENGTH = 512  # text tokens that Wan pipelines pad prompts to
DIGESTS = ("weights of the vae", "weights of the text_encoder", "configuration of the model")
_PROBE = "A slow dolly, 3.5 m into room 27!"  # tokenizers that give the same tokens for this count as the same
# Held while encoding or decoding. AutoencoderKLWan stores its temporal caches on the module, and fast tokenizers are not
# thread-safe either, while the training feed encodes clips in threads as the trainer generates validation videos.
ENCODER_LOCK = threading.RLock()


def load_encoder(
    model: str | Path, device: str | torch.device = "cpu", dtype: str | torch.dtype | None = None
) -> ClipEncoder:
    """The VAE and the text encoder of a model; the transformers are not loaded.

    model: as for load_pipeline.
    dtype: of the text encoder; by default bfloat16 on a GPU and float32 elsewhere. The VAE is float32.
    """
    device = as_device(device)
    if (tiny := tiny_by_name(model)) is not None:
        return ClipEncoder(tiny.to(device))
    model = shipped.resolve(model)
    with model_errors(model):
        index = DiffusionPipeline.load_config(model)
        name = index.get("_class_name")
        io_of_family(require_family(model, name))  # refuses a model that is not trained here
        vae, config = load_vae(model), transformer_config(model, "transformer")
        # DiffusionPipeline.from_pretrained would load the transformers in spite of transformer=None.
        without = dict.fromkeys(name for name in EXPERTS if name in index)
        options = {"vae": vae, "dtype": as_dtype(dtype, device), **without, **SAFETENSORS}
        pipe = STOCK_PIPELINES[name].from_pretrained(model, **options)
    return ClipEncoder(pipe.to(device), config)


class ClipEncoder:
    """The VAE and the text encoder of a pipeline. A clip's latents never depend on the other clips that are encoded."""

    def __init__(self, pipe: Any, config: Mapping[str, Any] | None = None) -> None:
        """config: that of the transformer, where `pipe` is without one."""
        self.pipe, self.family = pipe, family_of(pipe)
        self.io = io_of_family(self.family)
        config = pipe.transformer.config if config is None else config
        self.token_stride = token_stride(pipe.vae.config, config)
        # Image-to-video with per-token timesteps (TI2V-5B) conditions on the latent of the first frame, which is latent
        # frame 0 of the whole clip, the VAE being causal. Without them (I2V-A14B) it takes channels of their own.
        takes = self.family.takes(pipe.config, config, pipe.vae.config)
        self.has_condition = "text" not in takes and not pipe.config.get("expand_timesteps")
        self.has_wan_vae = isinstance(pipe.vae, AutoencoderKLWan)
        self._whole_clip_encoders: dict[tuple[torch.device, torch.dtype], WholeClipEncoder] = {}  # the one used last

    def check_shape(self, num_frames: int, width: int, height: int) -> None:
        """Refuse clips that do not fill whole tokens."""
        stride = self.token_stride
        for name, pixels, multiple in (("width", width, stride.width), ("height", height, stride.height)):
            if pixels % multiple:
                raise SightlineError(f"{name} is {pixels}: expected a multiple of {multiple} for this model.")
        if (num_frames - 1) % stride.frames:
            raise SightlineError(f"num_frames is {num_frames}: expected {stride.frames} n + 1 for this model.")

    def encode(self, clip: Clip, max_sequence_length: int = MAX_SEQUENCE_LENGTH) -> dict[str, Tensor]:
        """latents [C, t, h, w] and text [n, D], float32; condition [C, t, h, w] for models with such channels."""
        video = frames_to_video(torch.from_numpy(clip.frames)[None])
        tensors = {"latents": self.latents(video)[0].cpu(), "text": self.text(clip.caption, max_sequence_length)}
        if self.has_condition:
            first = torch.zeros_like(video)
            first[:, :, 0] = video[:, :, 0]
            tensors["condition"] = self.latents(first)[0].cpu()
        return tensors

    @torch.no_grad()
    def latents(self, video: Tensor) -> Tensor:  # [B, 3, T, H, W] in -1..1 -> [B, C, t, h, w], on the VAE's device
        """The mode of the posterior, normalised by the VAE's own statistics, as WanImageToVideoPipeline does."""
        vae = self.pipe.vae
        with ENCODER_LOCK:
            posterior = vae.encode(video.to(vae.device, vae.dtype)).latent_dist
        return self._normalized(posterior.mode().float())

    def latents_of_whole_clips(
        self, video: Tensor, dtype: torch.dtype = torch.float32
    ) -> Tensor:  # [B, 3, T, H, W] in -1..1 -> [B, C, t, h, w]
        """The same, all frames at once: faster for small clips on a GPU, with the memory of all frames' features.

        dtype: of the encoder. In bfloat16 the latents differ by less than 1 % of their spread.
        """
        key = self.pipe.vae.device, dtype
        if key not in self._whole_clip_encoders:
            self._whole_clip_encoders = {key: WholeClipEncoder(self.pipe.vae, dtype)}
        return self._normalized(self._whole_clip_encoders[key](video))

    def _normalized(self, latents: Tensor) -> Tensor:
        mean, std = (values.to(latents) for values in self.io.latent_statistics(self.pipe.vae))
        return (latents - mean) * (1.0 / std)

    def text(
        self, caption: str, max_sequence_length: int = MAX_SEQUENCE_LENGTH
    ) -> Tensor:  # -> [n, D], n at most max_sequence_length
        """The text of one caption without its padding of zeros."""
        embedding = self.texts([caption], max_sequence_length)[0].cpu()
        used = embedding.abs().amax(-1).nonzero()
        return embedding[: int(used[-1]) + 1 if len(used) else 0]

    @torch.no_grad()
    def texts(self, captions: Sequence[str], max_sequence_length: int = MAX_SEQUENCE_LENGTH) -> Tensor:  # -> [B, L, D]
        """What the pipeline gives to its transformer for these captions, padded to max_sequence_length, on the device of the text
        encoder; longer captions are cut."""
        with ENCODER_LOCK:
            return self.io.encode_text(self.pipe, captions, max_sequence_length).float()

    @contextmanager
    def text_encoder_on(self, device: torch.device) -> Iterator[None]:
        """The text encoder on this device for a while, for many captions."""
        encoder = self.pipe.text_encoder
        before = encoder.device
        with ENCODER_LOCK:
            encoder.to(device)
        try:
            yield
        finally:
            with ENCODER_LOCK:
                encoder.to(before)

    def digests(self) -> dict[str, str]:
        """Digests of everything that latents and text depend on. They do not depend on where the model is stored."""
        public = {name: value for name, value in self.pipe.vae.config.items() if not name.startswith("_")}
        behaviour = {"vae": public, "condition": self.has_condition, "tokens": self.pipe.tokenizer(_PROBE)["input_ids"]}
        if (connectors := getattr(self.pipe, "connectors", None)) is not None:  # LTX-2
            behaviour["connectors"] = weights_digest(connectors)
        weights = (weights_digest(getattr(self.pipe, name)) for name in ("vae", "text_encoder"))
        return dict(zip(DIGESTS, (*weights, json_digest(behaviour)), strict=True))


def frames_to_video(frames: Tensor) -> Tensor:  # [B, T, H, W, 3] uint8 -> [B, 3, T, H, W] float32 in -1..1
    """Frames as the VAE takes them."""
    return (frames.float() / 255.0 * 2.0 - 1.0).permute(0, 4, 1, 2, 3)


def pad_text(text: Tensor, max_sequence_length: int = MAX_SEQUENCE_LENGTH) -> Tensor:  # [n, D] -> [L, D]
    """A text embedding padded with zeros to the pipelines' length."""
    return torch.nn.functional.pad(text, (0, 0, 0, max_sequence_length - len(text)))
