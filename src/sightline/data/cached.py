"""Reading a finished cache, one clip at a time, from any number of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.data.cache import read_empty_text, read_header
from sightline.data.encode import DIGESTS, pad_text
from sightline.data.latents import LatentClip
from sightline.data.order import group_by_name
from sightline.errors import SightlineError
from sightline.files import read_json


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
        if not {"clips", "skips"} <= index.keys():
            raise SightlineError(
                f"{self.folder / 'index.json'}: found no clips and skips, expected the index of a cache."
            )
        self.entries: list[dict[str, Any]] = index["clips"]
        self.skips: list[dict[str, str]] = index["skips"]
        self._open: dict[int, tuple[Any, list[dict[str, Any]]]] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> LatentClip:
        location = self.entries[index]
        shard, headers = self._shard(location["shard"])
        entry, key = headers[location["position"]], f"{location['position']:05d}"
        names = {name.partition(".")[2] for name in shard.keys() if name.startswith(f"{key}.")}  # noqa: SIM118
        tensors = {name: shard.get_tensor(f"{key}.{name}") for name in names}
        return LatentClip(
            latents=tensors["latents"],
            text=pad_text(tensors["text"]),
            condition=tensors.get("condition"),
            trajectory=Trajectory(tensors["camera_to_world"], tensors["intrinsics"], **entry["camera"]),
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

    def _shard(self, number: int) -> tuple[Any, list[dict[str, Any]]]:
        if number not in self._open:
            path = self.folder / f"shard-{number:05d}.safetensors"
            entries = read_header(path)["clips"]  # raises where the file is missing or damaged
            self._open[number] = (safe_open(path, framework="pt"), entries)
        return self._open[number]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}  # open files cannot be sent to worker processes
