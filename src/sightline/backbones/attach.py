"""Adding a camera to the transformers of a pipeline, and finding out whether it fits before any weight is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.camera_weights import (
    is_camera_weights,
    load_camera,
    read_camera,
    require_same_backbone,
    save_camera,
)
from sightline.backbones.families import family_of
from sightline.backbones.hub_camera import local_camera
from sightline.backbones.models import add_camera, camera_class, saved_class
from sightline.backbones.plain_model import require_plain
from sightline.backbones.released import read_released
from sightline.backbones.stock import EXPERTS, AnyPipeline, experts
from sightline.documents import read_json
from sightline.encodings import Encoding
from sightline.errors import SightlineError


def attach_camera(pipe: AnyPipeline, camera: str | Path | Encoding) -> AnyPipeline:
    """Replace the pipeline's transformers by ones that take a camera (see load_pipeline). Changes `pipe` and returns it.

    A file of camera weights adds to the pipeline's own weights. A folder written by save_pretrained holds a complete
    fine-tuned transformer, which replaces the pipeline's.
    """
    family_of(pipe)  # refuses other pipelines
    _require_camera(camera)
    if not isinstance(camera, Encoding):
        camera = local_camera(Path(camera))
    if read_released(camera) is not None:
        raise SightlineError(
            f"camera {camera} is a released model with transformers of its own: expected load_pipeline(model, camera=...)."
        )
    models = {}
    for component, base in experts(pipe).items():
        if isinstance(camera, Encoding):
            require_plain(getattr(pipe, component))
            model = add_camera(base, camera, component=component, copy=False)
        else:
            path = _expert_path(Path(camera), component, two=len(experts(pipe)) > 1)
            if not _keeps_transformer(base, path):
                require_plain(getattr(pipe, component))
            model = _load_expert(base, path, component)
        if model is not base:  # which may be inside what torch.compile has put in the pipeline
            models[component] = model
    pipe.register_modules(**models)  # after the loop: both experts change or neither
    return pipe


def _keeps_transformer(base: Any, path: Path) -> bool:
    """Whether a file's weights are written into a transformer that takes a camera already, whatever is turned on. Weights that
    offloading has moved away would be lost there."""
    takes_camera = isinstance(base, CameraTransformer) and not any(one.is_meta for one in base.camera_parameters())
    return takes_camera and path.is_file()


def save_pipeline_camera(pipe: AnyPipeline, folder: str | Path) -> None:
    """Write the camera weights of each expert into a folder that `load_pipeline(camera=folder)` reads."""
    family_of(pipe)  # refuses other pipelines
    for component, model in experts(pipe).items():
        save_camera(model, Path(folder) / f"{component}.safetensors", component)


def empty_transformers(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The transformers of these configurations on the meta device, by component. Other components are left out."""
    with torch.device("meta"):
        return {
            name: saved_class(configs[name]).from_config(dict(configs[name]))  # type: ignore[attr-defined]
            for name in EXPERTS
            if name in configs
        }


def require_fitting_camera(transformers: Mapping[str, Any], camera: Path | Encoding) -> None:
    """Refuse a camera that attach_camera would refuse. transformers: by component; they may be on the meta device."""
    _require_camera(camera)
    for component, base in transformers.items():
        if isinstance(camera, Encoding):
            kind = camera_class(base)
            kind.require_stock_base(base)
            with torch.device("meta"):
                kind.from_config({**base.config, "encoding": camera.to_config(), "component": component})
            continue
        path = _expert_path(camera, component, two=len(transformers) > 1)
        if path.is_file():
            _require_camera_weights(path)
            read_camera(base, path, component)
        else:
            _require_camera_config(path, component, base)


def _require_camera(camera: object) -> None:
    if not isinstance(camera, str | os.PathLike | Encoding):
        raise SightlineError(f"camera is {camera!r}: expected a path, or an encoding such as Scope().")


def _expert_path(camera: Path, component: str, two: bool) -> Path:
    """The file or folder that holds one expert's weights."""
    if not camera.exists():
        raise SightlineError(f"camera {camera} does not exist: expected camera weights, a file or a folder.")
    inside = [camera / component, camera / f"{component}.safetensors"]
    if camera.is_dir():
        for candidate in inside:
            if candidate.exists():
                return candidate
    if two:
        raise SightlineError(
            f"camera {camera} holds no weights for {component!r}: expected a folder with {component} or "
            f"{component}.safetensors, since this model has two experts."
        )
    return camera


def _load_expert(base: Any, path: Path, component: str) -> CameraTransformer:
    if path.is_file():
        _require_camera_weights(path)
        return load_camera(base, path, component, copy=False)
    _require_camera_config(path, component, base)
    model: CameraTransformer = camera_class(base).from_pretrained(path, dtype=base.dtype)
    return model.to(base.device)


def _require_camera_weights(path: Path) -> None:
    if not is_camera_weights(path):
        raise SightlineError(f"camera {path} holds no camera weights: expected a file written by save_camera.")


def _require_camera_config(folder: Path, component: str, base: Any) -> None:
    """Refuse a folder of save_pretrained by its configuration alone."""
    config = read_json(folder / "config.json", "that of a saved camera model")
    if "encoding" not in config:
        raise SightlineError(
            f"camera {folder} is a {config.get('_class_name')} without a camera: expected one with an encoding."
        )
    if config.get("component") not in (None, component):
        raise SightlineError(f"camera {folder} was trained for {config['component']!r}: expected {component!r}.")
    require_same_backbone(folder, config, base)
