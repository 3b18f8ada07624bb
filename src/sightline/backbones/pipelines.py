"""Loading stock pipelines, and adding a camera to their transformers."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers import DiffusionPipeline, WanTransformer3DModel

from sightline.backbones import shipped
from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.camera_weights import is_camera_weights, load_camera, require_same_backbone, save_camera
from sightline.backbones.families import SANA_WM, Family, family_of, require_family
from sightline.backbones.hub_camera import local_camera
from sightline.backbones.model_info import read_configs
from sightline.backbones.models import add_camera, camera_class, saved_class
from sightline.backbones.packed_weights import load_component, packed_files
from sightline.backbones.released import insert_released, load_released, read_released
from sightline.backbones.sana_wm import load_sana_wm
from sightline.backbones.stock import EXPERTS, SAFETENSORS, AnyPipeline, WanImageToVideoPipeline, model_errors
from sightline.backbones.tiny import tiny_by_name
from sightline.devices import as_device, as_dtype
from sightline.documents import read_json
from sightline.encodings import Encoding
from sightline.errors import SightlineError

# diffusers accepts any other name and ignores it.
HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "token")
_COMPONENTS = ("vae", *EXPERTS, "text_encoder", "tokenizer", "scheduler")
_OPTIONS = (
    *HUB_OPTIONS,
    "variant",
    "disable_mmap",
    "low_cpu_mem_usage",
    "device_map",
    "max_memory",
    "offload_folder",
    "offload_state_dict",
    "quantization_config",
    *_COMPONENTS,
)


def load_pipeline(
    model: str | Path | None = None,
    camera: str | Path | Encoding | None = None,
    *,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    **options: Any,
) -> AnyPipeline:
    """Load a stock diffusers pipeline, with a camera in its transformers, or SANA-WM, which has a camera of its own.
    docs/backbones.md and docs/released.md list the models.

    model: a hub id such as "Wan-AI/Wan2.2-TI2V-5B-Diffusers", or a folder in the same layout. "lab" is the small model that
        ships with this package; None is the lab model with its shipped camera weights. "tiny:ti2v-5b",
        "tiny:ltx-2" and others (tiny.py) are untrained, for tests.
    camera: camera weights: a file written by `save_camera`, a folder written by `save_pretrained`, or, for a model with two
        experts, a folder that holds transformer and transformer_2 of either kind. Also the folder of a released camera model
        (docs/released.md), which brings transformers of its own; and the hub id of one of these. An encoding such as `Scope()`
        is added untrained, which does not change the output. None keeps the transformers as they were saved.
    dtype: of the transformers and the text encoder, by default bfloat16 on a GPU and float32 elsewhere. Wan's VAE is float32.
    options: of diffusers' from_pretrained: components such as vae, and where and how files are read, such as revision.
        Weights are only read from safetensors.
    """
    if isinstance(camera, str | Path):
        camera = local_camera(camera)
    if model is None:
        camera = shipped.camera() if camera is None else camera
        model = "lab"
    device = as_device(device)
    dtype = as_dtype(dtype, device)
    tiny = tiny_by_name(model)
    _require_options(options, {} if tiny is not None else _OPTIONS)
    model = shipped.resolve(model)
    hub_options = {name: options[name] for name in HUB_OPTIONS if name in options}
    with model_errors(model):
        if tiny is None and _family(model, hub_options) is SANA_WM:
            _require_options(options, HUB_OPTIONS)
            return load_sana_wm(model, camera, dtype, hub_options).to(device)
    if (release := read_released(camera)) is not None:
        if tiny is not None:
            return insert_released(tiny.to(dtype), release).to(device)
        with model_errors(model):
            release.require_base(model, read_configs(str(model)))  # before anything large is read
            if "vae" not in options:
                options["vae"] = load_vae(model, hub_options)
            return load_released(release, model, dtype, options).to(device)
    with model_errors(model):
        packed = {} if tiny else _packed_parts(Path(model), dtype)
        options = packed | options
        if "vae" not in options and tiny is None and _family(model, hub_options).float32_vae:
            options["vae"] = load_vae(model, hub_options)
        # DiffusionPipeline finds the class, but takes no transformer; only image-to-video pipelines are packed.
        pipeline_class = WanImageToVideoPipeline if packed else DiffusionPipeline
        pipe = tiny or pipeline_class.from_pretrained(model, dtype=dtype, **options, **SAFETENSORS)
    require_pipeline(pipe)
    if camera is not None:
        attach_camera(pipe, camera)
    return pipe.to(device)


def load_vae(model: str | Path, hub_options: Mapping[str, Any] | None = None) -> Any:
    """The VAE of a saved model in float32, which may be packed."""
    folder, hub_options = Path(model) / "vae", hub_options or {}
    vae_class: Any = getattr(diffusers, _family(model, hub_options).vae)
    if packed_files(folder):
        return load_component(vae_class, folder, torch.float32)
    return vae_class.from_pretrained(model, subfolder="vae", dtype=torch.float32, **SAFETENSORS, **hub_options)


def _family(model: str | Path, hub_options: Mapping[str, Any]) -> Family:
    """The family of a saved model."""
    return require_family(model, DiffusionPipeline.load_config(model, **hub_options).get("_class_name"))


def load_transformer(model: str | Path, component: str = "transformer", dtype: torch.dtype = torch.float32) -> Any:
    """One transformer of a model, without the rest of its pipeline, on the CPU. model: as for load_pipeline."""
    if (tiny := tiny_by_name(model)) is not None:
        require_component(model, component, experts(tiny))
        return getattr(tiny, component).to(dtype)
    model = shipped.resolve(model)
    with model_errors(model):
        transformer_class: Any = saved_class(transformer_config(model, component))
        if packed_files(Path(model) / component):
            return load_component(transformer_class, Path(model) / component, dtype)
        return transformer_class.from_pretrained(model, subfolder=component, dtype=dtype, **SAFETENSORS)


def is_packed(model: str | Path, component: str) -> bool:
    """Whether the weights of a component are packed, so that they are only read as a whole."""
    return bool(packed_files(Path(shipped.resolve(model)) / component))


def empty_transformer(model: str | Path, component: str) -> tuple[Any, Path]:
    """One transformer of a model without its weights, on the meta device, and the local folder that holds them."""
    model = shipped.resolve(model)
    with model_errors(model):
        config = transformer_config(model, component)
        with torch.device("meta"):
            empty: Any = saved_class(config).from_config(config)  # type: ignore[attr-defined]
        camera_class(empty).compute_buffers(empty)
        folder = Path(model) if Path(model).is_dir() else Path(_download(str(model), component))
    return empty, folder / component


def pipeline_config(model: str | Path) -> Mapping[str, Any]:
    """The configuration of a model's pipeline: its components, and flags such as boundary_ratio. model: as for load_pipeline."""
    if (tiny := tiny_by_name(model)) is not None:
        return tiny.config
    model = shipped.resolve(model)
    with model_errors(model):
        return DiffusionPipeline.load_config(model)


