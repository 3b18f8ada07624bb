"""Tables of what methods cost: of one run, and of several runs on the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sightline.errors import SightlineError
from sightline.evaluation.efficiency import EfficiencyResults, EfficiencySettings, MethodCost
from sightline.evaluation.results import RESULTS, read_result, write_result
from sightline.evaluation.tables import NO_VALUE, format_number, grid, paper_section
from sightline.files import write_atomic

# Runs that differ in one of these measured different things.
_MUST_AGREE = ("num_frames", "width", "height", "device_name", "dtype", "offload", "peak_of")
_SHOULD_AGREE = ("model", "videos", "warm_up", "speed", "attention", "threads")


@dataclass(frozen=True)
class EfficiencyComparison:
    """What compare.json holds. over_first: each method's seconds per step over those of the first that was measured."""

    runs: list[str]
    methods: list[MethodCost]
    over_first: list[float | None]
    settings: list[EfficiencySettings]


def write_efficiency(results: EfficiencyResults, output: Path) -> str:
    """Write results.json and table.md; returns the table."""
    text = "\n\n".join(
        part
        for part in (
            "# Efficiency", _method(results.settings, len(results.methods)), _table(results.methods),
            paper_section("This run", results.settings.paper),
        )
        if part
    )  # fmt: skip
    write_result(output / RESULTS, results)
    write_atomic(output / "table.md", text + "\n")
    return text


def write_efficiency_comparison(folders: Sequence[Path], output: Path) -> str:
    """Write compare.json and compare.md: the methods of all runs in one table; returns the table."""
    runs = [read_result(EfficiencyResults, folder / RESULTS) for folder in folders]
    first = runs[0].settings
    for folder, run in zip(folders[1:], runs[1:], strict=True):
        for name in _MUST_AGREE:
            found, wanted = getattr(run.settings, name), getattr(first, name)
            if found != wanted:
                raise SightlineError(f"{folder} has {name} {found!r}: expected {wanted!r}, as {folders[0]} has.")
    labels = [method.label for run in runs for method in run.methods]
    methods = [
        replace(method, label=f"{method.label} ({folder.name})") if labels.count(method.label) > 1 else method
        for folder, run in zip(folders, runs, strict=True)
        for method in run.methods
    ]
    notes = _differences(folders, [run.settings for run in runs])
    text = "\n\n".join(["# Efficiency", _method(first, len(methods)), _table(methods), *notes])
    base = _base(methods)
    ratios = [_over(method, base) for method in methods]
    comparison = EfficiencyComparison(list(map(str, folders)), methods, ratios, [run.settings for run in runs])
    write_result(output / "compare.json", comparison)
    write_atomic(output / "compare.md", text + "\n")
    return text


def _differences(folders: Sequence[Path], settings: Sequence[EfficiencySettings]) -> list[str]:
    """A sentence on every setting that changes what a step costs and that the runs do not share."""
    values = [asdict(one.sampling) | {name: getattr(one, name) for name in _SHOULD_AGREE} for one in settings]
    notes = []
    for name in values[0]:
        if any(one[name] != values[0][name] for one in values):
            listed = ", ".join(f"{folder} {one[name]}" for folder, one in zip(folders, values, strict=True))
            notes.append(f"The runs differ in {name}: {listed}.")
    return [*notes, f"The sentence above the table is about {folders[0]}."] if notes else []


def _base(methods: Sequence[MethodCost]) -> MethodCost:
    """What the others are divided by: the first method that could be measured."""
    return next((method for method in methods if method.step_seconds is not None), methods[0])


def _over(method: MethodCost, first: MethodCost) -> float | None:
    if method.step_seconds is None or first.step_seconds is None:
        return None
    return method.step_seconds.mean / first.step_seconds.mean


def _table(methods: Sequence[MethodCost]) -> str:
    base = _base(methods)
    head = [
        "Method", "Camera integration", "Step latency (s) ↓", "median (s) ↓", f"over {base.label} ↓", "Peak memory (GB) ↓",
    ]  # fmt: skip
    rows = []
    for method in methods:
        seconds = method.step_seconds
        times = [NO_VALUE] * 2 if seconds is None else [f"{seconds.mean:.4g}", f"{seconds.median:.4g}"]
        ratio = format_number(_over(method, base))
        rows.append([method.label, method.integration or NO_VALUE, *times, ratio, format_number(method.peak_gb)])
    failures = [f"- {method.label}: {method.failure}" for method in methods if method.failure]
    return grid(head, rows) + ("\n\n## Failures\n\n" + "\n".join(failures) if failures else "")


def _method(settings: EfficiencySettings, methods: int) -> str:
    sampling = settings.sampling
    passes = (2 if sampling.guidance_scale > 1 else 1) * (1 if sampling.camera_guidance_scale == 1 else 2)
    return (
        f"Mean over the {sampling.num_inference_steps} denoising steps of {settings.videos} whole video(s) of "
        f"{settings.num_frames} frames of {settings.width}x{settings.height} for each of {methods} method(s), with "
        f"{settings.model} in {settings.dtype} on {settings.device_name}; text guidance {sampling.guidance_scale:g}, "
        f"which makes {passes} "
        f"pass{'es' * (passes > 1)} a step{', after one video to warm up' if settings.warm_up else ''}. Memory is that of "
        f"{settings.peak_of}, in GB of 10^9 bytes."
    )
