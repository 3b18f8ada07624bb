"""Seconds and memory of one training step of the released configurations, with SCoPE and without, in one run.

    python benchmarks/train_step.py --model 5b            480 x 832 x 81, the paper's trained set, gradient checkpointing
    python benchmarks/train_step.py --model 5b --fused --compile                   as the recipe paper-5b trains
    python benchmarks/train_step.py --model 14b --layers 20
    python benchmarks/train_step.py --model 14b --train lora --estimate-only       memory as a run estimates it, without a GPU

Weights are random: time and memory do not depend on them. Ratios are of medians, measured in turn on one GPU.
"""

from __future__ import annotations

import gc
import itertools
import json
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from diffusers import WanTransformer3DModel

import sightline as sl
from sightline.backbones.wan_configs import I2V_A14B, TI2V_5B
from sightline.cameras.token_grid import TokenGrid, TokenStride
from sightline.data.latents import LatentBatch
from sightline.timing import time_calls, warm_up
from sightline.training import memory
from sightline.training.objective import draw, flow_matching_loss
from sightline.training.optimizer import make_optimizer
from sightline.training.recipe import DataConfig, ModelConfig, ObjectiveConfig, OptimizerConfig, Recipe
from sightline.training.throughput import Throughput
from sightline.training.trainable import choose_trainable
from sightline.training.trainer import autocast

RELEASES = {"5b": TI2V_5B, "14b": I2V_A14B}


def main(
    model: Literal["5b", "14b"] = "5b",
    layers: int | None = None,
    steps: int = 5,
    num_frames: int = 81,
    width: int = 832,
    height: int = 480,
    train: Literal["paper", "lora"] = "paper",
    compile: bool = False,
    fused: bool = False,
    estimate_only: bool = False,
    output: Path | None = None,
) -> None:
    config = dict(RELEASES[model].transformer) | ({"num_layers": layers} if layers else {})
    size = (num_frames, width, height)
    if estimate_only:
        for name in ("without camera", "scope"):
            print(
                f"{name}: {estimated_gib(config, name == 'scope', size, RELEASES[model].stride, train):.2f} GiB estimated"
            )
        return
    results: dict[str, Any] = {
        "command": f"python benchmarks/train_step.py --model {model}" + (f" --layers {layers}" if layers else "")
        + (f" --train {train}" if train != "paper" else "") + (" --compile" if compile else "") + (" --fused" if fused else ""),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "layers": config["num_layers"],
        "size": f"{height} x {width} x {num_frames}",
    }  # fmt: skip
    for name in ("without camera", "scope"):
        results[name] = measure(config, name == "scope", steps, size, RELEASES[model].stride, train, compile, fused)
        results[name]["estimated GiB"] = estimated_gib(config, name == "scope", size, RELEASES[model].stride, train)
        print(name, json.dumps(results[name]))
        gc.collect()
        torch.cuda.empty_cache()
    results["ratio of step times"] = results["scope"]["seconds"] / results["without camera"]["seconds"]
    results["more memory, GiB"] = results["scope"]["peak GiB"] - results["without camera"]["peak GiB"]
    print(json.dumps(results, indent=2))
    if output is not None:
        output.write_text(json.dumps(results, indent=2) + "\n")


def measure(
    config: dict[str, Any],
    with_camera: bool,
    steps: int,
    size: tuple[int, int, int],  # num_frames, width, height
    stride: TokenStride,
    train: Any,
    compile: bool,
    fused: bool,
) -> dict[str, float]:
    device = torch.device("cuda")
    recipe = recipe_of(train)
    model = random_model(config, device)
    if with_camera:
        model = sl.CameraWanTransformer3DModel.from_transformer(model, sl.Scope(), copy=False)
    model.enable_gradient_checkpointing()
    if fused:
        sl.accelerate(model)
    if compile:
        model.compile_repeated_blocks(fullgraph=True, dynamic=False)
    trainable = choose_trainable(model, recipe.model)
    optimizer = make_optimizer(trainable, recipe.optimizer)
    batch = random_batch(model, with_camera, size, stride, device)

    numbers = itertools.count()

    def step() -> None:
        drawn = draw(batch, recipe.objective, next(numbers))
        with autocast(recipe, device):
            loss = flow_matching_loss(model, batch, drawn).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    throughput = Throughput.of(model, recipe.dtype, device, 1)
    warm_up(step, 1, device)
    timing = time_calls(step, steps, device)
    return {
        "seconds": timing.median,
        **throughput.scalars(*throughput.tokens(batch), 1, timing.median),
        "peak GiB": timing.peak_gib or 0.0,
        "trained": sum(p.numel() for p in trainable.values()),
        "all": sum(p.numel() for p in model.parameters()),
    }


def recipe_of(train: Any) -> Recipe:
    """What the paper's recipes say, for one clip."""
    return Recipe(
        model=ModelConfig(trainable=train, gradient_checkpointing=True),
        data=DataConfig(cache=("none",)),
        objective=ObjectiveConfig(),
        optimizer=OptimizerConfig(batch_size=1),
    )


def estimated_gib(
    config: dict[str, Any], with_camera: bool, size: tuple[int, int, int], stride: TokenStride, train: Any
) -> float:
    """What a run with these settings would say before its first step. Needs neither a GPU nor memory."""
    with torch.device("meta"):
        model: Any = WanTransformer3DModel(**config)
    if with_camera:
        model = sl.CameraWanTransformer3DModel.from_transformer(model, sl.Scope(), copy=False)
    recipe = recipe_of(train)
    choose_trainable(model, recipe.model)
    return (
        memory.estimate(model, recipe, TokenGrid.from_video(*size, stride).num_tokens, processes=1).total / memory.GIB
    )


def random_model(config: dict[str, Any], device: torch.device) -> Any:
    with torch.device("meta"):
        model = WanTransformer3DModel(**config)
    rope = WanTransformer3DModel(**(config | {"num_layers": 1, "num_attention_heads": 1, "ffn_dim": 8})).rope
    model.to_empty(device=device)
    model.rope = rope.to(device)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.02)
    return model.train()


def random_batch(
    model: Any, with_camera: bool, size: tuple[int, int, int], stride: TokenStride, device: torch.device
) -> LatentBatch:
    num_frames, width, height = size
    grid = TokenGrid.from_video(*size, stride)
    t, h, w = (size * patch for size, patch in zip(grid, model.config.patch_size, strict=True))
    out = model.config.out_channels
    trajectory = sl.moves.orbit(30, frames=num_frames, width=width, height=height)
    camera = sl.CameraTokens.from_trajectory(trajectory, grid).to(device) if with_camera else None
    extra = model.config.in_channels - out
    return LatentBatch(
        clip_indices=[0],
        latents=torch.randn(1, out, t, h, w, device=device),
        text=torch.randn(1, 512, 4096, device=device),
        empty_text=torch.zeros(512, 4096, device=device),
        camera_tokens=camera,
        condition=torch.randn(1, extra, t, h, w, device=device) if extra else None,
    )


if __name__ == "__main__":
    tyro.cli(main)
