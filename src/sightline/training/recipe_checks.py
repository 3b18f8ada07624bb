"""Checks of a recipe's values, alone and together. What fails is refused in one sentence that names the setting."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from sightline.checks import check_seed, number, whole_number
from sightline.errors import SightlineError
from sightline.settings import flatten

if TYPE_CHECKING:
    from sightline.training.recipe import DataConfig, ObjectiveConfig, OptimizerConfig, Recipe

_AT_LEAST_1 = {
    "optimizer": ("max_steps", "batch_size", "micro_batch_size"),
    "data": ("num_frames", "width", "height", "stride", "max_sequence_length"),
    "model": ("lora_rank",),
    "validation": ("every_steps", "num_clips", "num_inference_steps"),
}


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe that cannot be trained."""
    for section, names in _AT_LEAST_1.items():
        for name in names:
            whole_number(f"{section}.{name}", getattr(getattr(recipe, section), name))
    whole_number("checkpointing_steps", recipe.checkpointing_steps)
    whole_number("checkpoints_total_limit", recipe.checkpoints_total_limit)
    for name, value in flatten(dataclasses.asdict(recipe)).items():
        if isinstance(value, float):
            number(name, value)
    check_seed(recipe.seed)
    number("validation.num_videos", recipe.validation.num_videos, at_least=0.0)
    number("validation.guidance_scale", recipe.validation.guidance_scale, at_least=0.0)
    _check_optimizer(recipe.optimizer)
    _check_objective(recipe.objective)
    if not recipe.output.strip():
        raise SightlineError("output is empty: expected a folder for the run.")
    _check_data(recipe.data)
    _check_together(recipe)


def _check_optimizer(optimizer: OptimizerConfig) -> None:
    if optimizer.max_seconds is not None:
        number("optimizer.max_seconds", optimizer.max_seconds, above=0.0)
    number("optimizer.max_grad_norm", optimizer.max_grad_norm, above=0.0)
    # AdamW moves every weight by about its learning rate, so a larger one only destroys the model.
    number("optimizer.learning_rate", optimizer.learning_rate, above=0.0, at_most=1.0)
    scaled = optimizer.learning_rate * optimizer.encoding_lr_scale
    number("optimizer.learning_rate x encoding_lr_scale", scaled, at_most=1.0)
    for name in ("encoding_lr_scale", "adam_epsilon", "weight_decay", "warmup_steps"):
        number(f"optimizer.{name}", getattr(optimizer, name), at_least=0.0)
    # Every step multiplies the weights by 1 - learning rate x weight decay.
    decayed = max(optimizer.learning_rate, scaled) * optimizer.weight_decay
    number("optimizer.learning_rate x weight_decay", decayed, at_most=1.0)
    for name in ("decay_fraction", "min_lr_ratio"):
        _check_fraction(f"optimizer.{name}", getattr(optimizer, name))
    for name in ("adam_beta1", "adam_beta2", "ema_decay"):
        decay = getattr(optimizer, name)
        if decay is not None and not 0 <= decay < 1:
            raise SightlineError(f"optimizer.{name} is {decay}: expected a number from 0 to below 1.")


def _check_objective(objective: ObjectiveConfig) -> None:
    number("objective.shift", objective.shift, above=0.0, at_most=1000.0)  # a larger one leaves nothing but noise
    for name in ("image_to_video_prob", "text_dropout", "camera_dropout", "log_scale_prob"):
        _check_fraction(f"objective.{name}", getattr(objective, name))
    low, high = objective.log_scale_min, objective.log_scale_max
    if not (math.isfinite(low) and low <= high < math.inf):
        raise SightlineError(
            f"objective.log_scale_min and log_scale_max are {low} and {high}: expected two numbers, min <= max."
        )
    if not 0 <= objective.sigma_min < objective.sigma_max <= 1:
        raise SightlineError(
            f"objective.sigma_min and sigma_max are {objective.sigma_min} and {objective.sigma_max}: "
            "expected 0 <= min < max <= 1."
        )


def _check_data(data: DataConfig) -> None:
    number("data.num_workers", data.num_workers, at_least=0.0)
    _check_fraction("data.held_out_fraction", data.held_out_fraction)
    if bool(data.cache) == bool(data.sources):
        raise SightlineError("data needs either a cache or sources: expected exactly one of the two.")
    if data.cache and data.shapes:
        raise SightlineError(
            f"data.shapes are {list(data.shapes)}: expected none with a cache, whose clips have a shape."
        )
    if len(set(data.clip_shapes)) < len(data.shapes):
        raise SightlineError(f"data.shapes are {list(data.shapes)}: expected every shape once.")
    weights = data.shape_weights
    if weights and (len(weights) != len(data.shapes) or not all(w > 0 and math.isfinite(w) for w in weights)):
        raise SightlineError(f"data.shape_weights are {list(weights)}: expected one number above 0 for each shape.")
    for name in ("subset", "validation_cache"):
        if getattr(data, name) and not data.cache:
            raise SightlineError(f"data.{name} is given with sources: expected it with data.cache.")
    for name, weight in data.source_weights.items():
        number(f"data.source_weights.{name}", weight, above=0.0)


def _check_together(recipe: Recipe) -> None:
    """Refuse values of different sections that exclude each other."""
    if recipe.optimizer.name == "muon" and recipe.parallel == "fsdp2":
        raise SightlineError("optimizer.name is 'muon' with parallel 'fsdp2': expected adamw, or ddp.")
    num_frames, image_to_video_prob = (
        min(shape[0] for shape in recipe.data.clip_shapes),
        recipe.objective.image_to_video_prob,
    )
    if num_frames < 5 and image_to_video_prob > 0:
        raise SightlineError(
            f"data.num_frames is {num_frames} with objective.image_to_video_prob {image_to_video_prob}: "
            "expected 5 or more, since the first latent frame is given and something must be left to predict."
        )
    if recipe.model.trainable == "encoding" and recipe.model.encoding is None:
        raise SightlineError("model.trainable is 'encoding' without model.encoding: there would be nothing to train.")


def _check_fraction(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise SightlineError(f"{name} is {value}: expected a fraction from 0 to 1.")
