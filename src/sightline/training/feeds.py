"""Feed: which clips a run sees, in which order, as batches. A pure function of a clip's index in the run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from sightline.cameras.token_grid import TokenGrid
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder, pad_text
from sightline.data.joined_caches import JoinedCaches
from sightline.data.latents import ConcatenatedLatents, LatentBatch, LatentDataset, PerClipLatents, encode_clip
from sightline.data.order import Mixed, OneGroupPerStep, Order, Shuffled, group_by_name
from sightline.data.rendered_latents import RenderedLatents, can_render_batches
from sightline.data.rendered_store import RenderedStore
from sightline.data.sources import open_sources
from sightline.data.split import Part, is_held_out, share_of_scene
from sightline.errors import SightlineError
from sightline.training.objective import Draw
from sightline.training.recipe import DataConfig
from sightline.worlds.batches import BATCH, shared_processes

_PARTS: tuple[Part, ...] = ("train", "held-out")


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

    def max_tokens(self, patch_size: Sequence[int]) -> int:
        """Tokens of the largest shape, of which one clip is read. patch_size: latent frames, rows and columns per token."""
        examples = self.train.first_of_each() if isinstance(self.train, ConcatenatedLatents) else [0]
        return max(
            TokenGrid.from_latents(self.train.read([index]).latents.shape, patch_size).num_tokens for index in examples
        )

    def require_fit(self, config: Any, text_channels: int) -> None:
        """Refuse clips that another kind of model has encoded. config, text_channels: of the transformer that is trained."""
        batch = self.held_out.read([0])
        channels = batch.latents.shape[1]
        expected = config.in_channels - (0 if batch.condition is None else batch.condition.shape[1])
        if channels != config.out_channels or channels != expected:
            raise SightlineError(
                f"the clips have latents of {channels} channels {'without' if batch.condition is None else 'with'} image "
                f"conditions, and the model takes {config.in_channels} and predicts {config.out_channels}: expected clips that "
                "were encoded for model.base."
            )
        if batch.text.shape[-1] != text_channels:
            raise SightlineError(
                f"the clips have text of {batch.text.shape[-1]} channels, and the model takes {text_channels}: expected "
                "clips that were encoded for model.base."
            )

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
    batch_size: int,
    patch_size: Sequence[int],
    with_camera: bool,
    quiet: bool = True,
    store: RenderedStore | None = None,
) -> Feed:
    """The feed that a recipe asks for: from caches, or from sources whose clips the encoder encodes.

    encoder: not needed with caches. batch_size: clips of a step, which all have one shape. patch_size: latent frames, rows and
    columns per token. with_camera: whether the model takes camera tokens. store: of rendered clips that several runs share.
    """
    if encoder is None:
        return _feed_of_caches(data, patch_size, with_camera, seed)
    for shape in data.clip_shapes:
        encoder.check_shape(*shape)
    train_clips, held_out_clips = (
        [_clips_of(data, part, shape) for shape in range(len(data.clip_shapes))] for part in _PARTS
    )
    # What is wrong with the recipe is raised here, before any clip is rendered.
    order = _order_of_shapes(data, train_clips, held_out_clips, batch_size, seed)
    empty_text = pad_text(encoder.text(""))
    num_clips = sum(map(len, (*train_clips, *held_out_clips))) if data.keep_in_memory else 0  # that are rendered now
    with shared_processes(num_clips // BATCH):
        train, held_out = (
            ConcatenatedLatents([_encoded(clips, data, encoder, patch_size, quiet, store) for clips in part])
            for part in (train_clips, held_out_clips)
        )
    return Feed(train, held_out, order, empty_text[: data.max_sequence_length], with_camera)


def count_held_out(data: DataConfig) -> int:
    """The held-out clips of a recipe, without reading any of them."""
    if data.cache:
        return len(_CachedParts.of(data).held_out_indices)
    return sum(len(_clips_of(data, "held-out", shape)) for shape in range(len(data.clip_shapes)))


def require_cached_clips(data: DataConfig) -> None:
    """Refuse what is wrong with the caches of a recipe, its subset or its weights, before a model is read for them."""
    _order_of_cached(data, _CachedParts.of(data), seed=0)


@dataclass(frozen=True, eq=False)
class _CachedParts:
    """The clips of a recipe's caches: those of `train` with `train_indices`, and those of `held_out` with `held_out_indices`."""

    train: JoinedCaches
    train_indices: list[int]
    held_out: JoinedCaches  # of their own, where the recipe names some, else those for training
    held_out_indices: list[int]

    @classmethod
    def of(cls, data: DataConfig) -> _CachedParts:
        train, separate = open_caches(data)
        fraction = 0.0 if separate is not None else data.held_out_fraction
        held = [is_held_out(entry["source"], entry["scene"], fraction) for entry in train.entries]
        indices, held_out = ([index for index, is_held in enumerate(held) if is_held == part] for part in (False, True))
        if separate is not None:
            return cls(train, indices, separate, list(range(len(separate))))
        return cls(train, indices, train, held_out)


