"""The transformers that take a camera, one class for each of diffusers', and how one is found and made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.ltx2 import CameraLTX2VideoTransformer3DModel
from sightline.backbones.wan import (
    CameraSkyReelsV2Transformer3DModel,
    CameraWanTransformer3DModel,
    CameraWanVACETransformer3DModel,
)
from sightline.checks import shown
from sightline.encodings import Encoding
from sightline.errors import SightlineError

CAMERA_TRANSFORMERS: tuple[type[CameraTransformer], ...] = (
    CameraWanTransformer3DModel,
    CameraWanVACETransformer3DModel,
    CameraSkyReelsV2Transformer3DModel,
    CameraLTX2VideoTransformer3DModel,
)
_NAMES = ", ".join(kind.base.__name__ for kind in CAMERA_TRANSFORMERS)


def camera_class(transformer: Any) -> type[CameraTransformer]:
    """The class that adds a camera to this transformer, or that it already has; other models are refused."""
    for kind in CAMERA_TRANSFORMERS:
        if isinstance(transformer, kind.base):
            return kind
    raise SightlineError(f"model is a {type(transformer).__name__}: expected one of {_NAMES}.")


def blocks_of(transformer: Any) -> Any:
    """The blocks of a transformer, with or without a camera, in order."""
    return getattr(transformer, camera_class(transformer).blocks_name)


def camera_class_of(base: type) -> type[CameraTransformer]:
    """The class that adds a camera to transformers of this class of diffusers."""
    return next(kind for kind in CAMERA_TRANSFORMERS if kind.base is base)


def saved_class(config: Mapping[str, Any]) -> type:
    """The class of a saved transformer, with or without a camera, by its configuration."""
    name = config.get("_class_name")
    for kind in CAMERA_TRANSFORMERS:
        if name in (kind.__name__, kind.base.__name__):
            return kind if "encoding" in config else kind.base
    raise SightlineError(f"the transformer is a {shown(name)}: expected one of {_NAMES}.")


def add_camera(base: Any, encoding: Encoding, *, component: str | None = None, copy: bool = True) -> CameraTransformer:
    """Add a camera encoding to a pretrained transformer of any known backbone; the output does not change until it is trained.

    See CameraTransformer.from_transformer for `component` and `copy`.
    """
    model: CameraTransformer = camera_class(base).from_transformer(base, encoding, component=component, copy=copy)
    return model
