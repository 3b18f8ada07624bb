"""Both passes of text guidance as one batch. A small film then needs half the launches, and offloaded weights move once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from sightline.backbones.stock import AnyPipeline, experts

_BATCHED = ("hidden_states", "timestep", "encoder_hidden_states_image")


@contextmanager
def joined_guidance(pipe: AnyPipeline, negative_prompt_embeds: Tensor) -> Iterator[None]:
    """While a guided film is generated: the first call of a step computes both of its passes, the second one returns its half."""
    models = list(experts(pipe).values())
    earlier = [vars(model).get("forward") for model in models]
    for model in models:
        model.forward = _Joined(model.forward, negative_prompt_embeds)
    try:
        yield
    finally:
        for model, forward in zip(models, earlier, strict=True):
            if forward is None:
                del model.forward
            else:
                model.forward = forward


class _Joined:
    """The forward of a transformer as diffusers' Wan pipelines call it: by name, with the prompt and then without."""

    def __init__(self, forward: Any, negative: Tensor) -> None:
        self.forward, self.negative = forward, negative
        self.latents: Tensor | None = None  # of the first call, which the second one gets too
        self.without: Tensor | None = None

    def __call__(self, *, encoder_hidden_states: Tensor, **inputs: Any) -> Any:
        if self.without is not None and inputs["hidden_states"] is self.latents:
            half, self.without, self.latents = self.without, None, None
            return (half,)
        self.latents = inputs["hidden_states"]
        for name in _BATCHED:
            if inputs.get(name) is not None:
                inputs[name] = torch.cat([inputs[name], inputs[name]])
        texts = torch.cat([encoder_hidden_states, self.negative.to(encoder_hidden_states)])
        (both,) = self.forward(encoder_hidden_states=texts, **{**inputs, "return_dict": False})
        with_prompt, self.without = both.chunk(2)
        return (with_prompt,)
