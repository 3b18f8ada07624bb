"""How a camera enters attention: one short file per encoding, all with the same two base classes. Independent of Wan.

`register` adds an encoding that is defined outside the package; registry.py describes how.
"""

from __future__ import annotations

from sightline.cameras.tokens import has_camera
from sightline.encodings.cameractrl import CameraCtrl
from sightline.encodings.freqsplit import FreqSplit
from sightline.encodings.prope import Gta, Prope
from sightline.encodings.protocol import Attend, AttentionState, Encoding, EncodingLayer, linear
from sightline.encodings.recammaster import ReCamMaster
from sightline.encodings.registry import encoding_from_config, encoding_names, get_encoding, register
from sightline.encodings.rerope import ReRope
from sightline.encodings.scope import Scope
from sightline.encodings.sweep import Sweep
from sightline.encodings.ucpe import Ucpe

ENCODINGS: dict[str, type[Encoding]] = {
    encoding.name: register(encoding)
    for encoding in (Scope, Sweep, CameraCtrl, ReCamMaster, Prope, Gta, Ucpe, ReRope, FreqSplit)
}  # those of the package; `get_encoding` also knows those registered from outside

__all__ = [
    "ENCODINGS",
    "Attend",
    "AttentionState",
    "CameraCtrl",
    "Encoding",
    "EncodingLayer",
    "FreqSplit",
    "Gta",
    "Prope",
    "ReCamMaster",
    "ReRope",
    "Scope",
    "Sweep",
    "Ucpe",
    "encoding_from_config",
    "encoding_names",
    "get_encoding",
    "has_camera",
    "linear",
    "register",
]
