"""Sources by name, and the text that describes one: KIND:PLACE?option=value&option=value."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from typing import Any

from sightline.data.sources._source import Source
from sightline.data.sources.dl3dv import DL3DV
from sightline.data.sources.folder import VideoFolder
from sightline.data.sources.omniworld import OmniWorld
from sightline.data.sources.panshot import PanShot
from sightline.data.sources.re10k import RealEstate10K
from sightline.data.sources.worlds import Worlds
from sightline.errors import SightlineError
from sightline.parsing import parse_query, parse_value

__all__ = [
    "DL3DV",
    "SOURCES",
    "OmniWorld",
    "PanShot",
    "RealEstate10K",
    "Source",
    "VideoFolder",
    "Worlds",
    "open_source",
    "open_sources",
]

SOURCES: dict[str, type[Source]] = {
    source.kind: source for source in (RealEstate10K, DL3DV, PanShot, OmniWorld, VideoFolder, Worlds)
}


def open_source(text: str) -> Source:
    """The source that a text describes, such as `re10k:/data/re10k` or `dl3dv:/data/dl3dv?images=images_8`."""
    kind, colon, rest = text.partition(":")
    place, texts = parse_query("the source", rest)
    if kind not in SOURCES or not colon or not place:
        raise SightlineError(f"source is {text!r}: expected KIND:PLACE with KIND one of {', '.join(SOURCES)}.")
    types = typing.get_type_hints(SOURCES[kind].__init__)
    parameters = inspect.signature(SOURCES[kind]).parameters.values()
    accepted = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    options: dict[str, Any] = {}
    for name, value in texts.items():
        if name not in accepted:
            raise SightlineError(f"{name} is no option of {kind}: expected one of {', '.join(accepted)}.")
        options[name] = parse_value(f"{name} of {kind}", value, types[name])
    return SOURCES[kind](place, **options)


def open_sources(texts: Sequence[str]) -> list[Source]:
    """Several sources with different names."""
    sources = [open_source(text) for text in texts]
    if not sources:
        raise SightlineError("no source is given: expected at least one, such as re10k:/data/re10k.")
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise SightlineError(f"two sources are named {name!r}: expected different names (add ?name=...).")
    return sources
