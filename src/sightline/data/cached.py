"""CachedClips: a finished cache as a dataset. Reads one clip at a time, from any number of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import safe_open

from sightline.cameras.trajectory import Trajectory
from sightline.data.cache import read_header
from sightline.data.encode import padded_text
from sightline.data.latents import LatentClip
from sightline.data.order import grouped
from sightline.errors import SightlineError
from sightline.files import read_json


class CachedClips:
    """The clips of a cache, by index."""

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
        where = self.entries[index]
        shard, headers = self._shard(where["shard"])
        entry, key = headers[where["place"]], f"{where['place']:05d}"
        names = {name.partition(".")[2] for name in shard.keys() if name.startswith(f"{key}.")}  # noqa: SIM118
        tensors = {name: shard.get_tensor(f"{key}.{name}") for name in names}
        return LatentClip(
            latents=tensors["latents"],
            text=padded_text(tensors["text"]),
            condition=tensors.get("condition"),
            trajectory=Trajectory(tensors["camera_to_world"], tensors["intrinsics"], **entry["camera"]),
            caption=entry["caption"],
            source=entry["source"],
            name=entry["name"],
        )

    def groups(self) -> dict[str, list[int]]:
        """Indices of the clips of each source, for a mixture (see sightline.data.order.Mixed)."""
        return grouped([entry["source"] for entry in self.entries])

    def _shard(self, number: int) -> tuple[Any, list[dict[str, Any]]]:
        if number not in self._open:
            path = self.folder / f"shard-{number:05d}.safetensors"
            entries = read_header(path)["clips"]  # says so where the file is missing or damaged
            self._open[number] = (safe_open(path, framework="pt"), entries)
        return self._open[number]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}  # open files do not travel to worker processes
