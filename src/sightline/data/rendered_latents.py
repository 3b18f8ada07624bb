"""Clips of rendered sources, rendered and encoded in batches on the VAE's device."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import Tensor

from sightline.cameras.camera_batch import CameraBatch
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.data.clips import Clips, Window
from sightline.data.encode import ClipEncoder, frames_to_video
from sightline.data.latents import LatentBatch, with_first_frame_mask
from sightline.data.rendered_store import ClipsOfSource, Made, RenderedStore
from sightline.data.sampled_clips import SampledClips, sample_clips
from sightline.devices import cpu_threads
from sightline.worlds.batches import BATCH, map_in_processes, render_batches

_ENCODED_AT_ONCE = 124  # clips of 33 x 128 x 128 that the VAE takes together, four frames of them at a time
_PIXELS_AT_ONCE = 1 << 25  # on a GPU: 62 such clips, all of their frames together


def can_render_batches(clips: Clips) -> bool:
    """Whether every clip is one whole shot of a source that renders it, so that batches can be rendered at once."""
    spec = clips.spec
    return spec.span == spec.num_frames and all(source.renders(spec) for source in clips.sources)


def in_batches(windows: Sequence[Window]) -> list[Sequence[Window]]:
    """The clips in batches to be rendered, of about one size each."""
    count = -(-len(windows) // BATCH)
    return [windows[len(windows) * i // count : len(windows) * (i + 1) // count] for i in range(count)]


class RenderedLatents:
    """Clips that are rendered and encoded in batches; see `can_render_batches` for which. names: source and name of each.

    patch_size: latent frames, rows and columns per token. max_sequence_length: text embeddings are cut to this length.
    keep_in_memory: make every clip now and keep it in the memory of the device, with its cameras as poses and lenses; the
    rows of their tokens, which are many times larger, are computed for each batch that is read.
    store: with keep_in_memory, where clips that were made before are read from, and new ones are written to.
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
        store: RenderedStore | None = None,
    ) -> None:
        self.windows = [clips.windows[index] for index in indices]
        self.names = [clips.name_of(index) for index in indices]
        self.sample = partial(sample_clips, clips.sources, clips.spec)
        self.encoder, self.patch_size, self.max_sequence_length = encoder, patch_size, max_sequence_length
        self._memory: tuple[LatentBatch, CameraBatch] | None = None
        if keep_in_memory and self.windows:
            if store is None:
                batches, cameras, _ = zip(*self._render_all(self.windows, progress, self.sample, 0), strict=True)
                self._memory = LatentBatch.cat(batches), CameraBatch.cat(cameras)
            else:
                self._memory = store.read(self._parts(clips, progress), encoder)

    def __len__(self) -> int:
        return len(self.windows)

    def read(self, indices: Sequence[int]) -> LatentBatch:
        if self._memory is not None:
            batch, cameras = self._memory
            rows = torch.tensor(list(indices), device=batch.latents.device)
            return self._with_tokens(batch.select(indices), cameras.select(rows))
        windows = [self.windows[index] for index in indices]
        batch, cameras, _ = self.render_and_encode(next(map_in_processes(self.sample, [windows])))
        return self._with_tokens(batch, cameras)

    def _parts(self, clips: Clips, progress: Callable[[Sequence[Any]], Any]) -> list[ClipsOfSource]:
        """The clips by their source, whose order they have, so that other runs can combine the sources anew."""
        return [
            self._part(clips, number, list(windows), progress)
            for number, windows in groupby(self.windows, key=lambda window: window.source)
        ]

    def _part(
        self, clips: Clips, number: int, windows: list[Window], progress: Callable[[Sequence[Any]], Any]
    ) -> ClipsOfSource:
        """Clips are stored in metres, so that runs with other units share them; but not where a near depth divides them."""
        source, spec = clips.sources[number], clips.spec
        stored = source if spec.near_depth else source.in_metres()
        sources = [stored if at == number else other for at, other in enumerate(clips.sources)]
        return ClipsOfSource(
            settings=stored.settings() | asdict(spec) | {"max_sequence_length": self.max_sequence_length},
            windows=windows,
            make=partial(self._render_all, windows, progress, partial(sample_clips, sources, spec)),
            units_per_metre=torch.ones_like if spec.near_depth else source.units_per_metre,
        )

    def _render_all(
        self, windows: Sequence[Window], progress: Callable[[Sequence[Any]], Any], sample: Callable[..., Any], done: int
    ) -> Generator[Made, None, None]:
        """The clips in batches, without the first `done` clips."""
        groups = in_batches(windows)
        starts = accumulate(map(len, groups), initial=0)
        groups = [
            group[max(done - start, 0) :]
            for start, group in zip(starts, groups, strict=False)
            if done < start + len(group)
        ]
        with (
            closing(map_in_processes(sample, groups)) as sampled,
            self.encoder.text_encoder_on(self.encoder.pipe.vae.device),
        ):
            if groups and self.encoder.pipe.vae.device.type == "cuda":
                with cpu_threads(1):
                    first = sample(groups[0][:1])
                self.render(first)  # compiles the renderer while the processes start
            for _ in progress(groups):
                yield self.render_and_encode(next(sampled))

    def _with_tokens(self, batch: LatentBatch, cameras: CameraBatch) -> LatentBatch:
        grid = TokenGrid.from_latents(batch.latents.shape, self.patch_size)
        tokens = CameraTokens.from_cameras(cameras, grid, temporal_stride=self.encoder.token_stride.frames)
        return replace(batch, camera_tokens=tokens)

    def render_and_encode(self, sampled: list[SampledClips]) -> tuple[LatentBatch, CameraBatch, Tensor]:
        """The clips in the order in which they were asked for, without camera tokens; their cameras; and the scale that the
        world of each reports [B]."""
        order = torch.cat([torch.tensor(clips.places) for clips in sampled]).argsort()
        frames = self.render(sampled)
        latents, condition = self.encode(frames)
        captions = [caption for clips in sampled for caption in clips.captions]
        distinct = list(dict.fromkeys(captions))  # clips of one scene share theirs
        places = torch.tensor([distinct.index(caption) for caption in captions])
        text = self.encoder.texts(distinct, self.max_sequence_length)
        cameras = CameraBatch.cat([clips.cameras for clips in sampled]).select(order).to(latents.device)
        here = order.to(latents.device)
        text = text.to(latents.device)[places[order].to(latents.device)]
        batch = LatentBatch(latents[here], text, condition=None if condition is None else condition[here])
        scales = torch.cat([clips.shots.takes.scale[clips.shots.take] for clips in sampled])[order]
        return batch, cameras, scales.to(latents.device)

    def render(self, sampled: list[SampledClips]) -> Tensor:  # -> [B, T, H, W, 3] uint8, on the VAE's device
        """The frames of the clips, one source after the other."""
        rendered = render_batches([clips.shots.takes for clips in sampled], self.encoder.pipe.vae.device)
        takes = rendered.split([len(clips.shots.takes) for clips in sampled])
        return torch.cat([clips.shots.show(part) for clips, part in zip(sampled, takes, strict=True)])

    @torch.no_grad()
    def encode(self, frames: Tensor) -> tuple[Tensor, Tensor | None]:  # [B, T, H, W, 3] -> [B, C, t, h, w] x2
        """Latents, and the condition of models that take one."""
        latents, conditions = [], []
        encode, at_once = self.encoder.latents, _ENCODED_AT_ONCE
        clips_at_once = _PIXELS_AT_ONCE // frames[0, ..., 0].numel()
        whole_clips = frames.is_cuda and clips_at_once > 0 and self.encoder.has_wan_vae
        if whole_clips:
            encode, at_once = partial(self.encoder.latents_of_whole_clips, dtype=torch.bfloat16), clips_at_once
        with torch.autocast(frames.device.type, torch.bfloat16, enabled=frames.is_cuda and not whole_clips):
            for part in frames.split(at_once):
                video = frames_to_video(part)
                latents.append(encode(video))
                if self.encoder.has_condition:
                    video[:, :, 1:] = 0
                    conditions += [with_first_frame_mask(one) for one in encode(video)]
        return torch.cat(latents), torch.stack(conditions) if conditions else None
