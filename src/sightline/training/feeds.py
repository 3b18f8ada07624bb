"""Feed: which clips a run sees, in which order, as batches. A pure function of a clip's index in the run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder, pad_text
from sightline.data.joined_caches import JoinedCaches
from sightline.data.latents import LatentBatch, LatentDataset, PerClipLatents, encode_clip
from sightline.data.order import Mixed, Order, Shuffled, group_by_name
from sightline.data.rendered_latents import RenderedLatents, can_render_batches
from sightline.data.sources import open_sources
from sightline.data.split import is_held_out
from sightline.errors import SightlineError
from sightline.training.objective import Draw
from sightline.training.recipe import DataConfig


class Feed:
    """Batches of training clips in the order of the run, and of held-out clips by index."""

    def __init__(
        self,
        train: LatentDataset,
        held_out: LatentDataset,
        order: Order,
        empty_text: Tensor,  # [L, D], the embedding of the empty prompt
        with_camera: bool,
    ) -> None:
        self.train, self.held_out, self.order = train, held_out, order
        self.empty_text, self.with_camera = empty_text, with_camera

    def micro_batches(
        self,
        start: int,
        batch_size: int,
        shards: list[slice],
        num_workers: int,
        device: torch.device,
        draw: Callable[[LatentBatch], Draw],
    ) -> Generator[tuple[LatentBatch, Draw], None, None]:
        """This process's micro-batches of the clips start, start + 1, ..., with the random draws of each.

        batch_size: clips of a whole step, over all processes. shards: this process's micro-batches of a step.
        The next ones are read and drawn while one is used: a generator per clip is some hundred small launches, during
        which a device would idle. Closing the generator waits for those reads to end.
        """

        def load(indices: Sequence[int], clip_indices: Sequence[int]) -> tuple[LatentBatch, Draw]:
            read = self._read(self.train, indices, clip_indices).to(device)
            return read, draw(read)

        indices, pool = self.order.from_position(start), ThreadPoolExecutor(max(num_workers, 1))
        pending: list[Future[tuple[LatentBatch, Draw]]] = []
        try:
            while True:
                while len(pending) <= num_workers * len(shards):
                    step, clip_indices = list(islice(indices, batch_size)), range(start, start + batch_size)
                    pending += [pool.submit(load, step[rows], clip_indices[rows]) for rows in shards]
                    start += batch_size
                yield pending.pop(0).result()
        finally:
            pool.shutdown(cancel_futures=True)

    def validation(self, indices: Sequence[int], device: torch.device) -> LatentBatch:
        """Held-out clips. Their clip indices are negative and fixed, so their noise is the same at every validation."""
        return self._read(self.held_out, indices, [-1 - index for index in indices]).to(device)

    def require_fit(self, config: Any) -> torch.Size:
        """Refuse clips that another kind of model has encoded; returns the shape of a batch of one clip's latents.

        config: of the transformer that is trained.
        """
        batch = self.held_out.read([0])
        channels = batch.latents.shape[1]
        expected = config.in_channels - (0 if batch.condition is None else batch.condition.shape[1])
        if channels != config.out_channels or channels != expected:
            raise SightlineError(
                f"the clips have latents of {channels} channels {'without' if batch.condition is None else 'with'} image "
                f"conditions, and the model takes {config.in_channels} and predicts {config.out_channels}: expected clips that "
                "were encoded for model.base."
            )
        if batch.text.shape[-1] != config.text_dim:
            raise SightlineError(
                f"the clips have text of {batch.text.shape[-1]} channels, and the model takes {config.text_dim}: expected "
                "clips that were encoded for model.base."
            )
        return batch.latents.shape

    def _read(self, clips: LatentDataset, indices: Sequence[int], clip_indices: Sequence[int]) -> LatentBatch:
        batch = clips.read(indices)
        tokens = batch.camera_tokens if self.with_camera else None
        return replace(batch, camera_tokens=tokens, clip_indices=list(clip_indices), empty_text=self.empty_text)


def open_caches(data: DataConfig) -> tuple[JoinedCaches, JoinedCaches | None]:
    """The caches of a recipe, for training and, where it names some, for validation. Caches of other clips are refused."""
    train = JoinedCaches(data.cache, data.subset)
    held_out = JoinedCaches(data.validation_cache) if data.validation_cache else None
    if held_out is not None:
        JoinedCaches([*data.cache, *data.validation_cache])  # refuses another encoder, and clips that are trained on
    for caches in (train, held_out):
        if caches is not None:
            caches.require_settings(asdict(data))
    return train, held_out


def make_feed(
    data: DataConfig,
    encoder: ClipEncoder | None,
    seed: int,
    *,
    patch_size: Sequence[int],
    with_camera: bool,
    quiet: bool = True,
) -> Feed:
    """The feed that a recipe asks for: from caches, or from sources whose clips the encoder encodes.

    encoder: not needed with caches. patch_size: latent frames, rows and columns per token. with_camera: whether the model
    takes camera tokens.
    """
    train: LatentDataset
    held_out: LatentDataset
    if encoder is None:
        cached, separate = open_caches(data)
        fraction = 0.0 if separate is not None else data.held_out_fraction
        held = [is_held_out(entry["source"], entry["scene"], fraction) for entry in cached.entries]
        train_indices = [index for index, is_held in enumerate(held) if not is_held]
        held_out_indices = [index for index, is_held in enumerate(held) if is_held]
        if separate is not None:
            held_out_indices = list(range(len(separate)))
        order = _order(data, [cached.entries[index]["source"] for index in train_indices], held_out_indices, seed)
        empty_text = cached.empty_text().float()
        train, held_out = (
            PerClipLatents(clips, indices, lambda clip: clip, patch_size, data.max_sequence_length, data.keep_in_memory)
            for clips, indices in ((cached, train_indices), (separate or cached, held_out_indices))
        )
    else:
        encoder.check_size(data.width, data.height)
        parts = [_clips_of(data, part) for part in ("train", "held-out")]
        names = [parts[0].sources[window.source].name for window in parts[0].windows]
        order = _order(data, names, parts[1], seed)  # errors in the recipe are raised before any clip is rendered
        empty_text = pad_text(encoder.text(""))
        train, held_out = (_encoded(clips, data, encoder, patch_size, quiet) for clips in parts)
    return Feed(train, held_out, order, empty_text[: data.max_sequence_length], with_camera)


def _encoded(
    clips: Clips, data: DataConfig, encoder: ClipEncoder, patch_size: Sequence[int], quiet: bool
) -> LatentDataset:
    """Clips of sources, encoded as they are read: in batches where the sources can render batches, else one by one."""
    indices = range(len(clips))
    if can_render_batches(clips):
        progress = partial(track, description="rendering worlds", console=Console(stderr=True), disable=quiet)
        return RenderedLatents(
            clips, indices, encoder, patch_size, data.max_sequence_length, data.keep_in_memory, progress
        )
    encode = partial(encode_clip, encoder, data.max_sequence_length)
    return PerClipLatents(clips, indices, encode, patch_size, data.max_sequence_length, data.keep_in_memory)


def _clips_of(data: DataConfig, part: Any) -> Clips:
    settings = {field.name: getattr(data, field.name) for field in fields(ClipSpec) if hasattr(data, field.name)}
    spec = ClipSpec(**settings)
    return Clips(open_sources(data.sources), spec, part=part, held_out=data.held_out_fraction)


def _order(data: DataConfig, sources: Sequence[str], held_out: Sized, seed: int) -> Order:
    """The order in which training clips are seen. sources: the name of each clip's source."""
    for name, part in (("training", sources), ("held-out", held_out)):
        if not len(part):
            raise SightlineError(
                f"the data has no {name} clips: expected some (data.held_out_fraction is {data.held_out_fraction})."
            )
    if not data.source_weights:
        return Shuffled(len(sources), seed)
    return Mixed(group_by_name(sources), data.source_weights, seed)
