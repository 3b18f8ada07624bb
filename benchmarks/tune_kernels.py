"""Times the tiles that `qk` could use, forward and backward, on one layer of 5B and of 14B. About two minutes on a GPU.

    python benchmarks/tune_kernels.py -o outputs/tune.json

The best go into FORWARD (kernels/qk_triton.py), ROWS and COLUMNS (kernels/qk_backward_triton.py). GB/s counts one reading and one
writing of query and key, and for the backward pass two readings more: what a pass that is bound by memory alone would move.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Annotated, Any

import torch
import triton
import tyro

from sightline.bench.kernels import random_qk
from sightline.bench.models import Setting
from sightline.kernels import qk_backward_triton, qk_triton

TILES = [
    {"tokens": tokens, "block": block, "num_warps": warps, "num_stages": stages}
    for tokens, block, warps, stages in itertools.product((16, 32), (64, 128, 256), (4, 8), (1, 2))
    if tokens * block <= 4096
]


def main(output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None) -> None:
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "triton": triton.__version__}
    for model in ("5b", "14b"):
        for cameras in ("with camera", "without camera"):
            arguments = random_qk(Setting(model), torch.device("cuda"), cameras == "with camera")  # type: ignore[arg-type]
            grads = [torch.randn_like(x) for x in arguments[:2]]
            bytes_of_both = 2 * grads[0].nbytes
            for name, settings, call, passes in (
                ("forward", qk_triton.FORWARD, lambda a=arguments: qk_triton.qk(*a), 2),
                ("rows", qk_backward_triton.ROWS, lambda a=arguments, g=grads: qk_backward_triton.qk_backward(*g, *a), 4),
                ("columns", qk_backward_triton.COLUMNS, lambda a=arguments, g=grads: qk_backward_triton.qk_backward(*g, *a), 4),
            ):  # fmt: skip
                key, kept = f"{model} {cameras} {name}", dict(settings)
                timed = []
                for tile in TILES:
                    settings.update(tile)
                    try:
                        timed.append((triton.testing.do_bench(call, warmup=5, rep=20, return_mode="median"), tile))
                    except Exception as error:  # a tile that does not fit this GPU
                        print(f"{key}, {tile}: {type(error).__name__}")
                settings.update(kept)
                timed.sort(key=lambda one: one[0])
                found[key] = [{"ms": ms, "GB/s": passes * bytes_of_both / ms / 1e6, **tile} for ms, tile in timed[:5]]
                print(key, json.dumps(found[key][0]), flush=True)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
