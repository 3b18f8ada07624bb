"""The options that say which model generates: a part of every command that generates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from sightline.speed_levels import DEFAULT_SPEED, Speed


@dataclass(frozen=True)
class ModelOptions:
    """Which model generates, and how it runs on this machine."""

    model: Annotated[str | None, arg(metavar="M", help_behavior_hint="")] = None
    """Hub id or folder of a pipeline (docs/backbones.md, docs/released.md). Default: the lab model that ships ("lab" is the same
    model without a camera)."""
    camera: Annotated[Path | None, arg(metavar="WEIGHTS", help_behavior_hint="")] = None
    """Camera weights: a file, a folder with one file for each expert, or a released camera model (docs/released.md), also by
    its hub id. Default: those saved with the model."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """Data type of the transformers and the text encoder; auto is bfloat16 on a GPU and float32 elsewhere. Wan's VAE runs in
    float32; from `--speed fast` on, it decodes in bfloat16."""
    speed: Speed = DEFAULT_SPEED
    """exact is diffusers' eager path, bit for bit; fast differs by rounding (fused kernels, compiled blocks where that saves
    time, decoding in bfloat16); faster adds FP8 matrix products on newer GPUs; fastest adds diffusers' first-block cache, which
    skips most blocks in steps where little changes (docs/performance.md)."""
    offload: Literal["none", "model", "group", "sequential"] = "none"
    """Keep weights in main memory and move them to the GPU when they are needed: whole models, groups of layers while the group
    before computes, or single layers. none keeps everything on the GPU."""
    attention: Annotated[str | None, arg(metavar="BACKEND", help_behavior_hint="")] = None
    """Attention backend of diffusers, such as native, flash, _flash_3, sage or xformers."""
    tiled_decode: bool = False
    """Decode the video tile by tile: less memory, slower."""
    context_parallel: Literal["none", "ulysses"] = "none"
    """Split each video among the processes of `torchrun`, instead of giving each process its own jobs."""
    ignore_memory: bool = False
    """Run even if the estimate says that memory will not suffice."""
