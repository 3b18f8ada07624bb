"""Clips of rendered sources, rendered and encoded in batches on the VAE's device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips, Window
from sightline.data.encode import ClipEncoder, frames_to_video
from sightline.data.latents import LatentBatch, with_first_frame_mask
from sightline.data.sources import Source
from sightline.worlds import WorldBatch
from sightline.worlds.batches import BATCH, map_in_processes, render_batches

_ENCODED_AT_ONCE = 31  # clips of 33 x 128 x 128 that the VAE takes together


def can_render_batches(clips: Clips) -> bool:
    """Whether every clip is one whole shot of a source that renders it, so that batches can be rendered at once."""
    spec = clips.spec
    return spec.span == spec.num_frames and all(source.renders(spec) for source in clips.sources)


class RenderedLatents:
    """Clips that are rendered and encoded in batches; see `can_render_batches` for which.

    patch_size: latent frames, rows and columns per token. max_sequence_length: text embeddings are cut to this length.
    keep_in_memory: make every clip now and keep it in the memory of the device.
    progress: wraps the batches that are then made, to show a bar.
    """

    def __init__(
        self,
        clips: Clips,
        indices: Sequence[int],
        encoder: ClipEncoder,
        patch_size: Sequence[int],
        max_sequence_length: int,
        keep_in_memory: bool,
        progress: Callable[[Sequence[Any]], Any] = iter,
    ) -> None:
        self.windows = [clips.windows[index] for index in indices]
        self.sources, self.spec = clips.sources, clips.spec
        self.encoder, self.patch_size, self.max_sequence_length = encoder, patch_size, max_sequence_length
        self._memory: LatentBatch | None = None
        if keep_in_memory and self.windows:
            self._memory = self._render_all(progress)

    def __len__(self) -> int:
        return len(self.windows)

    def read(self, indices: Sequence[int]) -> LatentBatch:
        if self._memory is not None:
            return self._memory.select(indices)
        windows = [self.windows[index] for index in indices]
        return self._render_and_encode(next(map_in_processes(self._sampler(), [windows])))

    def _render_all(self, progress: Callable[[Sequence[Any]], Any]) -> LatentBatch:
        count = -(-len(self) // BATCH)  # of about one size: a small last one would be compiled for by itself
        groups = [self.windows[len(self) * i // count : len(self) * (i + 1) // count] for i in range(count)]
        sampled = map_in_processes(self._sampler(), groups)
        return LatentBatch.cat([self._render_and_encode(next(sampled)) for _ in progress(groups)])

    def _sampler(self) -> Callable[[Sequence[Window]], list[SampledClips]]:
        stride = self.encoder.token_stride
        grid = TokenGrid.from_video(self.spec.num_frames, self.spec.width, self.spec.height, stride)
        return partial(sample_clips, self.sources, self.spec, grid, stride.frames)

    @torch.no_grad()
    def _render_and_encode(self, sampled: list[SampledClips]) -> LatentBatch:
        device = self.encoder.pipe.vae.device
        frames = render_batches([clips.scenes for clips in sampled], device)  # [B, T, H, W, 3] uint8
        video = frames_to_video(frames)
        camera_rows = torch.cat([clips.camera_rows for clips in sampled])
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            latents = torch.cat([self.encoder.latents(part) for part in video.split(_ENCODED_AT_ONCE)])
            condition = None
            if self.encoder.has_condition:
                first = torch.zeros_like(video)
                first[:, :, 0] = video[:, :, 0]
                encoded = torch.cat([self.encoder.latents(part) for part in first.split(_ENCODED_AT_ONCE)])
                condition = torch.stack([with_first_frame_mask(one) for one in encoded])
        captions = [caption for clips in sampled for caption in clips.captions]
        order = torch.cat([torch.tensor(clips.places) for clips in sampled]).argsort()
        text = self.encoder.texts(captions, self.max_sequence_length)
        return LatentBatch(
            latents[order.to(device)],
            text[order].to(device),
            CameraTokens(camera_rows[order].to(device), TokenGrid.from_latents(latents.shape, self.patch_size)),
            None if condition is None else condition[order.to(device)],
        )


@dataclass(frozen=True, eq=False)
class SampledClips:
    """Clips of one source that are ready to be rendered, with their captions and camera tokens."""

    scenes: WorldBatch
    captions: tuple[str, ...]
    camera_rows: Tensor  # [B, N, columns of CameraTokens]
    places: tuple[int, ...]  # of these clips in the batch that was asked for


def sample_clips(
    sources: Sequence[Source], spec: ClipSpec, grid: TokenGrid, temporal_stride: int, windows: Sequence[Window]
) -> list[SampledClips]:
    """Scenes and cameras of some clips, one entry per source. Needs no model and no device, so it may run in any process."""
    sampled = []
    for number in dict.fromkeys(window.source for window in windows):
        source = sources[number]
        places = tuple(place for place, window in enumerate(windows) if window.source == number)
        shots = source.sample_shots([windows[place].shot for place in places])
        tokens = [
            CameraTokens.from_trajectory(spec.trajectory(shot, 0, source.eta), grid, temporal_stride=temporal_stride)
            for shot in shots.trajectories
        ]
        camera_rows = CameraTokens.batch(tokens).rows
        sampled.append(SampledClips(shots.scenes, shots.scenes.captions, camera_rows, places))
    return sampled