def family_of_model(model: str | Path) -> Family:
    """The family of a model, before it is loaded. model: as for load_pipeline."""
    if (tiny := tiny_by_name(model)) is not None:
        return family_of(tiny)
    return require_family(model, pipeline_config(model).get("_class_name"))


def saved_components(model: str | Path) -> dict[str, Any]:
    """The components that a saved pipeline has, as its model_index.json lists them."""
    index = pipeline_config(model)
    return {name: value for name, value in index.items() if isinstance(value, list) and value[0] is not None}


def require_component(model: str | Path, component: str, components: Collection[str]) -> None:
    """Refuse a component that the model does not have."""
    if component not in components:
        raise SightlineError(f"component is {component!r}: {model} has no such part.")


def transformer_config(model: str | Path, component: str) -> dict[str, Any]:
    """The configuration of one transformer of a model, without its weights. model: as for load_pipeline."""
    if (tiny := tiny_by_name(model)) is not None:
        require_component(model, component, experts(tiny))
        return dict(getattr(tiny, component).config)
    model = shipped.resolve(model)
    with model_errors(model):
        require_component(model, component, saved_components(model))
        config: dict[str, Any] = WanTransformer3DModel.load_config(model, subfolder=component)  # of any class
    return config


def _download(model: str, component: str) -> str:
    from huggingface_hub import snapshot_download

    return snapshot_download(model, allow_patterns=f"{component}/*")


