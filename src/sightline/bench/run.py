"""One bench: the roofline and every row of a table, measured in turn on one machine."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sightline import __version__
from sightline.bench import sana_wm
from sightline.bench.clocks import Clocks
from sightline.bench.kernels import time_kernels
from sightline.bench.models import METHODS, MODES, Mode, Setting, call_arguments, random_base, variant
from sightline.bench.results import (
    ROOFLINE,
    BenchResults,
    Deviation,
    ScopeRatio,
    StepRow,
    StepTable,
    StepTime,
    What,
)
from sightline.bench.roofline import roofline_step
from sightline.errors import SightlineError
from sightline.kernels import HAS_TRITON, why_no_fp8
from sightline.timing import time_calls, warm_up
from sightline.training.recipe import ModelConfig
from sightline.training.trainable import choose_trainable


def all_rows(
    methods: Sequence[str] = METHODS, modes: Sequence[Mode] = MODES, rival_modes: Sequence[Mode] = ("compiled",)
) -> list[tuple[str, Mode]]:
    """(method, mode) of every row, in the order of the table. rival_modes: of all but the stock model and SCoPE."""
    return [(method, mode) for method in methods for mode in (modes if method in ("stock", "scope") else rival_modes)]


def bench(
    setting: Setting,
    what: Sequence[What],
    rows: Sequence[tuple[str, Mode]],
    steps: int,
    say: Callable[[str], None] = print,
    save: Callable[[BenchResults], None] = lambda results: None,
) -> BenchResults:
    """Measure one model. steps: timed steps of each row. save: called with the results so far after every row."""
    if not torch.cuda.is_available() and not setting.tiny:
        raise SightlineError("bench needs a CUDA GPU and there is none: expected one, or --tiny to rehearse on a CPU.")
    if setting.model == "sana-wm":
        sana_wm.require_rows(what, rows)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results = BenchResults(
        model=setting.model,
        layers=setting.config["num_layers"],
        tiny=setting.tiny,
        tokens=setting.tokens,
        size=f"{setting.height} x {setting.width} x {setting.num_frames}",
        steps=steps,
        device=torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        torch=torch.__version__,
        triton=_triton_version(),
        sightline=__version__,
    )
    for kind in what:
        say(f"{setting.model}, {kind}")
        try:
            if kind == "kernels":
                results.kernels = time_kernels(setting, device, steps)
                save(results)
                continue
            table = StepTable()
            setattr(results, kind, table)
            measured = (
                _measure_sana_wm(setting, rows, steps, device)
                if setting.model == "sana-wm"
                else _measure_rows(setting, kind == "training", rows, steps, device)
            )
            for row in measured:
                table.rows.append(row)
                say(_line(row))
                _add_ratios(table)
                table.scope_over = scope_over(table)
                save(results)
        except torch.cuda.OutOfMemoryError:
            raise SightlineError(
                f"{setting.model} itself does not fit into the GPU's memory: expected fewer layers or a smaller video."
            ) from None
    return results


def _measure_rows(
    setting: Setting, training: bool, rows: Sequence[tuple[str, Mode]], steps: int, device: torch.device
) -> Iterator[StepRow]:
    """The roofline, then row after row, all on the tensors of one base model."""
    base = random_base(setting, device)
    if training:
        choose_trainable(base, ModelConfig(trainable="paper"))

    def measure_roofline() -> StepRow:
        return StepRow(ROOFLINE, None, measure(roofline_step(base, setting, training), steps, device))

    yield _if_it_fits(measure_roofline) or StepRow(ROOFLINE, None, failed="out of memory")
    stock: Tensor | None = None
    if training:  # float32 weights and autocast to bfloat16, as in the trainer
        base.float()
    else:  # the output that every row's is compared with, where memory suffices
        stock = _if_it_fits(lambda: make_step(base, setting, False, device)())

    def measure_row(method: str, mode: Mode) -> StepRow:
        step = make_step(variant(base, method, mode, setting), setting, training, device)
        row = StepRow(method, mode, measure(step, steps, device))
        if stock is not None and method in ("stock", "scope", "sweep"):  # untrained, both compute the same function
            row.deviation = deviation(step(), stock)
        return row

    for method, mode in rows:
        torch._dynamo.reset()
        if "fp8" in mode and (reason := _why_no_fp8_row(setting, training, device)) is not None:
            yield StepRow(method, mode, failed=reason)
            continue
        yield _if_it_fits(partial(measure_row, method, mode)) or StepRow(method, mode, failed="out of memory")


def _why_no_fp8_row(setting: Setting, training: bool, device: torch.device) -> str | None:
    if training:
        return "FP8 has no gradients"
    return None if setting.tiny else why_no_fp8(device)


def _measure_sana_wm(
    setting: Setting, rows: Sequence[tuple[str, Mode]], steps: int, device: torch.device
) -> Iterator[StepRow]:
    """The stock model, eager before compiled. Its linear attention has no roofline here."""
    model, arguments = sana_wm.random_sana_wm(setting, device), sana_wm.call_arguments(setting, device)

    def infer() -> Tensor:
        with torch.no_grad():
            return model(**arguments)[0]

    def measure_row(method: str, mode: Mode) -> StepRow:
        if mode == "compiled":
            sana_wm.compiled(model, setting)
        return StepRow(method, mode, measure(infer, steps, device))

    for method, mode in sorted(rows, key=lambda row: row[1] == "compiled"):
        torch._dynamo.reset()
        yield _if_it_fits(partial(measure_row, method, mode)) or StepRow(method, mode, failed="out of memory")


def _if_it_fits(call: Callable[[], Any]) -> Any:
    """The result of the call, or None if it runs out of GPU memory; memory is freed before the next call."""
    try:
        return call()
    except torch.cuda.OutOfMemoryError:
        return None
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def make_step(model: Any, setting: Setting, training: bool, device: torch.device) -> Callable[[], Any]:
    """A function that calls the model once and, in training, runs the backward pass; without gradients it returns the output."""
    arguments = call_arguments(model, setting, device, torch.float32 if training else setting.dtype)
    if not training:

        def infer() -> Tensor:
            with torch.no_grad():
                return model(**arguments)[0]

        return infer

    model.train()
    model.enable_gradient_checkpointing()
    choose_trainable(model, ModelConfig(trainable="paper"))

    def train() -> None:  # without the optimizer, which costs the same for every method
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(**arguments)[0].float().square().mean()
        loss.backward()
        model.zero_grad(set_to_none=True)

    return train


def measure(step: Callable[[], Any], steps: int, device: torch.device) -> StepTime:
    """The time of a step after two that warm up (and compile), and the peak memory."""
    warm_up(step, 2, device)
    with Clocks(device) as clocks:
        timing = time_calls(step, steps, device)
    return StepTime(
        timing.median, min(timing.seconds), max(timing.seconds), timing.peak_gib, clocks.sm_mhz, clocks.watts
    )


def deviation(output: Tensor, stock: Tensor) -> Deviation:
    """Of an output from the eager stock model's."""
    difference, size = output.float() - stock.float(), stock.float().square().mean().sqrt()
    return Deviation((difference.square().mean().sqrt() / size).item(), (difference.abs().max() / size).item())


