"""Times the tiles that the kernels of `qk` could use, forward and backward, on one layer of 5B or 14B.

    python benchmarks/tune_kernels.py -o outputs/tune.json
    python benchmarks/tune_kernels.py --cameras sweep

The best go into FORWARD and FORWARD_TIED (kernels/qk_triton.py), ROWS and COLUMNS (kernels/qk_backward_triton.py), and COLUMNS
and COLUMNS_TIED (kernels/camera_backward_triton.py). Milliseconds are the GPU's own, of a CUDA graph: called from Python, one
operation costs the processor more than the GPU. They include what comes with a kernel (the packing of weights and the table of
tokens; of the backward pass, its other kernels). GB/s counts one reading and one writing of query and key, and for the backward
pass one reading of their gradients.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import triton
import tyro
from rich.progress import track

from sightline.bench.kernels import random_qk
from sightline.bench.models import Setting
from sightline.files import write_atomic
from sightline.kernels import camera_backward_triton, qk_backward_triton, qk_triton

Camera = Literal["scope", "sweep", "none"]

KERNELS: dict[str, tuple[dict[str, Any], list[tuple[int, int, int, int, int | None]]]] = {
    # tokens, block, warps, stages, most registers; the first of each is used while another kernel's tiles are timed
    "forward": (qk_triton.FORWARD, [
        (32, 128, 8, 1, 128), (32, 128, 8, 1, None), (32, 128, 8, 2, 128), (32, 128, 4, 1, None), (16, 128, 4, 1, 128),
        (16, 128, 4, 1, 96), (16, 256, 8, 1, 128), (64, 128, 8, 1, None),
    ]),
    "rows": (qk_backward_triton.ROWS, [
        (32, 128, 8, 1, None), (16, 128, 8, 1, None), (16, 128, 4, 1, None),
    ]),
    "columns": (qk_backward_triton.COLUMNS, [
        (16, 128, 4, 2, None), (16, 128, 8, 2, None), (16, 128, 8, 2, 64), (32, 128, 8, 2, 128),
    ]),
    "scope's columns": (camera_backward_triton.COLUMNS, [
        (32, 64, 4, 2, 168), (32, 64, 4, 2, None), (32, 64, 4, 1, None), (32, 64, 4, 2, 128), (32, 64, 8, 2, None),
        (32, 64, 8, 2, 128), (32, 128, 8, 2, None),
    ]),
    "sweep's forward": (qk_triton.FORWARD_TIED, [
        (32, 128, 8, 1, 128), (32, 128, 8, 1, None), (32, 128, 8, 2, 128), (64, 128, 16, 1, 128), (64, 128, 8, 1, None),
        (16, 128, 4, 1, 128), (16, 128, 4, 1, None),
    ]),
    "sweep's columns": (camera_backward_triton.COLUMNS_TIED, [
        (32, 64, 8, 2, 128), (32, 64, 8, 2, 168), (32, 64, 8, 1, 128), (32, 64, 4, 2, None), (32, 32, 4, 2, 128),
        (32, 32, 4, 2, 168), (64, 32, 4, 2, None),
    ]),
}  # fmt: skip
CAMERAS: dict[Camera, tuple[str, ...]] = {
    "scope": ("forward", "rows", "columns", "scope's columns"),
    "sweep": ("sweep's forward", "sweep's columns"),
    "none": ("forward", "rows", "columns"),
}


def main(
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    model: Literal["5b", "14b"] = "5b",
    cameras: tuple[Camera, ...] = ("scope", "sweep", "none"),
    processes: int = 8,
) -> None:
    """cameras: which encoding `qk` adds. processes: compile the tiles ahead, into Triton's cache."""
    cases = [
        (model, camera, kernel, number)
        for camera in cameras
        for kernel in CAMERAS[camera]
        for number in range(len(KERNELS[kernel][1]))
    ]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        list(track(pool.map(compile_one, cases), "compiling", total=len(cases)))
    results: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "triton": triton.__version__, "model": model}
    for case in track(cases, "timing"):
        key = f"{case[2]}, camera {case[1]}"
        results.setdefault(key, []).append(time_one(*case))
    for key, rows in results.items():
        if isinstance(rows, list):
            rows.sort(key=lambda row: row.get("ms", 1e9))
            print(key, *(json.dumps(row) for row in rows), sep="\n  ")
    if output is not None:
        write_atomic(output, json.dumps(results, indent=1) + "\n")


def compile_one(case: tuple[Literal["5b", "14b"], Camera, str, int]) -> None:
    try:
        with_tile(*case)[0]()
    except Exception:  # a tile that does not fit this GPU; the timing says so
        torch.cuda.empty_cache()


def time_one(model: Literal["5b", "14b"], camera: Camera, kernel: str, number: int) -> dict[str, Any]:
    call, bytes_moved, tile = with_tile(model, camera, kernel, number)
    try:
        ms = triton.testing.do_bench_cudagraph(call, rep=20, return_mode="median")
    except Exception as error:
        return {**tile, "failed": type(error).__name__}
    return {"ms": round(ms, 4), "GB/s": round(bytes_moved / ms / 1e6), **tile}


def with_tile(model: Literal["5b", "14b"], camera: Camera, kernel: str, number: int) -> tuple[Any, int, dict[str, Any]]:
    """The operation with one kernel's tile changed (and left so), the bytes it must move, and the tile."""
    for name, (settings, tiles) in KERNELS.items():
        tokens, block, warps, stages, registers = tiles[number if name == kernel else 0]
        tile = {"tokens": tokens, "block": block, "num_warps": warps, "num_stages": stages}
        settings.clear()
        settings.update(tile | ({"maxnreg": registers} if registers else {}))
    arguments = random_qk(Setting(model), torch.device("cuda"), None if camera == "none" else camera)
    grads = [torch.randn_like(x) for x in arguments[:2]]
    if kernel.endswith("forward"):
        return lambda: qk_triton.qk(*arguments), 4 * grads[0].nbytes, dict(KERNELS[kernel][0])
    return lambda: qk_backward_triton.qk_backward(*grads, *arguments), 6 * grads[0].nbytes, dict(KERNELS[kernel][0])


if __name__ == "__main__":
    tyro.cli(main)
