"""Clips ready for a model, by index: read from a cache, made one by one from a source, or filmed in batches from worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from sightline.cameras.tokens import CameraTokens
from sightline.data.cached import CachedClip
from sightline.data.clip import Clip
from sightline.data.clip_spec import ClipSpec
from sightline.data.encode import ClipEncoder, as_video, padded_text
from sightline.worlds import WorldBatch, sample_batch
from sightline.worlds.many import BATCH, film_together, made

_TEMPORAL_STRIDE = 4  # raw frames per latent frame, in every Wan release


@dataclass(frozen=True, eq=False)
class Encoded:
    """Several clips as a model takes them."""

    latents: Tensor  # [B, C, t, h, w] normalised
    text: Tensor  # [B, L, D]
    camera: CameraTokens
    condition: Tensor | None = None  # [B, 4 + C, t, h, w]


class EncodedClips(Protocol):
    def __len__(self) -> int: ...

    def read(self, indices: Sequence[int]) -> Encoded: ...


class OneByOne:
    """Clips that are read or made one at a time; kept after their first use where `keep` says so."""

    def __init__(
        self, clips: Any, indices: Sequence[int], read: Callable[[Any], CachedClip], patch: Sequence[int],
        text_tokens: int, keep: bool,
    ) -> None:  # fmt: skip
        self.clips, self.indices, self.make, self.patch, self.text_tokens = clips, indices, read, patch, text_tokens
        self.kept: dict[int, Encoded] | None = {} if keep else None

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, indices: Sequence[int]) -> Encoded:
        read = [self._one(index) for index in indices]
        conditions = [one.condition for one in read if one.condition is not None]
        return Encoded(
            torch.cat([one.latents for one in read]),
            torch.cat([one.text for one in read]),
            CameraTokens.batch([one.camera for one in read]),
            torch.cat(conditions) if conditions else None,
        )

    def _one(self, index: int) -> Encoded:
        if self.kept is not None and index in self.kept:
            return self.kept[index]
        clip = self.make(self.clips[self.indices[index]])
        grid = token_grid(clip.latents, self.patch)
        encoded = Encoded(
            clip.latents[None].float(),  # a cache may hold bfloat16; noise is added in float32
            clip.text[None, : self.text_tokens].float(),
            CameraTokens.from_trajectory(clip.trajectory, grid),
            None if clip.condition is None else with_first_frame_mask(clip.condition.float())[None],
        )
        if self.kept is not None:
            self.kept[index] = encoded
        return encoded


@dataclass(frozen=True)
class World:
    """A clip of the worlds, as its source says it: unit and returning as there, eta the factor to the common scale."""

    style: str
    seed: int
    eta: float = 1.0
    unit: str = "metre"
    returning: float = 0.0


class Filmed:
    """Clips of the worlds, filmed and encoded in batches on the VAE's device; all are made at once where `keep` says so."""

    def __init__(
        self, worlds: Sequence[World], spec: ClipSpec, encoder: ClipEncoder, patch: Sequence[int], text_tokens: int, keep: bool,
        bar: Callable[[Sequence[Any]], Any] = iter,
    ) -> None:  # fmt: skip
        """bar: wraps the batches that are made at once, to show progress."""
        self.worlds, self.spec, self.encoder, self.patch, self.text_tokens = worlds, spec, encoder, patch, text_tokens
        self.kept: Encoded | None = None
        if keep:
            self.kept = self._all(bar)

    def __len__(self) -> int:
        return len(self.worlds)

    def read(self, indices: Sequence[int]) -> Encoded:
        if self.kept is None:
            return self._encoded([self.worlds[index] for index in indices])
        chosen = torch.tensor(list(indices), device=self.kept.latents.device)
        kept = self.kept
        camera = CameraTokens(kept.camera.rows[chosen], kept.camera.grid)
        condition = None if kept.condition is None else kept.condition[chosen]
        return Encoded(kept.latents[chosen], kept.text[chosen], camera, condition)

    def _all(self, bar: Callable[[Sequence[Any]], Any]) -> Encoded:
        """Every clip, in the memory of the device."""
        count = -(-len(self) // BATCH)  # of about one size: a small last one would be compiled for by itself
        groups = [range(len(self) * i // count, len(self) * (i + 1) // count) for i in range(count)]
        sampled = made(self._sampler(), [[self.worlds[index] for index in group] for group in groups])
        parts = [self._film(next(sampled)) for _ in bar(groups)]
        camera_rows = torch.cat([part.camera.rows for part in parts])
        conditions = [part.condition for part in parts if part.condition is not None]
        return Encoded(
            torch.cat([part.latents for part in parts]),
            torch.cat([part.text for part in parts]),
            CameraTokens(camera_rows, parts[0].camera.grid),
            torch.cat(conditions) if conditions else None,
        )

    def _encoded(self, worlds: Sequence[World]) -> Encoded:
        return self._film(next(made(self._sampler(), [worlds])))

    def _sampler(self) -> Callable[[Sequence[World]], list[Sampled]]:
        return partial(sampled_worlds, self.spec, _TEMPORAL_STRIDE, self._rows_and_columns())

    def _rows_and_columns(self) -> tuple[int, int]:
        stride = int(self.encoder.pipe.vae_scale_factor_spatial)
        return self.spec.height // (stride * self.patch[1]), self.spec.width // (stride * self.patch[2])

    @torch.no_grad()
    def _film(self, sampled: list[Sampled]) -> Encoded:
        device = self.encoder.pipe.vae.device
        frames = film_together([one.batch for one in sampled], device)  # [B, T, H, W, 3] uint8
        video = as_video(frames)
        camera_rows = torch.cat([one.rows for one in sampled])
        rows, columns = self._rows_and_columns()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            latents = torch.cat([self.encoder.latents(part) for part in video.split(_ENCODED_AT_ONCE)])
            condition = None
            if self.encoder.has_condition:
                first = torch.zeros_like(video)
                first[:, :, 0] = video[:, :, 0]
                encoded = torch.cat([self.encoder.latents(part) for part in first.split(_ENCODED_AT_ONCE)])
                condition = torch.stack([with_first_frame_mask(one) for one in encoded])
        captions = [caption for one in sampled for caption in one.captions]
        order = torch.cat([torch.tensor(one.places) for one in sampled]).argsort()
        text = self.encoder.texts(captions, self.text_tokens)
        return Encoded(
            latents[order.to(device)],
            text[order].to(device),
            CameraTokens(camera_rows[order].to(device), (latents.shape[2] // self.patch[0], rows, columns)),
            None if condition is None else condition[order.to(device)],
        )


_ENCODED_AT_ONCE = 31  # clips of 33 x 128 x 128 that the VAE takes together


@dataclass(frozen=True, eq=False)
class Sampled:
    """Scenes of one style, ready to be filmed, with what is said of them."""

    batch: WorldBatch
    captions: tuple[str, ...]
    rows: Tensor  # [B, N, columns of CameraTokens]
    places: tuple[int, ...]  # of these clips in the batch that was asked for


def sampled_worlds(
    spec: ClipSpec, temporal_stride: int, rows_and_columns: tuple[int, int], worlds: Sequence[World]
) -> list[Sampled]:
    """The scenes and cameras of some clips, one entry per style and share that returns. Runs in processes of its own: no
    model, no device."""
    grid = ((spec.num_frames - 1) // temporal_stride + 1, *rows_and_columns)
    found = []
    for style, returning in dict.fromkeys((world.style, world.returning) for world in worlds):
        places = [place for place, world in enumerate(worlds) if (world.style, world.returning) == (style, returning)]
        seeds = [worlds[place].seed for place in places]
        batch = sample_batch(style, seeds, spec.num_frames, spec.width, spec.height, returning)
        tokens = []
        for number, place in enumerate(places):
            path = batch.reported_trajectory(number)
            if worlds[place].unit == "metre":
                path = batch.true_trajectory(number).replace(near_depth=path.near_depth)
            path = spec.trajectory(path, 0, worlds[place].eta)
            tokens.append(CameraTokens.from_trajectory(path, grid, temporal_stride=temporal_stride))
        found.append(Sampled(batch, batch.captions, CameraTokens.batch(tokens).rows, tuple(places)))
    return found


def encode_clip(encoder: ClipEncoder, text_tokens: int, clip: Clip) -> CachedClip:
    """What a cache would hold of this clip; a longer caption is cut before it is encoded, as the pipelines do."""
    tensors = encoder.encode(clip, text_tokens)
    return CachedClip(
        tensors["latents"],
        padded_text(tensors["text"]),
        tensors.get("condition"),
        clip.trajectory,
        clip.caption,
        clip.source,
        clip.name,
    )


def token_grid(latents: Tensor, patch: Sequence[int]) -> tuple[int, int, int]:  # [C, t, h, w]
    t, h, w = (size // side for size, side in zip(latents.shape[1:], patch, strict=True))
    return t, h, w


def with_first_frame_mask(condition: Tensor) -> Tensor:  # [C, t, h, w] -> [4 + C, t, h, w]
    """I2V-A14B's channels beside the noise: which of a latent's four raw frames are given, then the image latents."""
    mask = torch.zeros(_TEMPORAL_STRIDE, *condition.shape[1:], device=condition.device)
    mask[:, 0] = 1.0  # raw frame 0 alone makes latent frame 0
    return torch.cat([mask, condition])