def _add_ratios(table: StepTable) -> None:
    roofline, compiled, eager = (table.seconds(name) for name in (ROOFLINE, "stock compiled", "stock eager"))
    for row in table.rows:
        if row.time is not None:
            seconds = row.time.seconds
            row.over_roofline = None if roofline is None else seconds / roofline
            row.over_stock_compiled = None if compiled is None else seconds / compiled
            row.over_stock_eager = None if eager is None else seconds / eager


def scope_over(table: StepTable) -> list[ScopeRatio]:
    """SCoPE's time over every other method's in the same mode: the methods' own cost under the same compiler and kernels."""
    ratios = []
    for mode in MODES:
        for row in table.rows:
            scope = table.seconds(f"scope {mode}")
            if row.mode == mode and row.method != "scope" and row.time is not None and scope is not None:
                ratios.append(ScopeRatio(row.method, mode, scope / row.time.seconds))
    return ratios


def _line(row: StepRow) -> str:
    if row.time is None:
        return f"{row.name}: {row.failed}"
    peak = "" if row.time.peak_gib is None else f", {row.time.peak_gib:.2f} GiB"
    clock = "" if row.time.sm_mhz is None else f", {row.time.sm_mhz:.0f} MHz, {row.time.watts:.0f} W"
    return f"{row.name}: {1000 * row.time.seconds:.2f} ms{peak}{clock}"


def _triton_version() -> str | None:
    if not HAS_TRITON:
        return None
    import triton

    return triton.__version__
