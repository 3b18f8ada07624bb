"""From a checkpoint to a model that anybody loads: the diffusers layout, or a camera file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sightline.backbones.camera_weights import save_camera
from sightline.backbones.wan import ENCODING_KEY
from sightline.backbones.weights_digest import weights_digest
from sightline.errors import SightlineError
from sightline.files import atomic_folder
from sightline.training import checkpoint
from sightline.training.recipe import Recipe
from sightline.training.setup import build_model, load_base
from sightline.training.trainable import choose_trainable


def export(
    run: Path,
    output: Path,
    which: str = "latest",
    averaged: bool | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    shard_size: str = "5GB",
) -> Path:
    """Write a run's model: a folder for from_pretrained, or, for an output named *.safetensors, the camera alone, with
    the LoRA weights of a run that trained such.

    averaged: the moving average rather than the last weights; None takes it where there is one.
    dtype: of a folder's weights; the camera's stay float32. shard_size: of a folder's files at most.
    """
    if not (run / "recipe.yaml").is_file():
        raise SightlineError(f"{run} is no run: expected the folder that sightline train wrote.")
    if output.exists() and output.suffix != ".safetensors":
        raise SightlineError(f"{output} exists already: expected a new folder.")
    recipe = Recipe.from_yaml(run / "recipe.yaml")
    found = checkpoint.find_checkpoint(run, which)
    if found is None:
        raise SightlineError(f"{run} has no checkpoint yet: expected a run that has written one.")
    pipe = load_base(recipe.model)
    base = weights_digest(getattr(pipe, recipe.model.component))
    model: Any = build_model(pipe, recipe.model)
    trainable = choose_trainable(model, recipe.model)
    has_average = checkpoint.has_ema(found)
    if averaged and not has_average:
        raise SightlineError(f"{found} holds no moving average: expected a run with optimizer.ema_decay.")
    average = (
        {name: torch.empty_like(p) for name, p in trainable.items()} if has_average and averaged is not False else None
    )
    checkpoint.load_checkpoint(found, base, trainable, None, average)
    if average is not None:
        with torch.no_grad():
            for name, tensor in average.items():
                trainable[name].copy_(tensor)
    if output.suffix == ".safetensors":
        beyond = [name for name in trainable if ENCODING_KEY not in name and "lora_" not in name]
        if beyond:
            raise SightlineError(
                f"{output} would hold the camera alone, but model.trainable was {recipe.model.trainable!r} ({beyond[0]} and "
                "more): expected a folder as output."
            )
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
