"""What a training step on many GPUs sends, computed from the configurations: no GPU is needed.

    python benchmarks/parallel_plan.py                          64 GPUs, the paper's trained set, 400 Gb/s for each GPU
    python benchmarks/parallel_plan.py --gpus 16 --network 25

Every GPU trains one clip. Volumes are what each GPU sends and receives in a step if every collective is a ring: (n - 1) / n of
the bytes for a gather or a scatter, and twice that for a sum. Weights and gradients are exchanged in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import tyro
from diffusers import WanTransformer3DModel

import sightline as sl
from sightline.backbones.flops import training_flops
from sightline.backbones.wan_configs import I2V_A14B, TI2V_5B, WanConfig
from sightline.cameras.token_grid import TokenGrid
from sightline.timing import GB
from sightline.training.recipe import ModelConfig
from sightline.training.throughput import peak_flops
from sightline.training.trainable import choose_trainable

_BYTES = 4  # float32
_RELEASES: Mapping[str, WanConfig] = {"TI2V-5B": TI2V_5B, "A14B, one expert": I2V_A14B}


@dataclass(frozen=True)
class Plan:
    """Bytes of one GPU: what it holds of weights, gradients and AdamW's moments, and what it sends in a step."""

    state: float
    sent: float


def plan(everything: int, trained: int, gpus: int, parallel: Literal["ddp", "fsdp2"]) -> Plan:
    """everything, trained: numbers of parameters."""
    ring = (gpus - 1) / gpus
    held = _BYTES * (everything + 3 * trained)
    if parallel == "ddp":  # gradients are summed
        return Plan(held, 2 * ring * _BYTES * trained)
    # Weights are gathered for the forward and for the backward pass, and gradients scattered to their owners.
    return Plan(held / gpus, ring * _BYTES * (2 * everything + trained))


def parameters(config: WanConfig) -> tuple[int, int]:
    """All parameters of a transformer with SCoPE, and those of the paper's trained set."""
    with torch.device("meta"):
        base = WanTransformer3DModel(**config.transformer)
    model: Any = sl.CameraWanTransformer3DModel.from_transformer(base, sl.Scope(), copy=False)
    trained = choose_trainable(model, ModelConfig(trainable="paper"))
    return sum(p.numel() for p in model.parameters()), sum(p.numel() for p in trained.values())


def main(gpus: int = 64, network: float = 50.0, gpu: str = "H200", mfu: float = 0.4) -> None:
    """network: GB/s of each GPU between machines. mfu: an assumption, for the time of the computation."""
    peak = peak_flops(gpu)
    if peak is None:
        raise SystemExit(f"gpu is {gpu!r}: expected one of the table in sightline.training.throughput.")
    print(f"{gpus} GPUs, one clip of 480 x 832 x 81 each, {network:g} GB/s between machines, MFU {mfu:.0%} assumed")
    print("| | parallel | state of a GPU, GB | sent by a GPU in a step, GB | seconds to send | seconds to compute |")
    print("|---|---|---|---|---|---|")
    for name, config in _RELEASES.items():
        everything, trained = parameters(config)
        tokens = TokenGrid.from_video(81, 832, 480, config.stride).num_tokens
        compute = training_flops(config.transformer, tokens, 512, trained / everything) / (peak * mfu)
        for parallel in ("ddp", "fsdp2"):
            one = plan(everything, trained, gpus, parallel)
            sending = one.sent / GB / network
            print(
                f"| {name} | {parallel} | {one.state / GB:.1f} | {one.sent / GB:.1f} | {sending:.2f} | {compute:.2f} |"
            )


if __name__ == "__main__":
    tyro.cli(main)
