"""Prompts: each text is encoded once, however many videos use it. Most videos share at least the negative prompt."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sightline.backbones.stock import AnyPipeline

_log = logging.getLogger("sightline")
_MOST = 64  # embedded texts that are kept, 4 MiB each at 5B
_embedded: WeakKeyDictionary[nn.Module, dict[tuple[str, int], Tensor]] = WeakKeyDictionary()


@torch.no_grad()
def encoded_prompts(
    pipe: AnyPipeline, prompt: str, negative_prompt: str | None, guided: bool, max_sequence_length: int
) -> dict[str, Any]:
    """The arguments of a Wan pipeline that stand for these texts: the same tensors that it would compute."""
    negative = _encode(pipe, negative_prompt or "", max_sequence_length) if guided else None
    return {"prompt_embeds": _encode(pipe, prompt, max_sequence_length), "negative_prompt_embeds": negative}


def _encode(pipe: Any, text: str, max_sequence_length: int) -> Tensor:  # -> [1, max_sequence_length, text_dim]
    known = _embedded.setdefault(pipe.text_encoder, {})
    key = (text, max_sequence_length)
    if key not in known:
        embedded, _ = pipe.encode_prompt(
            text,
            do_classifier_free_guidance=False,
            max_sequence_length=max_sequence_length,
            device=pipe._execution_device,
        )
        while len(known) >= _MOST:
            del known[next(iter(known))]  # the oldest
        known[key] = embedded
    return known[key].to(pipe._execution_device)


def note_unused_negative_prompt(negative_prompt: str | None, guidance_scale: float) -> None:
    """Warn of a negative prompt without effect: only text guidance uses it."""
    if negative_prompt and guidance_scale <= 1:
        _log.warning(
            "the negative prompt has no effect with guidance_scale %g: expected a guidance_scale above 1.",
            guidance_scale,
        )
