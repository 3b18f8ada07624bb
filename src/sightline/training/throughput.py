"""Throughput of a training run: tokens per second, and MFU, the fraction of the GPUs' peak that the model's operations use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sightline.backbones.families import patch_size
from sightline.backbones.flops import training_flops
from sightline.cameras.token_grid import TokenGrid
from sightline.data.latents import LatentBatch

# Operations per second in bfloat16 without sparsity, as the maker's data sheets state them, by a part of the name that torch
# gives. Longer names come first.
_PEAKS = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "H200": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "L40S": 362e12,
    "RTX 4090": 165e12,
}


def peak_flops(device_name: str) -> float | None:
    """The peak of a GPU in bfloat16; None for one that is not in the table."""
    return next((peak for name, peak in _PEAKS.items() if name in device_name), None)


@dataclass(frozen=True)
class Throughput:
    """What a run needs to turn the seconds of a step into tokens per second and MFU.

    peak: of all GPUs of the run together; None where it is not known. trained: fraction of the weights.
    """

    config: Mapping[str, Any]
    trained: float
    peak: float | None

    @classmethod
    def of(cls, model: nn.Module, dtype: str, device: torch.device, num_processes: int) -> Throughput:
        """For a model whose trainable parameters are chosen."""
        parameters = list(model.parameters())
        trained = sum(p.numel() for p in parameters if p.requires_grad) / sum(p.numel() for p in parameters)
        peak = None
        if device.type == "cuda" and dtype in ("bfloat16", "float16"):
            peak = peak_flops(torch.cuda.get_device_name(device))
        config: Any = model.config
        return cls(config, min(trained, 1.0), None if peak is None else peak * num_processes)

    def tokens(self, batch: LatentBatch) -> tuple[int, int]:
        """The video tokens and the text tokens of one clip of the batch."""
        return TokenGrid.from_latents(batch.latents.shape, patch_size(self.config)).num_tokens, batch.text.shape[1]

    def scalars(self, tokens: int, text_tokens: int, clips: int, seconds: float) -> dict[str, float]:
        """Of a step over so many clips in all processes, each of so many tokens."""
        scalars = {"tokens_per_second": clips * tokens / seconds}
        if self.peak is not None and "ffn_dim" in self.config:
            flops = clips * training_flops(self.config, tokens, text_tokens, self.trained)
            scalars["mfu"] = flops / seconds / self.peak
        return scalars
