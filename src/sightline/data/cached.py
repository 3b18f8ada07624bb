"""Reading a finished cache, one clip at a time, from any number of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.data.cache_files import CachedClip, SkippedClip, read_empty_text, read_header
from sightline.data.checksums import require_checksum
from sightline.data.encode import DIGESTS, MAX_SEQUENCE_LENGTH, pad_text
from sightline.data.latents import LatentClip
from sightline.data.order import group_by_name
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.files import reason
from sightline.settings import convert
from sightline.tensors import open_tensors, require_real

_EXPECTED = "a shard of a cache"
_DIMENSIONS = {"latents": 4, "text": 2, "camera_to_world": 3, "intrinsics": 3}  # of the tensors of each clip


class IndexEntry(TypedDict):
    """Where a clip is."""

    source: str
    name: str
    scene: str
    shard: int
    position: int


class Index(TypedDict):
    clips: list[IndexEntry]
    skips: list[SkippedClip]


class CachedClips:
    """The encoded clips of a cache, by index.

    entries: source, name, scene, shard and position of each clip. skips: the clips that could not be read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "index.json").is_file():
            raise SightlineError(
                f"{self.folder}: found no index.json, expected a finished cache (the same `sightline data cache` goes on)."
            )
        index = read_json(self.folder / "index.json", "the index of a cache")
        self.settings = read_json(self.folder / "settings.json", "the settings of a cache")
        index = convert(Index, index, str(self.folder / "index.json"))
        self.entries: list[IndexEntry] = index["clips"]
        self.skips: list[SkippedClip] = index["skips"]
        self._headers: dict[int, list[CachedClip]] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> LatentClip:
        location = self.entries[index]
        path, headers = self._shard(location["shard"])
        if not 0 <= location["position"] < len(headers):
            raise SightlineError(f"{path} has {len(headers)} clips: expected one at position {location['position']}.")
        entry, tensors = headers[location["position"]], _read_clip(path, f"{location['position']:05d}.")
        require_checksum(path, entry, tensors)
        if (location["source"], location["name"]) != (entry["source"], entry["name"]):
            raise SightlineError(
                f"{self.folder / 'index.json'}: {location['name']} is {entry['name']} in its shard: expected the index of this "
                "cache; delete it and cache again, which is quick."
            )
        try:
            trajectory = Trajectory(tensors["camera_to_world"], tensors["intrinsics"], **entry["camera"])
        except (SightlineError, TypeError) as error:  # TypeError: an entry that no camera has
            raise SightlineError(f"{path}: the camera of clip {entry['name']}: {reason(error)}.") from None
        return LatentClip(
            latents=tensors["latents"],
            text=pad_text(tensors["text"]),
            condition=tensors.get("condition"),
            trajectory=trajectory,
            caption=entry["caption"],
            source=entry["source"],
            name=entry["name"],
        )

    def empty_text(self) -> Tensor:  # [512, D]
        """The embedding of the empty prompt, which training without text needs."""
        return pad_text(read_empty_text(self.folder))

    @property
    def encoder_digests(self) -> dict[str, Any]:
        """Digests of the VAE and the text encoder that made the cache."""
        return {name: self.settings.get(name) for name in DIGESTS}

    def groups(self) -> dict[str, list[int]]:
        """Indices of the clips of each source, for a mixture (see sightline.data.order.Mixed)."""
        return group_by_name([entry["source"] for entry in self.entries])

    def _shard(self, number: int) -> tuple[Path, list[CachedClip]]:
        path = self.folder / f"shard-{number:05d}.safetensors"
        if number not in self._headers:
            self._headers[number] = read_header(path)["clips"]
        return path, self._headers[number]


def _read_clip(path: Path, prefix: str) -> dict[str, Tensor]:
    """The tensors of a clip, whose names begin with the prefix, once their shapes and numbers are known to be sound."""
    with open_tensors(path, _EXPECTED) as shard:
        names = [name for name in shard.keys() if name.startswith(prefix)]  # noqa: SIM118
        tensors: dict[str, Tensor] = {name.removeprefix(prefix): shard.get_tensor(name) for name in names}
    for name, dimensions in _DIMENSIONS.items():
        if name not in tensors:
            raise SightlineError(f"{path} has no {prefix}{name}: expected {_EXPECTED}.")
        if tensors[name].ndim != dimensions:
            raise SightlineError(f"{path}: {prefix}{name} has {tensors[name].ndim} dimensions, expected {dimensions}.")
    require_real(path, tensors.items())
    if len(tensors["text"]) > MAX_SEQUENCE_LENGTH:
        raise SightlineError(
            f"{path}: {prefix}text has {len(tensors['text'])} tokens, expected at most {MAX_SEQUENCE_LENGTH}."
        )
    if "condition" in tensors and tensors["condition"].shape[1:] != tensors["latents"].shape[1:]:
        raise SightlineError(f"{path}: {prefix}condition has another size than the latents, expected the same.")
    return tensors
