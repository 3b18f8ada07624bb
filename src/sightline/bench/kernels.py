"""The fused operations alone, beside the same operations by the eager stages and by the compiled reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.bench.models import Setting, camera_tokens
from sightline.bench.results import KernelRow
from sightline.encodings import Scope, Sweep
from sightline.encodings.rotary import apply_rope
from sightline.encodings.sweep import MIN_MOMENT
from sightline.kernels import ops, reference
from sightline.kernels.scope_reference import ScopeWeights
from sightline.kernels.sweep_reference import SweepWeights
from sightline.timing import time_calls, warm_up

QkMethod = Literal["scope", "sweep"]  # encodings that `qk` computes


def time_kernels(setting: Setting, device: torch.device, steps: int) -> list[KernelRow]:
    """Time each operation on one layer's tensors, forward, and forward with backward."""
    rows = []
    for name, (function, inputs) in _operations(setting, device).items():
        for tensor in inputs:
            tensor.requires_grad_(False)
        with torch.no_grad():
            forward = _milliseconds(function, steps, device)
        for tensor in inputs:
            tensor.requires_grad_(True)
        try:
            with_backward = _milliseconds(partial(_with_backward, function, inputs), steps, device)
        except torch.cuda.OutOfMemoryError:
            with_backward = None
        rows.append(KernelRow(name, forward, with_backward))
    return rows


def random_qk(setting: Setting, device: torch.device, method: QkMethod | None = "scope") -> tuple[Any, ...]:
    """The arguments of `qk` in one layer of this model, with the camera of this method or without."""
    config, dtype = setting.config, setting.dtype
    heads, head_dim = config["num_attention_heads"], config.get("attention_head_dim", 128)
    dim, tokens = heads * head_dim, setting.tokens
    query, key = (torch.randn(1, tokens, dim, device=device, dtype=dtype) for _ in range(2))
    norms = [1 + 0.1 * torch.randn(dim, device=device) for _ in range(2)]
    angle = torch.randn(1, tokens, 1, head_dim // 2, device=device).repeat_interleave(2, -1)
    camera_rows, weights, min_moment = None, [], 1.0
    if method is not None:
        layer: Any = (Scope() if method == "scope" else Sweep()).layer(dim, heads).to(device)
        for alpha in (layer.alpha_q, layer.alpha_k):
            alpha.data.fill_(0.5)
        camera_rows = camera_tokens(setting).rows.to(device)
        if method == "sweep":
            camera_rows = layer("embed", camera_rows, setting.grid)[1]
        min_moment = MIN_MOMENT if method == "sweep" else layer.settings.min_moment
        names = ScopeWeights._fields if method == "scope" else SweepWeights._fields
        weights = [getattr(layer, name) for name in names]
    return query, key, *norms, angle.cos(), angle.sin(), camera_rows, weights, 1e-6, min_moment, True


def _operations(setting: Setting, device: torch.device) -> dict[str, tuple[Callable[[], Any], list[Tensor]]]:
    """A call of each operation, and the tensors it has gradients for."""
    with_camera, with_sweep = random_qk(setting, device), random_qk(setting, device, "sweep")
    query, key, *norms, cos, sin, camera_rows, weights = with_camera[:8]
    without: tuple[Any, ...] = (*with_camera[:6], None, [], *with_camera[8:])
    (_, tokens, dim), heads = query.shape, setting.config["num_attention_heads"]
    layer = Scope(alpha=0.5).layer(dim, heads).to(device)
    for name, weight in zip(ScopeWeights._fields, weights, strict=True):
        setattr(layer, name, weight)
    x, y = torch.randn(2, 1, tokens, dim, device=device, dtype=query.dtype)
    table = torch.randn(2, 3, dim, device=device)
    shift, scale, gate = (table[:, part] for part in range(3))
    index = (torch.arange(tokens, device=device)[None] >= tokens // setting.grid[0]).int()
    settings: dict[str, Any] = {"backend": setting.backend} if setting.backend else {}
    compiled = {name: torch.compile(getattr(reference, name), **settings) for name in ("qk", "modulate", "add_gated")}

    def stages() -> tuple[Tensor, Tensor]:
        normed = [
            F.rms_norm(tensor, (dim,), weight.to(tensor.dtype), 1e-6)
            for tensor, weight in zip((query, key), norms, strict=True)
        ]
        rotated = [apply_rope(tensor.unflatten(-1, (heads, -1)), cos, sin) for tensor in normed]
        return layer("inject", *rotated, rotated[0], camera_rows)[:2]

    pair = [query, key, *norms]
    return {
        "qk with camera, eager stages": (stages, [*pair, *weights]),
        "qk with camera, compiled reference": (lambda: compiled["qk"](*with_camera), [*pair, *weights]),
        "qk with camera, fused": (lambda: ops.qk(*with_camera), [*pair, *weights]),
        "qk with Sweep, compiled reference": (lambda: compiled["qk"](*with_sweep), [*with_sweep[:4], *with_sweep[7]]),
        "qk with Sweep, fused": (lambda: ops.qk(*with_sweep), [*with_sweep[:4], *with_sweep[7]]),
        "qk without camera, compiled reference": (lambda: compiled["qk"](*without), pair),
        "qk without camera, fused": (lambda: ops.qk(*without), pair),
        "modulate, compiled reference": (lambda: compiled["modulate"](x, shift, scale, index, 1e-6), [x, shift, scale]),
        "modulate, fused": (lambda: ops.modulate(x, shift, scale, index, 1e-6), [x, shift, scale]),
        "add_gated, compiled reference": (lambda: compiled["add_gated"](x, y, gate, index), [x, y, gate]),
        "add_gated, fused": (lambda: ops.add_gated(x, y, gate, index), [x, y, gate]),
    }


def _with_backward(function: Callable[[], Any], inputs: list[Tensor]) -> None:
    outputs = function()
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    torch.autograd.grad(outputs, inputs, [output.detach() for output in outputs], allow_unused=True)


def _milliseconds(call: Callable[[], Any], steps: int, device: torch.device) -> float:
    """The median time of a call. On a GPU it is measured over replays of a CUDA graph, because called from Python a single
    operation costs the CPU more time than the GPU."""
    if device.type == "cuda":
        from triton.testing import do_bench_cudagraph

        return do_bench_cudagraph(call, rep=20, return_mode="median")
    warm_up(call, 1, device)
    return 1000 * time_calls(call, steps, device).median
