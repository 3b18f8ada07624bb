"""Feeds: from a clip's number in the run to a batch. A pure function of the number, so any process can make any clip."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor

from sightline.cameras.tokens import CameraTokens
from sightline.data.cached import CachedClip, CachedClips
from sightline.data.clips import Clips
from sightline.data.cut import Cut
from sightline.data.encode import ClipEncoder, padded_text
from sightline.data.order import Mixed, Order, Shuffled
from sightline.data.sources import open_sources
from sightline.data.split import is_held_out
from sightline.errors import SightlineError
from sightline.training.objective import Batch
from sightline.training.recipe import Data

_TEMPORAL_STRIDE = 4  # raw frames per latent frame, in every Wan release


class EncodedClips(Protocol):
    """Clips whose latents and text are ready: from a cache, or made on the spot."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> CachedClip: ...


class Feed:
    """Training clips by number, in the order of the run, and held-out clips by index."""

    def __init__(
        self,
        train: EncodedClips,
        held_out: EncodedClips,
        order: Order,
        empty_text: Tensor,  # [L, D], the embedding of no prompt; other prompts are cut to its length
        patch: tuple[int, int, int],
        with_camera: bool,
    ) -> None:
        self.train, self.held_out, self.order = train, held_out, order
        self.empty_text, self.patch, self.with_camera = empty_text, patch, with_camera

    def micro_batches(
        self, start: int, batch: int, share: list[slice], workers: int, device: torch.device
    ) -> Iterator[Batch]:
        """This process's micro-batches of the clips start, start + 1, ...; the next are read while one is used.

        batch: clips of a whole step. share: the micro-batches of a step that are this process's.
        """
        indices, pool = self.order.from_position(start), ThreadPoolExecutor(max(workers, 1))
        waiting: list[Future[Batch]] = []
        try:
            while True:
                while len(waiting) <= workers * len(share):
                    step, numbers = list(islice(indices, batch)), range(start, start + batch)
                    waiting += [pool.submit(self._read, self.train, step[one], numbers[one]) for one in share]
                    start += batch
                yield to_device(waiting.pop(0).result(), device)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def validation(self, indices: Sequence[int], device: torch.device) -> Batch:
        """Held-out clips. Their numbers are negative and fixed, so their noise is the same at every validation."""
        return to_device(self._read(self.held_out, indices, [-1 - index for index in indices]), device)

    def _read(self, clips: EncodedClips, indices: Sequence[int], numbers: Sequence[int]) -> Batch:
        read = [clips[index] for index in indices]
        latents = torch.stack([clip.latents for clip in read])
        (t, h, w), (patch_t, patch_h, patch_w) = latents.shape[2:], self.patch
        grid = (t // patch_t, h // patch_h, w // patch_w)
        conditions = [clip.condition for clip in read if clip.condition is not None]
        return Batch(
            numbers=list(numbers),
            latents=latents,
            text=torch.stack([clip.text[: len(self.empty_text)] for clip in read]),
            empty_text=self.empty_text,
            camera=CameraTokens.batch([CameraTokens.from_trajectory(clip.trajectory, grid) for clip in read])
            if self.with_camera
            else None,
            condition=torch.stack([with_first_frame_mask(one) for one in conditions]) if conditions else None,
        )


def make_feed(data: Data, pipe: Any, seed: int, *, patch: tuple[int, int, int], with_camera: bool) -> Feed:
    """The feed a recipe asks for: a cache, or sources whose clips the pipeline's own parts encode as they come."""
    encoder = ClipEncoder(pipe)
    empty_text = padded_text(encoder.text(""))[: data.text_tokens]
    train: EncodedClips
    held_out: EncodedClips
    if data.cache is not None:
        cached = CachedClips(data.cache)
        out = [is_held_out(entry["source"], entry["name"], data.held_out) for entry in cached.entries]
        kept = [index for index, held in enumerate(out) if not held]
        train = _Chosen(cached, kept)
        held_out = _Chosen(cached, [index for index, held in enumerate(out) if held])
        groups = _grouped([cached.entries[index]["source"] for index in kept])
    else:
        cut = Cut(frames=data.frames, width=data.width, height=data.height, near_depth=data.near_depth)
        sources = open_sources(data.sources)
        encoder.check_size(data.width, data.height)
        clips = Clips(sources, cut, part="train", held_out=data.held_out)
        others = Clips(sources, cut, part="held-out", held_out=data.held_out)
        train, held_out = (_OnTheFly(one, encoder, {} if data.keep_in_memory else None) for one in (clips, others))
        groups = _grouped([clips.sources[window.source].name for window in clips.windows])
    for name, part in (("training", train), ("held-out", held_out)):
        if not len(part):
            raise SightlineError(f"the data has no {name} clips: expected some (data.held_out is {data.held_out}).")
    order: Order = Shuffled(len(train), seed)
    if data.weights:
        if len(data.weights) != len(groups):
            raise SightlineError(
                f"data.weights has {len(data.weights)} entries: expected {len(groups)}, for {list(groups)}."
            )
        order = Mixed(groups, dict(zip(groups, data.weights, strict=True)), seed)
    return Feed(train, held_out, order, empty_text, patch, with_camera)


def with_first_frame_mask(condition: Tensor) -> Tensor:  # [C, t, h, w] -> [4 + C, t, h, w]
    """I2V-A14B's channels beside the noise: which of a latent's four raw frames are given, then the image latents."""
    mask = torch.zeros(_TEMPORAL_STRIDE, *condition.shape[1:])
    mask[:, 0] = 1.0  # raw frame 0 alone makes latent frame 0
    return torch.cat([mask, condition])


def to_device(batch: Batch, device: torch.device) -> Batch:
    moved: dict[str, Any] = {
        field.name: value.to(device)
        for field in dataclasses.fields(batch)
        if isinstance(value := getattr(batch, field.name), Tensor | CameraTokens)
    }
    return dataclasses.replace(batch, **moved)


@dataclass(frozen=True)
class _Chosen:
    clips: CachedClips
    indices: list[int]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> CachedClip:
        return self.clips[self.indices[index]]


@dataclass(frozen=True)
class _OnTheFly:
    clips: Clips
    encoder: ClipEncoder
    kept: dict[int, CachedClip] | None  # clips already made, where the recipe keeps them in memory

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> CachedClip:
        if self.kept is not None and index in self.kept:
            return self.kept[index]
        clip = self.clips[index]
        tensors = self.encoder.encode(clip)
        encoded = CachedClip(
            tensors["latents"],
            padded_text(tensors["text"]),
            tensors.get("condition"),
            clip.trajectory,
            clip.caption,
            clip.source,
            clip.name,
        )
        if self.kept is not None:
            self.kept[index] = encoded
        return encoded


def _grouped(names: Sequence[str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name, []).append(index)
    return groups
