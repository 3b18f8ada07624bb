"""How long a film may take before one has been made: the operations that it needs, over what this machine computes per second.

It can be wrong by several times: a small film of a large model waits for memory and not for products. The studio only shows it
until it has a film to judge by.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from sightline.backbones.families import WAN, family_of_config
from sightline.backbones.flops import forward_flops
from sightline.backbones.model_info import ModelInfo
from sightline.generation.memory import on_meta
from sightline.generation.model import Model
from sightline.timing import synchronized_time

# Of the speed of one large matrix product: on two cores, sampling with the lab model reached 0.58 and decoding 0.52 to 0.67.
EFFICIENCY = 0.55
_SIDE = 8  # latent rows and columns of the small video on which decoding is counted
_PRODUCT = {"cpu": 1024, "cuda": 8192}  # rows of the product that is timed
_REPEATS = 5


class FilmGuess:
    """For the films of one model. What is measured or counted is kept."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def seconds(self, shape: tuple[int, int, int], passes: int) -> float | None:
        """Of a film of (frames, width, height), without loading; None for a model whose operations are not counted here.

        passes: through the transformer, of all steps and all sides of guidance.
        """
        configs = self.model.configs
        if configs is None or family_of_config(configs[""]) is not WAN or "ffn_dim" not in configs["transformer"]:
            return None
        grid = ModelInfo.from_configs(configs).grid(*shape)
        sampling = passes * forward_flops(configs["transformer"], grid.num_tokens) / self._rate
        _, rows, columns = configs["transformer"]["patch_size"]
        area = grid.rows * rows * grid.columns * columns / _SIDE**2
        first, other = self._decoding_flops
        decoding = area * (first + (grid.frames - 1) * other) / self._vae_rate
        return (sampling + decoding) / EFFICIENCY

    @cached_property
    def _rate(self) -> float:
        return products_per_second(self.model.device, self.model.dtype)

    @cached_property
    def _vae_rate(self) -> float:
        if self.model.dtype == torch.float32:
            return self._rate
        return products_per_second(self.model.device, torch.float32)

    @cached_property
    def _decoding_flops(self) -> tuple[float, float]:
        """Of the first latent frame and of each other one, of _SIDE rows and columns."""
        configs: Mapping[str, Any] = self.model.configs or {}
        family = family_of_config(configs[""])
        vae = on_meta("vae", configs["vae"], family)

        def count(frames: int) -> float:
            latents = torch.empty(1, vae.config[family.latent_channels], frames, _SIDE, _SIDE, device="meta")
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                vae.decode(latents, return_dict=False)
            return float(counter.get_total_flops())

        first, three = count(1), count(3)
        return first, (three - first) / 2


def products_per_second(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of a large matrix product: the best of a few, on all cores of a CPU."""
    size = _PRODUCT.get(device.type, _PRODUCT["cpu"])
    a = torch.randn(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(_REPEATS):
        began = synchronized_time(device)
        a @ a
        best = min(best, synchronized_time(device) - began)
    # The page computes with half of the cores, and films with all of them.
    cores = (os.cpu_count() or 1) / torch.get_num_threads() if device.type == "cpu" else 1.0
    return cores * 2.0 * size**3 / best
