"""Feeds: from a clip's number in the run to a batch. A pure function of the number, so any process can make any clip."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from sightline.cameras.tokens import CameraTokens
from sightline.data.cached import CachedClips
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder, padded_text
from sightline.data.order import Mixed, Order, Shuffled, grouped
from sightline.data.sources import Worlds, open_sources
from sightline.data.split import is_held_out
from sightline.errors import SightlineError
from sightline.training.encoded import EncodedClips, Filmed, OneByOne, World, encode_clip
from sightline.training.objective import Batch, Draw
from sightline.training.recipe import DataConfig


class Feed:
    """Training clips by number, in the order of the run, and held-out clips by index."""

    def __init__(
        self,
        train: EncodedClips,
        held_out: EncodedClips,
        order: Order,
        empty_text: Tensor,  # [L, D], the embedding of no prompt
        with_camera: bool,
    ) -> None:
        self.train, self.held_out, self.order = train, held_out, order
        self.empty_text, self.with_camera = empty_text, with_camera

    def micro_batches(
        self,
        start: int,
        batch: int,
        share: list[slice],
        workers: int,
        device: torch.device,
        chance: Callable[[Batch], Draw],
    ) -> Generator[tuple[Batch, Draw], None, None]:
        """This process's micro-batches of the clips start, start + 1, ..., with what chance decides for each.

        batch: clips of a whole step. share: the micro-batches of a step that are this process's. The next ones are read and
        drawn while one is used: a generator per clip is some hundred small launches, during which a device would idle.
        Closing it waits for those: nothing is read any more when a run is over.
        """

        def ready(indices: Sequence[int], numbers: Sequence[int]) -> tuple[Batch, Draw]:
            read = to_device(self._read(self.train, indices, numbers), device)
            return read, chance(read)

        indices, pool = self.order.from_position(start), ThreadPoolExecutor(max(workers, 1))
        waiting: list[Future[tuple[Batch, Draw]]] = []
        try:
            while True:
                while len(waiting) <= workers * len(share):
                    step, numbers = list(islice(indices, batch)), range(start, start + batch)
                    waiting += [pool.submit(ready, step[one], numbers[one]) for one in share]
                    start += batch
                yield waiting.pop(0).result()
        finally:
            pool.shutdown(cancel_futures=True)

    def validation(self, indices: Sequence[int], device: torch.device) -> Batch:
        """Held-out clips. Their numbers are negative and fixed, so their noise is the same at every validation."""
        return to_device(self._read(self.held_out, indices, [-1 - index for index in indices]), device)

    def _read(self, clips: EncodedClips, indices: Sequence[int], numbers: Sequence[int]) -> Batch:
        read = clips.read(indices)
        return Batch(
            numbers=list(numbers),
            latents=read.latents,
            text=read.text,
            empty_text=self.empty_text,
            camera=read.camera if self.with_camera else None,
            condition=read.condition,
        )


def make_feed(
    data: DataConfig,
    pipe: Any,
    seed: int,
    *,
    patch: Sequence[int],
    with_camera: bool,
    device: torch.device,
    quiet: bool = True,
) -> Feed:
    """The feed a recipe asks for: a cache, or sources whose clips the pipeline's own parts encode as they come."""
    encoder = ClipEncoder(pipe)
    empty_text = padded_text(encoder.text(""))[: data.max_sequence_length]
    train: EncodedClips
    held_out: EncodedClips
    if data.cache is not None:
        cached = CachedClips(data.cache)
        out = [is_held_out(entry["source"], scene_of(entry), data.held_out_fraction) for entry in cached.entries]
        kept = [index for index, held in enumerate(out) if not held]
        others = [index for index, held in enumerate(out) if held]
        order = _order(data, [cached.entries[index]["source"] for index in kept], others, seed)
        train, held_out = (
            OneByOne(cached, one, lambda clip: clip, patch, data.max_sequence_length, data.keep_in_memory)
            for one in (kept, others)
        )
    else:
        encoder.check_size(data.width, data.height)
        pipe.vae.to(device)  # clips are encoded where the model is trained
        clips = [_clips_of(data, part) for part in ("train", "held-out")]
        names = [clips[0].sources[window.source].name for window in clips[0].windows]
        order = _order(data, names, clips[1], seed)  # refused, where it must be, before a clip is filmed
        if all(_made_to_measure(source, clips[0].spec) for source in clips[0].sources):
            train, held_out = (_filmed(part, data, encoder, patch, quiet) for part in clips)
        else:
            encode = partial(encode_clip, encoder, data.max_sequence_length)
            train, held_out = (
                OneByOne(part, range(len(part)), encode, patch, data.max_sequence_length, data.keep_in_memory)
                for part in clips
            )
    return Feed(train, held_out, order, empty_text, with_camera)


def _clips_of(data: DataConfig, part: Any) -> Clips:
    spec = ClipSpec(num_frames=data.num_frames, width=data.width, height=data.height, near_depth=data.near_depth)
    return Clips(open_sources(data.sources), spec, part=part, held_out=data.held_out_fraction)


def _order(data: DataConfig, sources: Sequence[str], held_out: Sized, seed: int) -> Order:
    """In which the training clips are seen; sources: of each of them, by name."""
    for name, part in (("training", sources), ("held-out", held_out)):
        if not len(part):
            raise SightlineError(
                f"the data has no {name} clips: expected some (data.held_out_fraction is {data.held_out_fraction})."
            )
    if not data.source_weights:
        return Shuffled(len(sources), seed)
    groups = grouped(sources)
    if len(data.source_weights) != len(groups):
        raise SightlineError(
            f"data.source_weights has {len(data.source_weights)} entries: expected {len(groups)}, for the sources with "
            f"training clips, {list(groups)}."
        )
    return Mixed(groups, dict(zip(groups, data.source_weights, strict=True)), seed)


def _made_to_measure(source: Any, spec: ClipSpec) -> bool:
    """Whether these are worlds whose every shot is one clip, so that whole batches can be filmed at once."""
    shape = (spec.num_frames, spec.width, spec.height)
    return isinstance(source, Worlds) and (source.num_frames, source.width, source.height) == shape


def _filmed(clips: Clips, data: DataConfig, encoder: ClipEncoder, patch: Sequence[int], quiet: bool) -> Filmed:
    worlds = []
    for window in clips.windows:
        source: Any = clips.sources[window.source]
        worlds.append(World(source.style, int(window.shot), source.eta, source.unit, source.returning))
    bar = partial(track, description="filming worlds", console=Console(stderr=True), disable=quiet)
    return Filmed(
        worlds, clips.spec, encoder, patch, data.max_sequence_length, data.keep_in_memory and bool(worlds), bar
    )


def to_device(batch: Batch, device: torch.device) -> Batch:
    moved: dict[str, Any] = {
        field.name: value.to(device)
        for field in dataclasses.fields(batch)
        if isinstance(value := getattr(batch, field.name), Tensor | CameraTokens)
    }
    return dataclasses.replace(batch, **moved)


def scene_of(entry: dict[str, Any]) -> str:
    """The place a cached clip shows; caches of an earlier form name only shot@frame."""
    return str(entry.get("scene") or entry["name"].rpartition("@")[0])