def _order_of_cached(data: DataConfig, cached: _CachedParts, seed: int) -> Order:
    _require_clips(data, len(cached.train_indices), len(cached.held_out_indices))
    return _order(data, [cached.train.entries[index]["source"] for index in cached.train_indices], seed)


def _feed_of_caches(data: DataConfig, patch_size: Sequence[int], with_camera: bool, seed: int) -> Feed:
    cached = _CachedParts.of(data)
    order = _order_of_cached(data, cached, seed)
    train, held_out = (
        PerClipLatents(clips, indices, lambda clip: clip, patch_size, data.max_sequence_length, data.keep_in_memory)
        for clips, indices in ((cached.train, cached.train_indices), (cached.held_out, cached.held_out_indices))
    )
    empty_text = cached.train.empty_text().float()
    return Feed(train, held_out, order, empty_text[: data.max_sequence_length], with_camera)


def _encoded(
    clips: Clips,
    data: DataConfig,
    encoder: ClipEncoder,
    patch_size: Sequence[int],
    quiet: bool,
    store: RenderedStore | None,
) -> LatentDataset:
    """Clips of sources, encoded as they are read: in batches where the sources can render batches, else one by one."""
    indices = range(len(clips))
    if can_render_batches(clips):
        progress = partial(track, description="rendering worlds", console=Console(stderr=True), disable=quiet)
        return RenderedLatents(
            clips, indices, encoder, patch_size, data.max_sequence_length, data.keep_in_memory, progress, store
        )
    encode = partial(encode_clip, encoder, data.max_sequence_length)
    return PerClipLatents(clips, indices, encode, patch_size, data.max_sequence_length, data.keep_in_memory)


def _clips_of(data: DataConfig, part: Part, shape: int) -> Clips:
    """The clips of one shape in one part of the split. A scene is seen in one shape, which a hash of its name decides."""
    settings = {field.name: getattr(data, field.name) for field in fields(ClipSpec) if hasattr(data, field.name)}
    spec = ClipSpec(**settings | dict(zip(("num_frames", "width", "height"), data.clip_shapes[shape], strict=True)))
    weights = data.shape_weights or [1.0] * len(data.clip_shapes)

    def is_of_shape(source: str, scene: str) -> bool:
        return share_of_scene(source, scene, weights) == shape

    return Clips(open_sources(data.sources), spec, part=part, held_out=data.held_out_fraction, keep=is_of_shape)


def _order_of_shapes(
    data: DataConfig, train: Sequence[Clips], held_out: Sequence[Clips], batch_size: int, seed: int
) -> Order:
    """The order in which training clips are seen. With several shapes, each step has clips of one of them."""
    _require_clips(data, min(map(len, train)), sum(map(len, held_out)))
    orders = [_order(data, [clips.sources[window.source].name for window in clips.windows], seed) for clips in train]
    if len(orders) == 1:
        return orders[0]
    weights = data.shape_weights or [1.0] * len(orders)
    return OneGroupPerStep(orders, [len(clips) for clips in train], weights, batch_size, seed)


def _require_clips(data: DataConfig, train: int, held_out: int) -> None:
    for name, count in (("training", train), ("held-out", held_out)):
        if not count:
            of_each_shape = " of every shape" if len(data.clip_shapes) > 1 and name == "training" else ""
            raise SightlineError(
                f"the data has no {name} clips: expected some{of_each_shape} (data.held_out_fraction is "
                f"{data.held_out_fraction})."
            )


def _order(data: DataConfig, sources: Sequence[str], seed: int) -> Order:
    """The order of training clips of one shape. sources: the name of each clip's source."""
    if not data.source_weights:
        return Shuffled(len(sources), seed)
    return Mixed(group_by_name(sources), data.source_weights, seed)
