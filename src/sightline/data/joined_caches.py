"""Several caches as one list of clips, or some of their sources only, so that a mixture of data needs no new encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from sightline.data.cached import CachedClips, IndexEntry
from sightline.data.clip_spec import ClipSpec
from sightline.data.latents import LatentClip
from sightline.errors import SightlineError


class JoinedCaches:
    """The clips of some caches, by index, in the order of the caches.

    subset: names of the sources that are used; empty means all of them.
    The caches must have been encoded by the same VAE and text encoder, a source must have one eta in all of them, and no clip
    may occur twice.
    entries: source, name and scene of each clip.
    """

    def __init__(self, folders: Sequence[str | Path], subset: Sequence[str] = ()) -> None:
        self.caches = [CachedClips(folder) for folder in folders]
        if not self.caches:
            raise SightlineError("no cache is given: expected at least one folder.")
        first = self.caches[0]
        for cache in self.caches[1:]:
            _require_same_encoder(first, cache)
        _require_same_eta(self.caches)
        self.entries: list[IndexEntry] = []
        self._places: list[tuple[CachedClips, int]] = []
        found: dict[tuple[str, str], Path] = {}
        for cache in self.caches:
            for index, entry in enumerate(cache.entries):
                if subset and entry["source"] not in subset:
                    continue
                clip = entry["source"], entry["name"]
                if clip in found:
                    raise SightlineError(
                        f"{cache.folder} holds {clip[0]}/{clip[1]}, which {found[clip]} holds too: expected different clips."
                    )
                found[clip] = cache.folder
                self.entries.append(entry)
                self._places.append((cache, index))
        sources = sorted({entry["source"] for cache in self.caches for entry in cache.entries})
        for name in subset:
            if name not in sources:
                raise SightlineError(f"subset names {name!r}: expected sources of the caches, {', '.join(sources)}.")

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> LatentClip:
        cache, place = self._places[index]
        return cache[place]

    def name_of(self, index: int) -> tuple[str, str]:
        """The source and the name of one clip, without reading it."""
        return self.entries[index]["source"], self.entries[index]["name"]

    def empty_text(self) -> Tensor:  # [512, D]
        """The embedding of the empty prompt, by the text encoder of the caches."""
        return self.caches[0].empty_text()

    def require_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse caches of other clips than these settings ask for. Only the names of a ClipSpec's fields are compared."""
        names = [field.name for field in fields(ClipSpec) if field.name in settings]
        for cache in self.caches:
            for name in names:
                if cache.settings.get(name) != settings[name]:
                    raise SightlineError(
                        f"{cache.folder} was made with {name} {cache.settings.get(name)}, and data.{name} is "
                        f"{settings[name]}: expected the same."
                    )


def _require_same_encoder(first: CachedClips, other: CachedClips) -> None:
    for name in first.encoder_digests | other.encoder_digests:
        if first.encoder_digests.get(name) != other.encoder_digests.get(name):
            raise SightlineError(
                f"{first.folder} and {other.folder} differ in the {name}: expected caches that one model has encoded."
            )


def _require_same_eta(caches: Sequence[CachedClips]) -> None:
    """Refuse one source in two units."""
    found: dict[Any, tuple[Any, Path]] = {}
    for cache in caches:
        sources = cache.settings.get("sources")
        for source in sources if isinstance(sources, list) else ():
            if not isinstance(source, dict):
                continue
            eta, folder = found.setdefault(source.get("name"), (source.get("eta"), cache.folder))
            if source.get("eta") != eta:
                raise SightlineError(
                    f"{folder} and {cache.folder} have eta {eta} and {source.get('eta')} for {source.get('name')}: expected one "
                    "unit of positions for each source."
                )
