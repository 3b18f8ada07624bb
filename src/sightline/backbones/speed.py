"""`sl.set_speed`: trade exactness for time. A level decides which optimizations a pipeline uses.

    exact     the eager path, bit for bit that of diffusers
    fast      fused kernels, compiled blocks where that saves time, the VAE's decoder in bfloat16; differs by rounding
    faster    also matrix products in FP8
    fastest   also diffusers' first-block cache, which skips most blocks in steps where the first one changes little

What a machine or a model cannot do is left out, and `describe` says what is used. On a CPU, `fast` computes the products of the
linear layers in bfloat16, and nothing is compiled or in FP8.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from diffusers import AutoencoderKLWan, FirstBlockCacheConfig, WanTransformer3DModel
from diffusers.hooks.group_offloading import _is_group_offload_enabled

from sightline.backbones.accelerate import accelerate
from sightline.backbones.families import family_of
from sightline.backbones.fast_vae import decode_in_bfloat16
from sightline.backbones.flops import forward_flops
from sightline.backbones.low_precision_linear import to_bfloat16, to_fp8
from sightline.backbones.stock import AnyPipeline, WanImageToVideoPipeline, WanPipeline, experts
from sightline.errors import SightlineError
from sightline.kernels import why_no_fp8, why_not
from sightline.speed_levels import SPEEDS, Speed, check_speed

_log = logging.getLogger("sightline")
# Blocks are compiled if all videos of a run together need at least this many operations. Estimated, not measured: a compilation
# that is cached on disk takes about 5 s, compiled blocks save a tenth, and an H200 computes about 7e14 operations per second.
COMPILE_FROM_FLOPS = 3e16
# With fewer tokens than this, kernel launches limit the speed of a GPU, so two guidance passes in one batch cost little more than
# one.
JOIN_BELOW_TOKENS = 4096
# With fewer tokens than this, copying offloaded weights takes longer than computing with them (7e14 operations and 5e10 bytes per
# second). Both passes in one batch then need only one copy. Estimated, not measured.
JOIN_OFFLOADED_BELOW_TOKENS = 16384
# Pipelines that take encoded prompts and call their transformer once for each side of guidance; those derived from them may not.
PLAIN_PIPELINES: tuple[type, ...] = (WanPipeline, WanImageToVideoPipeline)
MAX_SIZES = 64  # of videos for which one process compiles; further sizes run eagerly
# Relative change of the first block's residual below which the other blocks are skipped (docs/records/performance.md).
CACHE_THRESHOLD = 0.15


@dataclass(frozen=True)
class _Setting:
    """What `set_speed` has turned on. used: in words. num_videos: how many are expected. compiled: whether blocks can compile."""

    speed: Speed
    used: tuple[str, ...]
    num_videos: int
    compiled: bool


@dataclass(frozen=True)
class FilmSpeed:
    """How one video is generated. compiled: its blocks are compiled. joined: both guidance passes are one batch."""

    speed: Speed = "exact"
    used: tuple[str, ...] = ()
    compiled: bool = False
    joined: bool = False

    def describe(self) -> str:
        """One line for the console."""
        parts = [*self.used, *(["compiled blocks"] if self.compiled else [])]
        parts += ["both guidance passes in one batch"] if self.joined else []
        return f"speed {self.speed}: {', '.join(parts) or 'the eager path'}"

    def settings(self) -> dict[str, Any]:
        """For a settings.json."""
        return {"level": self.speed, "used": list(self.used), "compiled": self.compiled, "joined_guidance": self.joined}


def set_speed(pipe: AnyPipeline, speed: Speed, *, num_videos: int = 1) -> AnyPipeline:
    """Choose a speed level for a pipeline, in place, and return it. docs/performance.md says what each costs.

    speed: exact, fast, faster or fastest. A pipeline can leave exact once, because the other levels round its weights.
    num_videos: how many will be generated. The more there are, the sooner compilation saves time; with 0, nothing is compiled.
    Call it after the pipeline is on its device, and before offloading.
    Where blocks can be compiled, two settings of the whole process change: TORCHINDUCTOR_CACHE_DIR is set, unless it is already,
    and torch._dynamo.config.recompile_limit is raised to 64.
    """
    if isinstance(num_videos, bool) or not isinstance(num_videos, int) or num_videos < 0:
        raise SightlineError(f"num_videos is {num_videos!r}: expected a whole number, or 0 to never compile.")
    family_of(pipe)  # refuses other pipelines
    earlier = speed_of(pipe)
    if check_speed(speed) == earlier:
        return pipe
    if earlier != "exact":
        raise SightlineError(
            f"speed is {speed!r} but the pipeline runs at {earlier!r}, whose weights are rounded: expected a pipeline that is "
            "loaded anew."
        )
    turn_on(pipe, speed, num_videos, pipe.device)
    return pipe


def turn_on(pipe: AnyPipeline, speed: Speed, num_videos: int, device: torch.device) -> None:
    """Turn on what the level has and the device can do. device: where the pipeline will run."""
    level, models, used = SPEEDS.index(speed), list(experts(pipe).values()), []
    compiles = level > 0 and device.type == "cuda"
    if level >= 1 and device.type == "cuda":
        used += _fuse(models, device)
    if level >= 1 and device.type == "cpu" and cpu_has_bfloat16():
        used += _lower_precision(models, to_bfloat16, "linear layers in bfloat16")
    if level >= 1 and isinstance(pipe.vae, AutoencoderKLWan) and (device.type == "cuda" or cpu_has_bfloat16()):
        decode_in_bfloat16(pipe.vae)
        used.append("VAE decoding in bfloat16")
    if level >= 2 and why_no_fp8(device) is None:
        used += _lower_precision(models, partial(to_fp8, device=device), "linear layers in FP8")
    if compiles:
        for model in models:
            compile_blocks(model)
    if level >= 3 and type(pipe) in PLAIN_PIPELINES:  # others may not say which side of guidance a call belongs to
        used += _cache(models)
    for model in models:
        model._sightline_speed = _Setting(speed, tuple(used), num_videos, compiles)


def speed_of(pipe: AnyPipeline) -> Speed:
    """The level that `set_speed` has chosen."""
    return _setting(pipe).speed


def film_speed(pipe: AnyPipeline, tokens: int, passes: int, guided: bool) -> FilmSpeed:
    """How a video of this size is generated. passes: through a transformer, over all steps and both sides of guidance."""
    setting, model = _setting(pipe), next(iter(experts(pipe).values()))
    if setting.speed == "exact":
        return FilmSpeed()
    saves_time = _forward_flops(model, tokens) * passes * setting.num_videos >= COMPILE_FROM_FLOPS
    compiled = setting.compiled and saves_time and not _is_moved_by_layer(model)
    joined = guided and type(pipe) in PLAIN_PIPELINES
    joined = joined and getattr(model, "_parallel_config", None) is None
    few = tokens < JOIN_BELOW_TOKENS and model.device.type == "cuda"
    joined = joined and (few or (_is_offloaded(model) and joins_offloaded(tokens)))
    return FilmSpeed(setting.speed, setting.used, compiled, joined)


def joins_offloaded(tokens: int) -> bool:
    """Whether both guidance passes of a film are one batch where weights are offloaded."""
    return tokens < JOIN_OFFLOADED_BELOW_TOKENS


@contextmanager
def running(pipe: AnyPipeline, film: FilmSpeed) -> Iterator[None]:
    """While a film is generated: its blocks run compiled or not, and a cache starts empty. Logs what the film uses, unless the
    last one used the same."""
    setting, first = _setting(pipe), next(iter(experts(pipe).values()))
    if film != getattr(first, "_sightline_film", FilmSpeed()):
        first._sightline_film = film
        _log.info("%s", film.describe())
    for model in experts(pipe).values():
        if getattr(model, "is_cache_enabled", False):
            model._reset_stateful_cache()  # a film that was cancelled leaves its last step behind
    eager = torch.compiler.set_stance("force_eager") if setting.compiled and not film.compiled else nullcontext()
    with eager:
        yield


def compile_blocks(model: Any, **options: Any) -> None:
    """Compile the repeated blocks of a transformer when they are first called. options: of torch.compile.

    Unlike `compile_repeated_blocks`, this compiles what a block computes and not the hooks around it, so that caches and
    offloading of whole blocks can be added afterwards.
    """
    # torch's default is a temporary folder; compiled code is worth keeping between runs.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path.home() / ".cache" / "sightline" / "compiled"))
    # Blocks of a class share one function, and torch stops compiling a function after eight sizes of video.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MAX_SIZES)
    for block in model.modules():
        if type(block).__name__ in (model._repeated_blocks or ()):
            block_class: Any = type(block)
            block.forward = MethodType(_compiled(block_class, **options), block)


@cache
def _compiled(block_class: Any, **options: Any) -> Any:
    """One compiled function for all blocks of a class, which share what was compiled. Each size of video is compiled alone."""
    return torch.compile(block_class.forward, dynamic=False, **options)


def cpu_has_bfloat16() -> bool:
    """Whether this CPU has instructions for products in bfloat16; without them they are slower than in float32."""
    return any(getattr(torch.cpu, name, bool)() for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))


def _setting(pipe: AnyPipeline) -> _Setting:
    model = next(iter(experts(pipe).values()), None)
    return getattr(model, "_sightline_speed", None) or _Setting("exact", (), 1, False)


def _forward_flops(model: Any, tokens: int) -> float:
    if "ffn_dim" in model.config:
        return forward_flops(model.config, tokens)
    # A transformer of another form: its products with weights, without attention.
    return 2.0 * tokens * sum(parameter.numel() for parameter in model.parameters())


def _fuse(models: list[Any], device: torch.device) -> list[str]:
    ours = [model for model in models if isinstance(model, WanTransformer3DModel)]
    if not ours or why_not(device, ours[0].dtype) is not None:
        return []
    for model in ours:
        accelerate(model, device=device)
    return ["fused kernels"]


def _lower_precision(models: list[Any], convert: Any, words: str) -> list[str]:
    count = sum(convert(model.blocks) for model in models if isinstance(model, WanTransformer3DModel))
    return [words] if count else []


def _cache(models: list[Any]) -> list[str]:
    ours = [model for model in models if isinstance(model, WanTransformer3DModel) and len(model.blocks) > 2]
    for model in ours:
        model.enable_cache(FirstBlockCacheConfig(threshold=CACHE_THRESHOLD))
    return ["first-block cache"] if ours else []


def _is_offloaded(model: Any) -> bool:
    """Whether weights are moved to the GPU in every pass."""
    return _is_group_offload_enabled(model) or _is_moved_by_layer(model)


def _is_moved_by_layer(model: Any) -> bool:
    """Whether hooks inside the blocks move weights, which a compiler cannot look through."""
    blocks = getattr(model, "blocks", None)
    return blocks is not None and any(
        hasattr(layer, "_hf_hook") or (layer is not blocks[0] and hasattr(layer, "_diffusers_hook"))
        for layer in blocks[0].modules()
    )
