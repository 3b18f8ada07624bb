"""SANA-WM, as diffusers' SanaWMPipeline runs it: loading, and a trajectory as the pipeline takes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLLTX2Video, DiffusionPipeline, SanaWMTransformer3DModel

from sightline.backbones.families import SANA_WM, require_no_camera
from sightline.backbones.released_files import ReleasedWeights, require_same_tensors
from sightline.backbones.stock import SAFETENSORS, STOCK_PIPELINES, AnyPipeline
from sightline.cameras.trajectory import Trajectory

_FAMILY = "SANA-WM"
_CHECKED: dict[str, Any] = {"transformer": SanaWMTransformer3DModel, "vae": AutoencoderKLLTX2Video}


def load_sana_wm(model: str | Path, camera: object, dtype: torch.dtype, hub_options: Mapping[str, Any]) -> AnyPipeline:
    """The pipeline of a folder or hub id, on the CPU. All of it is in `dtype`, the VAE too, as its authors run it.

    Names and shapes of the transformer's and of the VAE's tensors are checked first: diffusers would leave a missing one random.
    """
    require_no_camera(model, camera, SANA_WM)
    folder = Path(model)
    if not folder.is_dir():
        folder = Path(DiffusionPipeline.download(str(model), **SAFETENSORS, **hub_options))
    for component, model_class in _CHECKED.items():
        _require_complete(folder / component, model_class)
    return STOCK_PIPELINES[SANA_WM.image_pipeline].from_pretrained(folder, dtype=dtype, **SAFETENSORS)


def camera_arguments(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """c2w [T, 4, 4] and intrinsics [T, 4] of a picture of the trajectory's size, as SanaWMPipeline takes them.

    Both count pixels from the picture's corner, where a centred lens has cx = width / 2, so nothing is shifted. The pipeline
    takes the ray of a latent cell at the cell's corner instead of its middle; its weights were trained with that.
    """
    lens = trajectory.intrinsics
    intrinsics = torch.stack([lens[:, 0, 0], lens[:, 1, 1], lens[:, 0, 2], lens[:, 1, 2]], dim=-1)
    return {
        "c2w": trajectory.anchored().camera_to_world.float().numpy(),
        "intrinsics": intrinsics.float().numpy(),
    }


def _require_complete(folder: Path, model_class: Any) -> None:
    """Refuse weights that are missing, unknown or of another shape. Reads no weights."""
    weights = ReleasedWeights.open(folder)
    with torch.device("meta"):
        empty = model_class.from_config(model_class.load_config(folder))
    expected = {name: tuple(tensor.shape) for name, tensor in empty.state_dict().items()}
    found = {name: (name, shape) for name, shape in weights.shapes.items()}
    require_same_tensors(folder, found, expected, _FAMILY)
