"""HOW a camera enters attention: one short file per method, all on the same protocol. Knows nothing of Wan."""

from __future__ import annotations

from typing import Any

from sightline.encodings.protocol import CameraLayer, Encoding
from sightline.encodings.scope import Scope
from sightline.errors import SightlineError

ENCODINGS: dict[str, type[Encoding]] = {encoding.name: encoding for encoding in (Scope,)}


def encoding_from_config(config: dict[str, Any]) -> Encoding:
    """The encoding that a config names, e.g. {"name": "scope", "gate_hidden": 16}; omitted settings take their default."""
    name = config.get("name")
    if name not in ENCODINGS:
        raise SightlineError(f"encoding name is {name!r}: expected one of {sorted(ENCODINGS)}.")
    return ENCODINGS[name].from_config(config)


__all__ = ["ENCODINGS", "CameraLayer", "Encoding", "Scope", "encoding_from_config"]
