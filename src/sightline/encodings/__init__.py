"""HOW a camera enters attention: one short file per method, all on the same protocol. Knows nothing of Wan."""

from __future__ import annotations

from typing import Any

from sightline.encodings.cameractrl import CameraCtrl
from sightline.encodings.freqsplit import FreqSplit
from sightline.encodings.prope import Gta, Prope
from sightline.encodings.protocol import Encoding, EncodingLayer
from sightline.encodings.recammaster import ReCamMaster
from sightline.encodings.rerope import ReRope
from sightline.encodings.scope import Scope
from sightline.encodings.ucpe import Ucpe
from sightline.errors import SightlineError

ENCODINGS: dict[str, type[Encoding]] = {
    encoding.name: encoding for encoding in (Scope, CameraCtrl, ReCamMaster, Prope, Gta, Ucpe, ReRope, FreqSplit)
}


def encoding_from_config(config: dict[str, Any]) -> Encoding:
    """The encoding that a config names, e.g. {"name": "scope", "gate_hidden": 16}; omitted settings take their default."""
    if not isinstance(config, dict):
        raise SightlineError(f"encoding is {config!r}: expected settings such as {{'name': 'scope'}}.")
    name = config.get("name")
    if not isinstance(name, str) or name not in ENCODINGS:
        raise SightlineError(f"encoding name is {name!r}: expected one of {sorted(ENCODINGS)}.")
    return ENCODINGS[name].from_config(config)


__all__ = [
    "ENCODINGS",
    "CameraCtrl",
    "Encoding",
    "EncodingLayer",
    "FreqSplit",
    "Gta",
    "Prope",
    "ReCamMaster",
    "ReRope",
    "Scope",
    "Ucpe",
    "encoding_from_config",
]
