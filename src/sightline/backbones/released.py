"""Camera models that others have released: which files are theirs, and the pipelines that run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sightline.backbones.camera_weights import is_camera_weights
from sightline.backbones.dreamx import DreamX
from sightline.backbones.fun_camera import FunCamera
from sightline.backbones.hy_worldplay import HyWorldPlay, require_converted
from sightline.backbones.released_files import ReleasedWeights, expert_places, require_no_pickle
from sightline.backbones.released_model import ReleasedModel, open_experts
from sightline.backbones.stock import EXPERTS, SAFETENSORS, AnyPipeline
from sightline.documents import read_json
from sightline.errors import SightlineError

RELEASES: tuple[type[ReleasedModel], ...] = (FunCamera, DreamX, HyWorldPlay)


def read_released(camera: object) -> ReleasedModel | None:
    """The release in a file or folder, checked without its weights; None for camera weights of this package, and for encodings.

    Refuses pickles, incomplete files, and weights that do not fit the model they claim to be.
    """
    if not isinstance(camera, str | Path) or not Path(camera).exists():
        return None
    camera = Path(camera)
    if camera.is_file():
        require_no_pickle(camera)
        if camera.suffix != ".safetensors" or is_camera_weights(camera):
            return None
        return _release_class(camera).read(camera)
    if _is_wan_folder(camera) or _has_action(camera):
        return _release_class(camera).read(camera)
    require_converted(camera)
    return None


def load_released(release: ReleasedModel, model: str | Path, dtype: torch.dtype, options: dict[str, Any]) -> Any:
    """The pipeline of a release, with the other parts of a stock pipeline, whose own transformers are not read."""
    transformers = {name: release.load(name, dtype) for name in release.weights}
    return release.pipeline_class.from_pretrained(model, dtype=dtype, **transformers, **options, **SAFETENSORS)


def insert_released(pipe: AnyPipeline, release: ReleasedModel) -> Any:
    """The pipeline of a release, with the other parts of a pipeline that is loaded."""
    names = (*EXPERTS, "vae", "text_encoder")
    parts = {name: part.config for name in names if (part := getattr(pipe, name, None)) is not None}
    parts["text_encoder"] = parts["text_encoder"].to_dict()
    index = dict(pipe.config) | {"image_encoder": [getattr(pipe, "image_encoder", None)]}
    index["_class_name"] = type(pipe).__name__
    release.require_base(type(pipe).__name__, {"": index, **parts})
    transformers = {name: release.load(name, pipe.transformer.dtype) for name in release.weights}
    flags = {name: pipe.config[name] for name in ("boundary_ratio", "expand_timesteps")}
    return release.pipeline_class(**{**pipe.components, **transformers, **flags})


def _release_class(camera: Path) -> type[ReleasedModel]:
    """The release whose tensors these are."""
    names = set().union(*(weights.shapes for weights in open_experts(camera).values()))
    for release in RELEASES:
        if release.marker in names:
            return release
    known = " or ".join(f"{release.marker} ({release.family})" for release in RELEASES)
    raise SightlineError(f"camera {camera} holds no camera weights of a known release: expected {known}.")


def _is_wan_folder(folder: Path) -> bool:
    """Whether a folder is laid out as Wan's own code saves a transformer."""
    if expert_places(folder):
        return True
    if not (folder / "config.json").is_file():
        return False
    config = read_json(folder / "config.json", "that of a camera model")
    return "num_heads" in config and "encoding" not in config


def _has_action(folder: Path) -> bool:
    """Whether a folder holds HY-WorldPlay's tensors, which have diffusers' names, beside a configuration of diffusers'."""
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors*")):
        return False
    if "encoding" in read_json(folder / "config.json", "that of a camera model"):
        return False
    return HyWorldPlay.marker in ReleasedWeights.open(folder).shapes
