"""Which columns the tables of a study have: those of the paper's tables in their order, then what was measured besides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sightline.study.results import COST, METRICS


@dataclass(frozen=True)
class Layout:
    """name: of the table's files, after that of the table. groups: heading and metrics (or costs) of neighbouring columns.

    rows: the heading of the first column.
    """

    name: str
    title: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    rows: str = "Method"

    @property
    def metrics(self) -> list[str]:
        return [metric for _, metrics in self.groups for metric in metrics]

    def of(self, measured: Collection[str]) -> Layout:
        """The layout with the columns that were measured."""
        groups = ((heading, tuple(name for name in metrics if name in measured)) for heading, metrics in self.groups)
        return replace(self, groups=tuple(group for group in groups if group[1]))


_QUALITY = ("Quality", ("loss", "psnr_moved"))
_RESCALED = Layout(
    "rescaled", "Rescaled alignment",
    (("Camera controllability, rescaled", ("rot_err", "trans_err_rescaled", "cam_mc_rescaled", "ate_rescaled")),),
)  # fmt: skip
_REVISIT = Layout(
    "revisit", "Closed loops",
    (
        ("Camera return", ("return_ratio", "return_rotation", "normalised_ate")),
        ("Appearance recovery", ("return_lpips", "lpips_recovery", "return_dino", "return_ssim", "ssim_recovery")),
    ),
)  # fmt: skip
_MAIN = Layout("", "", (_QUALITY, ("Camera controllability", ("rot_err", "trans_err", "cam_mc", "ate"))))
_ABLATION = Layout("", "", (_QUALITY, ("Camera controllability", ("rot_err", "cam_mc", "ate"))))  # without TransErr
_EFFICIENCY = Layout("", "", (("Cost", ("denoise_seconds", "step_seconds", "peak_gib")),))
_OF_STUDY = {
    "pe-design": (replace(_MAIN, rows="PE design"), _RESCALED, _REVISIT),
    "components": (replace(_ABLATION, rows="Variant"), _RESCALED, _REVISIT),
    "data": (replace(_ABLATION, rows="Training mixture"), _RESCALED, _REVISIT),
    "revisit": (replace(_REVISIT, name=""), replace(_MAIN, name="standard", title="Open trajectories"), _RESCALED),
    "efficiency": (_EFFICIENCY, replace(_MAIN, name="standard", title="Quality and control"), _RESCALED, _REVISIT),
}


def layouts(study: str, measured: Collection[str]) -> list[Layout]:
    """The tables of a study. What no table of the paper shows is in a last one, so that nothing measured is hidden.

    A study such as main-5b has the layout of main. `main`, `scale` and studies of other names have that of the main table.
    """
    known = next((name for name in _OF_STUDY if study == name or study.startswith(f"{name}-")), "")
    chosen = _OF_STUDY.get(known, (_MAIN, _RESCALED, _REVISIT))
    # RotErr has no scale; where nothing else of the rescaled table was measured, the table would only repeat it.
    chosen = tuple(
        layout for layout in chosen if layout.name != "rescaled" or set(layout.metrics) & set(measured) > {"rot_err"}
    )
    shown = {metric for layout in chosen for metric in layout.metrics}
    rest = tuple(name for name in METRICS if name not in shown)
    first = chosen[0].rows
    parts = [
        replace(layout, rows=first).of(measured)
        for layout in (*chosen, Layout("others", "Other metrics", (("", rest),)))
    ]
    return [layout for layout in parts if layout.groups]


def metric_heading(metric: str) -> str:
    """The heading of a column, with unit and direction."""
    if metric not in METRICS:
        return f"{COST[metric]} ↓"
    info = METRICS[metric]
    return f"{info.title}{f' ({info.unit})' if info.unit else ''} {info.arrow}"


def metric_title(metric: str) -> str:
    """What a metric, a cost or a fact is called in a sentence."""
    return METRICS[metric].title if metric in METRICS else COST.get(metric, metric.replace("_", " "))
