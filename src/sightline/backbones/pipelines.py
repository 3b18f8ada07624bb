"""Loading stock pipelines, and adding a camera to their transformers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers import DiffusionPipeline, WanTransformer3DModel

from sightline.backbones import shipped
from sightline.backbones.attach import attach_camera, empty_transformers, require_fitting_camera
from sightline.backbones.config_files import read_configs
from sightline.backbones.families import SANA_WM, Family, family_of, require_family
from sightline.backbones.hub_camera import local_camera
from sightline.backbones.models import camera_class, saved_class
from sightline.backbones.packed_weights import load_component, packed_files
from sightline.backbones.released import insert_released, load_released, read_released
from sightline.backbones.sana_wm import load_sana_wm
from sightline.backbones.stock import EXPERTS, SAFETENSORS, AnyPipeline, WanImageToVideoPipeline, experts, model_errors
from sightline.backbones.tiny import tiny_by_name
from sightline.devices import as_device, as_dtype
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
        if camera is not None and tiny is None:
            given = {name: options[name] for name in EXPERTS if options.get(name) is not None}
            # Before anything large is read.
            require_fitting_camera(empty_transformers(_transformer_configs(model, hub_options)) | given, camera)
        packed = {} if tiny else _packed_parts(Path(model), dtype)
        options = packed | options
        if "vae" not in options and tiny is None and _family(model, hub_options).float32_vae:
            options["vae"] = load_vae(model, hub_options)
        # DiffusionPipeline finds the class, but takes no transformer; only image-to-video pipelines are packed.
        pipeline_class = WanImageToVideoPipeline if packed else DiffusionPipeline
        pipe = tiny or pipeline_class.from_pretrained(model, dtype=dtype, **options, **SAFETENSORS)
    family_of(pipe)  # refuses other pipelines
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


def _transformer_configs(model: str | Path, hub_options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The configurations of a saved model's transformers, by component."""
    index = DiffusionPipeline.load_config(model, **hub_options)
    return {
        name: WanTransformer3DModel.load_config(model, subfolder=name, **hub_options)  # of any class
        for name in EXPERTS
        if index.get(name, [None])[0] is not None
    }


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
            expected = f"one of dtype, device, {', '.join(known)}" if known else "none for an untrained miniature"
            raise SightlineError(f"{name} is no option of load_pipeline: expected {expected}.")


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
