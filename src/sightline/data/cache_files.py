"""What the files of a cache hold beside tensors: the header of a shard with its clips, and the embedding of the empty prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from safetensors.torch import save_file

from sightline.data.checksums import clip_checksum, require_checksum
from sightline.data.clip import Clip
from sightline.errors import SightlineError
from sightline.files import atomic_write
from sightline.settings import convert
from sightline.tensors import metadata_json, read_metadata, read_tensors, require_real

METADATA = "sightline"  # one entry: safetensors writes several in no fixed order
_EMPTY_TEXT, _EMPTY_ENTRY = "empty_text.safetensors", {"name": "of the empty prompt"}


class CachedCamera(TypedDict):
    width: int
    height: int
    xi: float
    fps: float
    unit: str
    near_depth: float | None


class CachedClip(TypedDict):
    """A clip in the metadata of its shard."""

    source: str
    name: str
    scene: str
    caption: str
    camera: CachedCamera
    checksum: str


class SkippedClip(TypedDict):
    """A clip that is not in the cache, and why (see data.clip.Skip)."""

    source: str
    name: str
    reason: str
    unexpected: bool


class ShardHeader(TypedDict):
    """The metadata of a shard."""

    fingerprint: str
    clips: list[CachedClip]
    skips: list[SkippedClip]


def read_header(path: Path) -> ShardHeader:
    """The metadata of a shard: fingerprint, clips and skips."""
    expected = "a shard of a cache"
    header = metadata_json(path, read_metadata(path, expected), METADATA, expected)
    return cast("ShardHeader", convert(ShardHeader, header, f"{path}: header"))


def clip_entry(clip: Clip) -> dict[str, Any]:
    """The metadata of a clip."""
    camera = {name: getattr(clip.trajectory, name) for name in ("width", "height", "xi", "fps", "unit", "near_depth")}
    return {"source": clip.source, "name": clip.name, "scene": clip.scene, "caption": clip.caption, "camera": camera}


def read_empty_text(folder: Path) -> torch.Tensor:  # -> [n, D]
    """The embedding of the empty prompt, without padding."""
    file = folder / _EMPTY_TEXT
    metadata, tensors = read_tensors(file, "a file of a cache")
    text = tensors.get("text")
    if text is None or text.ndim != 2:
        raise SightlineError(f"{file} has no text of [n, D] numbers: expected a file of a cache.")
    require_checksum(file, {**_EMPTY_ENTRY, **metadata}, {"text": text})
    require_real(file, [("text", text)])
    return text


def write_empty_text(folder: Path, text: torch.Tensor) -> None:  # [n, D]
    tensors = {"text": text.contiguous()}
    with atomic_write(folder / _EMPTY_TEXT) as temporary:
        save_file(tensors, temporary, metadata={"checksum": clip_checksum(_EMPTY_ENTRY, tensors)})
