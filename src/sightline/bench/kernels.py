"""The fused operations alone, beside the same computed by the eager stages and by the compiled twin."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.bench.models import Setting, camera_tokens
from sightline.encodings import Scope
from sightline.encodings.rotary import apply_rope
from sightline.kernels import ops, reference
from sightline.kernels.scope_reference import ScopeWeights


def time_kernels(setting: Setting, device: torch.device, steps: int) -> dict[str, Any]:
    """Milliseconds of each operation on one layer's tensors, forward, and forward with backward."""
    found: dict[str, Any] = {}
    for name, (function, inputs) in _cases(setting, device).items():
        for one in inputs:
            one.requires_grad_(False)
        with torch.no_grad():
            found[name] = {"forward_ms": _milliseconds(function, steps, device)}
        for one in inputs:
            one.requires_grad_(True)
        try:
            found[name]["with_backward_ms"] = _milliseconds(partial(_and_back, function, inputs), steps, device)
        except torch.cuda.OutOfMemoryError:
            found[name]["with_backward_ms"] = None
    return found


def random_qk(setting: Setting, device: torch.device, with_camera: bool = True) -> tuple[Any, ...]:
    """The arguments of `qk` in one layer of this model."""
    config, dtype = setting.config, setting.dtype
    heads, head_dim = config["num_attention_heads"], config.get("attention_head_dim", 128)
    dim, tokens = heads * head_dim, setting.tokens
    query, key = (torch.randn(1, tokens, dim, device=device, dtype=dtype) for _ in range(2))
    norms = [1 + 0.1 * torch.randn(dim, device=device) for _ in range(2)]
    angle = torch.randn(1, tokens, 1, head_dim // 2, device=device).repeat_interleave(2, -1)
    camera, weights = None, []
    if with_camera:
        camera = camera_tokens(setting).rows.to(device)
        layer = Scope(alpha=0.5).layer(dim, heads).to(device)
        weights = [getattr(layer, name) for name in ScopeWeights._fields]
    return query, key, *norms, angle.cos(), angle.sin(), camera, weights, 1e-6, 1e-6, True


def _cases(setting: Setting, device: torch.device) -> dict[str, tuple[Callable[[], Any], list[Tensor]]]:
    with_camera = random_qk(setting, device)
    query, key, *norms, cos, sin, camera, weights = with_camera[:8]
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
            F.rms_norm(one, (dim,), weight.to(one.dtype), 1e-6) for one, weight in zip((query, key), norms, strict=True)
        ]
        turned = [apply_rope(one.unflatten(-1, (heads, -1)), cos, sin) for one in normed]
        return layer("inject", *turned, turned[0], camera)[:2]

    pair = [query, key, *norms]
    return {
        "qk with camera, eager stages": (stages, [*pair, *weights]),
        "qk with camera, compiled twin": (lambda: compiled["qk"](*with_camera), [*pair, *weights]),
        "qk with camera, fused": (lambda: ops.qk(*with_camera), [*pair, *weights]),
        "qk without camera, compiled twin": (lambda: compiled["qk"](*without), pair),
        "qk without camera, fused": (lambda: ops.qk(*without), pair),
        "modulate, compiled twin": (lambda: compiled["modulate"](x, shift, scale, index, 1e-6), [x, shift, scale]),
        "modulate, fused": (lambda: ops.modulate(x, shift, scale, index, 1e-6), [x, shift, scale]),
        "add_gated, compiled twin": (lambda: compiled["add_gated"](x, y, gate, index), [x, y, gate]),
        "add_gated, fused": (lambda: ops.add_gated(x, y, gate, index), [x, y, gate]),
    }


def _and_back(function: Callable[[], Any], inputs: list[Tensor]) -> None:
    outputs = function()
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    torch.autograd.grad(outputs, inputs, [one.detach() for one in outputs], allow_unused=True)


def _milliseconds(call: Callable[[], Any], steps: int, device: torch.device) -> float:
    """Median over `steps`. On a GPU, of replays of a CUDA graph, each of some milliseconds: called from Python, an operation
    costs the processor more than the GPU."""
    if device.type == "cuda":
        from triton.testing import do_bench_cudagraph

        return do_bench_cudagraph(call, rep=20, return_mode="median")
    call()
    times = []
    for _ in range(steps):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)
