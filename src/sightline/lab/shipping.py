"""Packing a trained lab model into the folder that ships, and unpacking it into a plain diffusers folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from diffusers import WanTransformer3DModel

from sightline.backbones.camera_weights import save_camera
from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.backbones.packed_weights import pack_component
from sightline.backbones.pipelines import load_pipeline
from sightline.backbones.stock import WanImageToVideoPipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.errors import SightlineError
from sightline.files import atomic_folder
from sightline.lab.models import save_pipeline

_PACKED = ("transformer", "vae")


def pack(pipeline: str | Path, output: Path, camera: Path | None = None) -> Path:
    """Write a pipeline with packed weights into OUTPUT/base, and its camera weights beside it; returns OUTPUT.

    camera: camera weights for the pipeline, which are copied; or the folder of a complete trained transformer, which is split
        into the base, in place of the pipeline's own transformer, and the encoding's own weights.
    """
    pipe: Any = load_pipeline(pipeline, camera, dtype=torch.float32, device="cpu")  # refuses weights that do not fit
    if not isinstance(pipe, WanImageToVideoPipeline):
        raise SightlineError(
            f"model {str(pipeline)!r} is a {type(pipe).__name__}: expected an image-to-video pipeline (sightline lab assemble)."
        )
    if not isinstance(pipe.transformer, CameraWanTransformer3DModel):
        camera_model = None
    elif camera is not None and camera.is_file():
        camera_model, pipe = None, load_pipeline(pipeline, dtype=torch.float32, device="cpu")
    else:
        camera_model = pipe.transformer
        pipe.register_modules(transformer=base_transformer(camera_model))
    pipe.text_encoder.to(torch.bfloat16)
    with atomic_folder(output, overwrite=True) as folder:
        save_pipeline(pipe, folder / "base")
        for part in _PACKED:
            pack_component(folder / "base" / part, getattr(pipe, part).state_dict())
        if camera_model is not None:
            save_camera(camera_model, folder / f"{camera_model.encoding.name}.safetensors")
        elif camera is not None:
            shutil.copyfile(camera, folder / camera.name)
    return output


def unpack(output: Path, pipeline: str | Path = "lab") -> Path:
    """Write a pipeline as a plain diffusers folder in bfloat16, without a camera, which stock diffusers loads; returns it."""
    pipe: Any = load_pipeline(pipeline, dtype=torch.bfloat16, device="cpu")
    if isinstance(pipe.transformer, CameraWanTransformer3DModel):
        raise SightlineError(f"model {str(pipeline)!r} carries a camera: expected a stock pipeline.")
    for part in _PACKED:
        getattr(pipe, part).to(torch.bfloat16)
    with atomic_folder(output) as folder:
        save_pipeline(pipe, folder)
    return output


def base_transformer(model: CameraWanTransformer3DModel) -> WanTransformer3DModel:
    """The stock transformer inside a camera model, which computes what the model computes without a camera."""
    own = {"encoding", "component"}
    config = {key: value for key, value in model.config.items() if key not in own and not key.startswith("_")}
    base = WanTransformer3DModel.from_config(config)
    base.load_state_dict({name: weight for name, weight in model.state_dict().items() if ENCODING_KEY not in name})
    return base