def _require_options(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse options that diffusers would ignore with a warning."""
    for name in options:
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "none for an untrained miniature"
            raise SightlineError(f"{name} is no option of load_pipeline: expected {expected}.")


def attach_camera(pipe: AnyPipeline, camera: str | Path | Encoding) -> AnyPipeline:
    """Replace the pipeline's transformers by ones that take a camera (see load_pipeline). Changes `pipe` and returns it.

    A file of camera weights adds to the pipeline's own weights. A folder written by save_pretrained holds a complete
    fine-tuned transformer, which replaces the pipeline's.
    """
    require_pipeline(pipe)
    if not isinstance(camera, str | os.PathLike | Encoding):
        raise SightlineError(f"camera is {camera!r}: expected a path, or an encoding such as Scope().")
    if not isinstance(camera, Encoding):
        camera = local_camera(Path(camera))
    if read_released(camera) is not None:
        raise SightlineError(
            f"camera {camera} is a released model with transformers of its own: expected load_pipeline(model, camera=...)."
        )
    models = {}
    for component, base in experts(pipe).items():
        if isinstance(camera, Encoding):
            models[component] = add_camera(base, camera, component=component, copy=False)
        else:
            path = _expert_path(Path(camera), component, two=len(experts(pipe)) > 1)
            models[component] = _load_expert(base, path, component)
    pipe.register_modules(**models)  # after the loop: both experts change or neither
    return pipe


def save_pipeline_camera(pipe: AnyPipeline, folder: str | Path) -> None:
    """Write the camera weights of each expert into a folder that `load_pipeline(camera=folder)` reads."""
    for component, model in experts(pipe).items():
        save_camera(model, Path(folder) / f"{component}.safetensors", component)


def experts(pipe: AnyPipeline) -> dict[str, Any]:
    """The transformers of a pipeline by the name of their component."""
    return {name: model for name in EXPERTS if (model := getattr(pipe, name, None)) is not None}


def require_pipeline(pipe: Any) -> None:
    """Refuse what is no pipeline of a known family."""
    family_of(pipe)


def _packed_parts(folder: Path, dtype: torch.dtype) -> dict[str, Any]:
    """The components of a pipeline's folder whose weights are packed, which diffusers does not read."""
    parts = {
        name: load_component(WanTransformer3DModel, folder / name, dtype)
        for name in EXPERTS
        if packed_files(folder / name)
    }
    if packed_files(folder / "vae"):
        parts["vae"] = load_vae(folder)
    return parts


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
        if not is_camera_weights(path):
            raise SightlineError(f"camera {path} holds no camera weights: expected a file written by save_camera.")
        return load_camera(base, path, component, copy=False)
    _require_camera_config(path)
    model: CameraTransformer = camera_class(base).from_pretrained(path, dtype=base.dtype)
    if model.config.component not in (None, component):
        raise SightlineError(f"camera {path} was trained for {model.config.component!r}: expected {component!r}.")
    require_same_backbone(path, model.config, base)
    return model.to(base.device)


def _require_camera_config(folder: Path) -> None:
    config = read_json(folder / "config.json", "that of a saved camera model")
    if "encoding" not in config:
        raise SightlineError(
            f"camera {folder} is a {config.get('_class_name')} without a camera: expected one with an encoding."
        )
