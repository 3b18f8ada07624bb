"""Export a checkpoint: the whole model in diffusers' layout, or its camera weights alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from sightline.backbones.camera_weights import save_camera
from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.errors import SightlineError
from sightline.files import atomic_folder
from sightline.training import checkpoint
from sightline.training.model import build_model, load_base
from sightline.training.recipe import Recipe
from sightline.training.trainable import choose_trainable


def export(
    run: Path,
    output: Path,
    which: str = "latest",
    ema: bool | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    shard_size: str = "5GB",
) -> Path:
    """Write a run's model: a folder for from_pretrained or, for an output named *.safetensors, the camera weights alone,
    with the LoRA weights of a run that trained LoRA.

    which: "latest" or a checkpoint's path. ema: export the moving average instead of the last weights; None does so where
    the run kept one. dtype: of the weights in a folder; the encoding's stay float32. shard_size: the largest file of a folder.
    """
    if not (run / "recipe.yaml").is_file():
        raise SightlineError(f"{run} is no run: expected the folder that sightline train wrote.")
    if output.exists() and output.suffix != ".safetensors":
        raise SightlineError(f"{output} exists already: expected a new folder.")
    recipe = Recipe.from_yaml(run / "recipe.yaml")
    model, trainable = load_trained(run, recipe, which, ema)
    if output.suffix == ".safetensors":
        _require_camera_alone(trainable, recipe, output)
        save_camera(model, output, recipe.model.component)
        return output
    if getattr(model, "peft_config", None):
        model.fuse_lora()
        model.unload_lora()
    for name, parameter in model.named_parameters():
        if ENCODING_KEY not in name:
            parameter.data = parameter.data.to(dtype)
    with atomic_folder(output) as folder:
        model.eval().save_pretrained(folder, max_shard_size=shard_size)
    return output


def load_trained(
    run: Path, recipe: Recipe, which: str = "latest", ema: bool | None = None
) -> tuple[Any, dict[str, nn.Parameter]]:
    """The model with the weights of a checkpoint, and those of its parameters that were trained."""
    path = checkpoint.find_checkpoint(run, which)
    if path is None:
        raise SightlineError(f"{run} has no checkpoint yet: expected a run that has written one.")
    base = load_base(recipe.model)
    model = build_model(base.transformer, recipe.model)
    trainable = choose_trainable(model, recipe.model)
    use_ema = checkpoint.has_ema(path) if ema is None else ema
    # The average is read after the weights, and over them.
    averages = {name: parameter.detach() for name, parameter in trainable.items()} if use_ema else None
    checkpoint.load_checkpoint(path, base.digest, trainable, None, averages)
    return model, trainable


def _require_camera_alone(trainable: dict[str, nn.Parameter], recipe: Recipe, output: Path) -> None:
    """Refuse camera weights of a run that also trained the backbone."""
    backbone = [name for name in trainable if ENCODING_KEY not in name and "lora_" not in name]
    if backbone:
        raise SightlineError(
            f"{output} would hold the camera alone, but model.trainable was {recipe.model.trainable!r} ({backbone[0]} and "
            "more): expected a folder as output."
        )
