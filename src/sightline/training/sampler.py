"""Sampler: the pipeline that generates validation videos with the model in training."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import DiffusionPipeline
from torch import nn

from sightline.backbones import shipped
from sightline.backbones.families import family_of
from sightline.backbones.model_io import io_of_family
from sightline.backbones.pipelines import (
    empty_transformer,
    is_packed,
    load_transformer,
    load_vae,
    saved_components,
)
from sightline.backbones.stock import EXPERTS, SAFETENSORS, STOCK_PIPELINES, experts, model_errors
from sightline.backbones.tiny import tiny_by_name
from sightline.data.encode import ENCODER_LOCK
from sightline.training.objective import autocast
from sightline.training.parallelize import is_sharded, parallelize
from sightline.training.recipe import Recipe

_PROMPT_PARTS = ("text_encoder", "tokenizer")  # not needed: the clips' captions are embedded already


@dataclass(eq=False)
class Sampler:
    """A pipeline without a text encoder and without the expert in training, which `placed` puts in.

    others: the experts that are not trained, in the recipe's dtype: the second of an A14B pair, or none.
    sharded: whether these are divided among the processes, on their devices. Otherwise they wait on the CPU.
    """

    pipe: Any
    recipe: Recipe
    others: dict[str, nn.Module]
    sharded: bool

    @contextmanager
    def placed(self, model: nn.Module, device: torch.device) -> Iterator[Any]:
        """The pipeline with this model in it and with all of its parts on the device, for the time of the block."""
        experts = {self.recipe.model.component: model, **self.others}
        self.pipe.register_modules(**experts)
        with ENCODER_LOCK:
            for name, part in self.pipe.components.items():  # the VAE, and LTX-2's for sound
                if isinstance(part, nn.Module) and name not in experts:
                    part.to(device)
        try:
            for expert in self.others.values() if not self.sharded else ():
                expert.to(device)
            for expert in experts.values():
                # Only the transformers: the VAE stays in float32.
                expert.forward = autocast(self.recipe, device)(expert.forward)
            yield self.pipe
        finally:
            for expert in experts.values():
                vars(expert).pop("forward", None)
            for expert in self.others.values() if not self.sharded else ():
                expert.to("cpu")  # a step of training needs the memory
            self.pipe.register_modules(**dict.fromkeys(experts))


def load_sampler(recipe: Recipe, device: torch.device, num_processes: int, vae: nn.Module | None = None) -> Sampler:
    """Load what a pipeline of the recipe's base needs beside the model in training. vae: where it is loaded already."""
    base, dtype = recipe.model.base, getattr(torch, recipe.dtype)
    on_disk = tiny_by_name(base) is None and not any(is_packed(base, name) for name in EXPERTS)
    sharded = on_disk and is_sharded(recipe.parallel, num_processes)
    pipe = _load_pipeline(base, vae)
    others: dict[str, nn.Module] = {}
    for name in _expert_names(base):
        if name == recipe.model.component:
            continue
        if sharded:
            empty, folder = empty_transformer(base, name)
            others[name] = parallelize(_in_dtype(empty, dtype), recipe.parallel, num_processes, device, folder)
        else:
            others[name] = load_transformer(base, name, dtype)
        others[name].requires_grad_(False).eval()
    return Sampler(pipe, recipe, others, sharded)


def count_other_experts(recipe: Recipe) -> int:
    """How many experts the recipe's validation videos need beside the one in training."""
    return len(_expert_names(recipe.model.base)) - 1 if recipe.validation.num_videos else 0


def _load_pipeline(base: str, vae: nn.Module | None) -> Any:
    if (tiny := tiny_by_name(base)) is not None:
        return _without_prompts(tiny, experts(tiny))
    model = shipped.resolve(base)
    with model_errors(model):
        pipeline = STOCK_PIPELINES[DiffusionPipeline.load_config(model)["_class_name"]]
        if vae is None:
            vae = load_vae(model)
        without = dict.fromkeys((*_expert_names(base), *_PROMPT_PARTS))
        return _without_prompts(pipeline.from_pretrained(model, vae=vae, **without, **SAFETENSORS))


def _without_prompts(pipe: Any, more: Collection[str] = ()) -> Any:
    """The pipeline without its text encoder and these parts, which takes embedded text."""
    pipe.register_modules(**dict.fromkeys((*more, *_PROMPT_PARTS)))
    io_of_family(family_of(pipe)).take_encoded_text(pipe)
    return pipe


def _expert_names(base: str) -> list[str]:
    tiny = tiny_by_name(base)
    components = saved_components(shipped.resolve(base)) if tiny is None else tiny.components
    return [name for name in EXPERTS if components.get(name) is not None]


def _in_dtype(model: Any, dtype: torch.dtype) -> Any:
    """The parameters in this dtype, except those that diffusers keeps in float32, and the RoPE tables."""
    for name, parameter in model.named_parameters():
        if not any(part in name.split(".") for part in model._keep_in_fp32_modules or ()):
            parameter.data = parameter.data.to(dtype)
    return model
