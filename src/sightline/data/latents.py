"""Clips as a model takes them: VAE latents, text embeddings and camera tokens, one clip at a time or in batches."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from sightline.cameras.token_grid import TEMPORAL_STRIDE, TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip, Indexed
from sightline.data.encode import ClipEncoder, pad_text
from sightline.errors import SightlineError


@dataclass(frozen=True, eq=False)
class LatentClip:
    """One encoded clip.

    latents: [C, t, h, w] normalised; frame 0 is also what TI2V-5B conditions on.
    text: [512, D] as the pipeline's encode_prompt gives it.
    condition: [C, t, h, w] latents of the first frame followed by zeros, for models that take it (I2V-A14B).
    """

    latents: Tensor
    text: Tensor
    condition: Tensor | None
    trajectory: Trajectory
    caption: str
    source: str
    name: str


@dataclass(frozen=True, eq=False)
class LatentBatch:
    """Several encoded clips, as a transformer takes them."""

    latents: Tensor  # [B, C, t, h, w] normalised as the pipelines do
    text: Tensor  # [B, L, D]
    camera_tokens: CameraTokens | None = None
    condition: Tensor | None = None  # [B, 4 + C, t, h, w]: mask and image latents that I2V-A14B takes beside the noise
    clip_indices: Sequence[int] = ()  # each clip's index in the run, which seeds its random draws
    empty_text: Tensor | None = None  # [L, D] the embedding of the empty prompt, for text dropout

    @classmethod
    def cat(cls, batches: Sequence[LatentBatch]) -> LatentBatch:
        """The clips of several batches as one batch."""
        tokens = [batch.camera_tokens for batch in batches if batch.camera_tokens is not None]
        conditions = [batch.condition for batch in batches if batch.condition is not None]
        return cls(
            torch.cat([batch.latents for batch in batches]),
            torch.cat([batch.text for batch in batches]),
            CameraTokens.batch(tokens) if tokens else None,
            torch.cat(conditions) if conditions else None,
        )

    def select(self, indices: Sequence[int]) -> LatentBatch:
        """Some of the clips, in this order."""
        rows = torch.tensor(list(indices), device=self.latents.device)
        tokens = self.camera_tokens
        return LatentBatch(
            self.latents[rows],
            self.text[rows],
            None if tokens is None else CameraTokens(tokens.rows[rows], tokens.grid),
            None if self.condition is None else self.condition[rows],
        )

    def to(self, device: torch.device) -> LatentBatch:
        """The same batch with every tensor on the device."""
        moved: dict[str, Any] = {
            field.name: value.to(device)
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor | CameraTokens)
        }
        return dataclasses.replace(self, **moved)


class LatentDataset(Protocol):
    """Encoded clips by index."""

    def __len__(self) -> int: ...

    @property
    def names(self) -> list[tuple[str, str]]:
        """The source and the name of each clip."""

    def read(self, indices: Sequence[int]) -> LatentBatch:
        """These clips as one batch; clip_indices and empty_text are left to the caller."""


class ConcatenatedLatents:
    """The clips of several datasets, one after the other. Datasets of different shapes cannot share a batch."""

    def __init__(self, datasets: Sequence[LatentDataset]) -> None:
        self.datasets = datasets
        self._ends = list(accumulate(len(dataset) for dataset in datasets))

    def __len__(self) -> int:
        return self._ends[-1]

    @property
    def names(self) -> list[tuple[str, str]]:
        return [name for dataset in self.datasets for name in dataset.names]

    def first_of_each(self) -> list[int]:
        """The first clip of each dataset that has one."""
        return [end - len(dataset) for dataset, end in zip(self.datasets, self._ends, strict=True) if len(dataset)]

    def read(self, indices: Sequence[int]) -> LatentBatch:
        numbers = [bisect_right(self._ends, index) for index in indices]
        if len(set(numbers)) > 1:
            raise SightlineError(f"clips {list(indices)} are of {len(set(numbers))} datasets: expected one in a batch.")
        dataset = self.datasets[numbers[0]]
        start = self._ends[numbers[0]] - len(dataset)
        return dataset.read([index - start for index in indices])


Item = TypeVar("Item")


class PerClipLatents(Generic[Item]):
    """Clips that are read, and encoded where needed, one at a time.

    clips: the clips of a cache or of sources. indices: which of them this dataset holds.
    encode: makes a LatentClip of what `clips` gives; a cache's clips are LatentClips already.
    patch_size: latent frames, rows and columns per token. max_sequence_length: text embeddings are cut to this length.
    keep_in_memory: keep every clip after its first use.
    """

    def __init__(
        self,
        clips: Indexed[Item],
        indices: Sequence[int],
        encode: Callable[[Item], LatentClip],
        patch_size: Sequence[int],
        max_sequence_length: int,
        keep_in_memory: bool,
    ) -> None:
        self.clips, self.indices, self.encode, self.patch_size, self.max_sequence_length = (
            clips,
            indices,
            encode,
            patch_size,
            max_sequence_length,
        )
        self._memory: dict[int, LatentBatch] | None = {} if keep_in_memory else None

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def names(self) -> list[tuple[str, str]]:
        return [self.clips.name_of(index) for index in self.indices]

    def read(self, indices: Sequence[int]) -> LatentBatch:
        return LatentBatch.cat([self._read_one(index) for index in indices])

    def _read_one(self, index: int) -> LatentBatch:
        if self._memory is not None and index in self._memory:
            return self._memory[index]
        clip = self.encode(self.clips[self.indices[index]])
        grid = TokenGrid.from_latents(clip.latents.shape, self.patch_size)
        batch = LatentBatch(
            clip.latents[None].float(),  # a cache may hold bfloat16; noise is added in float32
            clip.text[None, : self.max_sequence_length].float(),
            CameraTokens.from_trajectory(
                clip.trajectory, grid, temporal_stride=grid.temporal_stride(len(clip.trajectory))
            ),
            None if clip.condition is None else with_first_frame_mask(clip.condition.float())[None],
        )
        if self._memory is not None:
            self._memory[index] = batch
        return batch


def encode_clip(encoder: ClipEncoder, max_sequence_length: int, clip: Clip) -> LatentClip:
    """Encode a clip as a cache would store it. A longer caption is cut before it is encoded, as the pipelines do."""
    tensors = encoder.encode(clip, max_sequence_length)
    return LatentClip(
        tensors["latents"],
        pad_text(tensors["text"]),
        tensors.get("condition"),
        clip.trajectory,
        clip.caption,
        clip.source,
        clip.name,
    )


def with_first_frame_mask(condition: Tensor) -> Tensor:  # [C, t, h, w] -> [4 + C, t, h, w]
    """I2V-A14B's channels beside the noise: which of a latent's four raw frames are known, then the image latents."""
    mask = torch.zeros(TEMPORAL_STRIDE, *condition.shape[1:], device=condition.device)
    mask[:, 0] = 1.0  # raw frame 0 alone makes latent frame 0
    return torch.cat([mask, condition])
