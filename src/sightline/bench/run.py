"""One run: the floor and every row of a table, measured in turn on one machine; medians, ratios, json and a picture."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from sightline import __version__
from sightline.bench.clocks import Clocks
from sightline.bench.floor import floor_step
from sightline.bench.kernels import time_kernels
from sightline.bench.models import FLOOR, METHODS, MODES, Mode, Setting, call_arguments, random_base, variant
from sightline.errors import SightlineError
from sightline.files import write_atomic
from sightline.generation.memory import GIB
from sightline.kernels import HAS_TRITON
from sightline.training.recipe import ModelConfig
from sightline.training.trainable import choose_trainable

What = Literal["inference", "training", "kernels"]
REFERENCE = "stock compiled"  # what users of the camera-free model run at best


def all_rows(
    methods: Sequence[str] = METHODS, modes: Sequence[Mode] = MODES, rival_modes: Sequence[Mode] = ("compiled",)
) -> list[tuple[str, Mode]]:
    """(method, mode) of every row, in the order of the table. rival_modes: of all but the stock model and SCoPE."""
    return [(one, mode) for one in methods for mode in (modes if one in ("stock", "scope") else rival_modes)]


def bench(
    setting: Setting,
    what: Sequence[What],
    rows: Sequence[tuple[str, Mode]],
    steps: int,
    say: Callable[[str], None] = print,
    save: Callable[[dict[str, Any]], None] = lambda found: None,
) -> dict[str, Any]:
    """Everything that was measured on one model, as json takes it. save: called with what there is after every row."""
    if not torch.cuda.is_available() and not setting.tiny:
        raise SightlineError("bench needs a CUDA GPU and there is none: expected one, or --tiny to rehearse on a CPU.")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found: dict[str, Any] = {
        "model": setting.model, "layers": setting.config["num_layers"], "tiny": setting.tiny, "tokens": setting.tokens,
        "size": f"{setting.height} x {setting.width} x {setting.frames}", "steps": steps, "sightline": __version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__, "triton": _triton_version(),
    }  # fmt: skip
    for one in what:
        say(f"{setting.model}, {one}")
        try:
            if one == "kernels":
                found[one] = time_kernels(setting, device, steps)
                save(found)
                continue
            found[one] = {}
            for name, row in _rows(setting, one == "training", rows, steps, device):
                found[one][name] = row
                say(_line(name, row))
                _add_ratios(found[one])
                found[f"scope over, {one}"] = scope_over(found[one])
                save(found)
        except torch.cuda.OutOfMemoryError:
            raise SightlineError(
                f"{setting.model} itself does not fit into the GPU's memory: expected fewer layers or a smaller film."
            ) from None
    return found


def _rows(
    setting: Setting, training: bool, rows: Sequence[tuple[str, Mode]], steps: int, device: torch.device
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The floor, then row after row, all on the tensors of one base model."""
    base = random_base(setting, device)
    if training:
        choose_trainable(base, ModelConfig(trainable="paper"))
    yield FLOOR, _if_it_fits(lambda: measure(floor_step(base, setting, training), steps, device))
    stock: dict[str, Tensor] = {}
    if training:  # float32 weights, and autocast to bf16, as the trainer has it
        base.float()
    else:  # what every row's output is compared with, where it fits
        stock = _if_it_fits(lambda: {"output": make_step(base, setting, False, device)()})

    def measured(method: str, mode: Mode) -> dict[str, Any]:
        step = make_step(variant(base, method, mode, setting), setting, training, device)
        row = measure(step, steps, device)
        if "output" in stock and method in ("stock", "scope"):  # SCoPE is untrained here: the same function
            row |= distance(step(), stock["output"])
        return row

    for method, mode in rows:
        torch._dynamo.reset()
        yield f"{method} {mode}", _if_it_fits(partial(measured, method, mode))


def _if_it_fits(row: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The row, or that it does not fit into memory; what it held is let go before the next."""
    try:
        return row()
    except torch.cuda.OutOfMemoryError:
        return {"failed": "out of memory"}
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def make_step(model: Any, setting: Setting, training: bool, device: torch.device) -> Callable[[], Any]:
    """Calls the model once, and in training goes back; without gradients the output is returned."""
    arguments = call_arguments(model, setting, device, torch.float32 if training else setting.dtype)
    if not training:

        def infer() -> Tensor:
            with torch.no_grad():
                return model(**arguments)[0]

        return infer

    model.train()
    model.enable_gradient_checkpointing()
    choose_trainable(model, ModelConfig(trainable="paper"))

    def train() -> None:  # without the optimiser, which costs every method the same
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(**arguments)[0].float().square().mean()
        loss.backward()
        model.zero_grad(set_to_none=True)

    return train


def measure(step: Callable[[], Any], steps: int, device: torch.device) -> dict[str, Any]:
    """Median seconds of a step after two that warm up (and compile), and the peak of memory."""
    cuda = device.type == "cuda"
    for _ in range(2):
        step()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    times = []
    with Clocks(device) as clocks:
        for _ in range(steps):
            started = time.perf_counter()
            step()
            if cuda:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
    peak = torch.cuda.max_memory_allocated() / GIB if cuda else None
    found = {"seconds": statistics.median(times), "fastest": min(times), "slowest": max(times), "peak_gib": peak}
    return found | clocks.found


def distance(output: Tensor, stock: Tensor) -> dict[str, float]:
    """How far an output is from the eager stock model's, of its RMS: the RMS of the difference, and the largest."""
    difference, size = output.float() - stock.float(), stock.float().square().mean().sqrt()
    return {
        "off_stock": (difference.square().mean().sqrt() / size).item(),
        "off_stock_most": (difference.abs().max() / size).item(),
    }


def _add_ratios(table: dict[str, Any]) -> None:
    for reference, name in (
        (FLOOR, "over_floor"),
        (REFERENCE, "over_stock_compiled"),
        ("stock eager", "over_stock_eager"),
    ):
        if "seconds" in table.get(reference, {}):
            for row in table.values():
                if "seconds" in row:
                    row[name] = row["seconds"] / table[reference]["seconds"]


def scope_over(table: dict[str, Any]) -> dict[str, float]:
    """SCoPE's time over every other method's in the same mode: the methods' own cost, given the same compiler and kernels."""
    times = {name: row["seconds"] for name, row in table.items() if "seconds" in row}
    return {
        f"{method}, {mode}": times[f"scope {mode}"] / times[f"{method} {mode}"]
        for mode in MODES
        for method in METHODS
        if method != "scope" and {f"scope {mode}", f"{method} {mode}"} <= times.keys()
    }


def _line(name: str, row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{name}: {row['failed']}"
    peak = "" if row["peak_gib"] is None else f", {row['peak_gib']:.2f} GiB"
    clock = f", {row['sm_mhz']:.0f} MHz, {row['watts']:.0f} W" if "sm_mhz" in row else ""
    return f"{name}: {1000 * row['seconds']:.2f} ms{peak}{clock}"


def _triton_version() -> str | None:
    if not HAS_TRITON:
        return None
    import triton

    return triton.__version__


def write(found: Sequence[dict[str, Any]], folder: Path, command: str) -> None:
    """bench.json with everything that there is so far."""
    write_atomic(folder / "bench.json", json.dumps({"command": command, "results": list(found)}, indent=1) + "\n")
