"""Random arguments of the operations, and how far results may lie apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sightline.kernels.scope_reference import ScopeWeights
from sightline.kernels.sweep_reference import SweepWeights

# Relative to the largest value. Products in tf32 serve bf16 and fp16 on a GPU; the reference's are exact.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 3e-3, torch.float64: 1e-10}


def qk_arguments(
    batch: int = 2,
    tokens: int = 9,
    heads: int = 3,
    head_dim: int = 12,
    cameras: int = 1,  # 0: none; 1: one for the whole batch; batch: one each
    hidden: int = 5,
    dtype: torch.dtype = torch.float32,
    device: Any = "cpu",
    flip: bool = True,
    seed: int = 0,
    features: int = 0,  # of Sweep; 0: SCoPE
) -> list[Any]:
    """Token 0 has m = 0, as all of the anchor frame, and token 1 no camera."""
    generator, dim = torch.Generator().manual_seed(seed), heads * head_dim

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    query, key = normal(2, batch, tokens, dim).to(device, dtype)
    weight = torch.float64 if dtype == torch.float64 else torch.float32
    angle = normal(1, tokens, 1, head_dim // 2).repeat_interleave(2, -1)
    camera, weights, min_moment = None, [], 0.1 if features else 1e-6
    if cameras:
        camera = normal(cameras, tokens, 90)
        camera[..., :3] /= camera[..., :3].norm(dim=-1, keepdim=True)
        camera[:, 0, 3:6] = 0
        camera[:, 1] = 0
        projections = [normal(dim, features)] if features else [normal(dim, 7), normal(dim, 7)]
        weights = [
            *projections, 1 + 0.3 * normal(dim), 1 + 0.3 * normal(dim), 0.3 * normal(hidden, 1),
            0.3 * normal(hidden), 0.3 * normal(dim, hidden), 0.3 * normal(dim), 0.5 + 0.1 * normal(1), -0.7 + 0.1 * normal(1),
        ]  # fmt: skip
        assert len(weights) == len((SweepWeights if features else ScopeWeights)._fields)
        if features:
            camera = torch.cat([camera, normal(cameras, tokens, features)], dim=-1)
        camera = camera.to(device, weight)
    tables = [x.to(device, weight) for x in (angle.cos(), angle.sin())]
    norms = [(1 + 0.3 * normal(dim)).to(device, weight) for _ in range(2)]
    return [query, key, *norms, *tables, camera, [x.to(device, weight) for x in weights], 1e-6, min_moment, flip]


def modulation_arguments(
    batch: int = 2,
    tokens: int = 18,
    dim: int = 40,
    entries: int = 2,
    dtype: torch.dtype = torch.float32,
    device: Any = "cpu",
) -> tuple[Tensor, ...]:
    """x, y [B, N, dim]; shift, scale, gate [K, dim] as parts of one table; index [B, N]."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, batch, tokens, dim, generator=generator, dtype=torch.float64).to(device, dtype)
    weight = torch.float64 if dtype == torch.float64 else torch.float32
    table = torch.randn(entries, 3, dim, generator=generator, dtype=torch.float64).to(device, weight)
    index = torch.randint(entries, (batch, tokens), generator=generator, dtype=torch.int32).to(device)
    return x, y, *table.unbind(1), index


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return ((one.double() - other.double()).abs().max() / other.double().abs().max().clamp_min(1e-12)).item()
