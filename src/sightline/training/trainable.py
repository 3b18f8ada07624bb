"""Which parameters a run trains, by name."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from sightline.errors import SightlineError
from sightline.training.recipe import ModelConfig

# Patterns of the parameter names of Wan and its relatives and of LTX-2, whose parameters for sound have names of their own. A
# block's modulation is its scale_shift_table; norm1 and norm3 have no weights.
_SETS: dict[str, str] = {
    "paper": r"\.attn1\.|\.ffn?\.|(^|\.)scale_shift_table",
    "encoding": r"\.attn1\.camera_encoding\.",
    "self_attention": r"\.attn1\.",
    "all": r"",
    "lora": r"\.attn1\.camera_encoding\.|lora_",
}
_LORA_LAYERS = r"(transformer_)?blocks\.\d+\.(attn1\.to_(q|k|v|out\.0)|ffn?\.net\.(0\.proj|2))"


def choose_trainable(model: nn.Module, config: ModelConfig) -> dict[str, nn.Parameter]:
    """Freeze all parameters but those of `model.trainable`, and return these by name. For "lora", LoRA layers are added first."""
    if config.trainable == "lora":
        try:
            from peft import LoraConfig
        except ImportError:
            raise SightlineError(
                "model.trainable is 'lora' but peft is not installed: pip install 'sightline[train]'."
            ) from None
        adapter: Any = model
        existing = getattr(model, "peft_config", {}).get("default")  # of the camera weights that the run starts from
        if existing is None:
            adapter.add_adapter(
                LoraConfig(r=config.lora_rank, lora_alpha=config.lora_rank, target_modules=_LORA_LAYERS)
            )
        elif existing.r != config.lora_rank:
            raise SightlineError(
                f"model.lora_rank is {config.lora_rank}: model.camera holds LoRA of rank {existing.r}, expected the same."
            )
    pattern = re.compile(_SETS[config.trainable])
    trainable = {}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(bool(pattern.search(name)))
        if parameter.requires_grad:
            trainable[name] = parameter
    return trainable


def summary(model: nn.Module) -> list[tuple[str, int, int]]:
    """(part of the model, trained parameters, all parameters), for the table at the start of a run."""
    parts = {
        "camera encoding": r"\.camera_encoding\.",
        "LoRA": r"lora_",
        "self-attention": r"\.attn1\.",
        "sound": r"audio|_a2v_|_v2a_",
        "text cross-attention": r"\.attn2\.|\.norm2\.",
        "feed-forward": r"\.ffn?\.",
        "modulation": r"scale_shift_table",
        "embeddings and output": r"",
    }
    counts = {part: [0, 0] for part in parts}
    for name, parameter in model.named_parameters():
        part = next(part for part, pattern in parts.items() if re.search(pattern, name))
        counts[part][0] += parameter.numel() if parameter.requires_grad else 0
        counts[part][1] += parameter.numel()
    return [(part, trained, total) for part, (trained, total) in counts.items() if total]
