"""What the plots of a study show: means, differences and verdicts of each metric, losses and parameters over training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from sightline.figures import (
    HistoryLine,
    HistoryPanel,
    IntervalPanel,
    IntervalRow,
    VerdictPanel,
    draw_histories,
    draw_intervals,
    draw_verdicts,
    picture_or_warning,
)
from sightline.study.comparison import TableComparison, Verdict
from sightline.study.layout import layouts, metric_heading
from sightline.study.results import METRICS, RunResult
from sightline.training.curves import running_mean

_LOSSES = {"train_loss": "training loss", "loss": "held-out loss"}
_PARAMETERS = {"alpha_q": "alpha of queries", "alpha_k": "alpha of keys", "alpha_v": "alpha of values"}
_SMOOTH = 0.02  # of all points: the window of the running mean of a training loss
_GRID = 200  # points of a line


def draw_plots(table: TableComparison, runs: Sequence[RunResult], folder: Path, name: str) -> dict[str, Path]:
    """Draw the plots of one table; returns those that have something to show, by caption. runs: of this table."""
    finished = [run for run in runs if run.failure is None]
    reference = reference_row(table)
    of_reference = [run for run in finished if run.row == reference]
    drawings: list[tuple[str, str, Callable[[Path], bool]]] = [
        ("intervals", "Means with intervals. Ticks are single seeds, and no other row is better than those in blue.",
         lambda file: _draw_means(table, finished, file)),
        ("differences", f"Differences to {reference} with intervals. Green: better; red: worse; grey: no difference shown. "
         "Holm's correction for the number of pairs applies to these verdicts and not to the intervals: one that excludes 0 may "
         "be grey. A row with arrows extends beyond the axis; its numbers stand beside them.",
         lambda file: _draw_differences(table, reference, file)),
        ("verdicts", "Verdicts. The row on the left against the row above: + better, − worse, · no difference shown.",
         lambda file: _draw_verdicts(table, file)),
        ("loss", "Loss over steps and time. Bands are the range of the seeds; the time of a step is the mean over the seeds of a "
         "row. The vertical axes fit the last three quarters of the training.",
         lambda file: _draw_losses(finished, file)),
        ("parameters", "Parameters of the encodings over training. Means over the layers; bands are the range of the seeds.",
         lambda file: _draw_parameters(finished, file)),
        ("layers", f"Parameters of {reference} over training, by layer. Bands are the range of the seeds.",
         lambda file: _draw_layers(of_reference, file)),
    ]  # fmt: skip
    drawn = {}
    for kind, caption, draw in drawings:
        file = folder / f"{name}-{kind}.png"
        with picture_or_warning(file):
            if draw(file):
                drawn[caption] = file
    return drawn


def reference_row(table: TableComparison) -> str:
    """The row that the others are compared with: the paper's method where the table has it, else the first one with a result."""
    rows = [row for row in table.rows if any(row in compared.summaries for compared in table.metrics.values())]
    return next((row for row in rows if "scope" in row.casefold()), (rows or table.rows)[0])


def _shown(table: TableComparison) -> list[str]:
    """Metrics in the order of the tables; the costs only where a table has a column for them."""
    measured = [name for name, compared in table.metrics.items() if compared.summaries]
    return list(dict.fromkeys(name for layout in layouts(table.study, measured) for name in layout.metrics))


def _draw_means(table: TableComparison, runs: Sequence[RunResult], file: Path) -> bool:
    panels = []
    for name in _shown(table):
        compared = table.metrics[name]
        rows = []
        for row, summary in compared.summaries.items():
            values = [run.mean(name) if name in METRICS else run.cost.get(name) for run in runs if run.row == row]
            points = [value for value in values if value is not None]
            rows.append(
                IntervalRow(
                    row,
                    summary.mean,
                    *summary.interval,
                    tone="best" if row in compared.best else "plain",
                    points=points,
                )
            )
        panels.append(IntervalPanel(metric_heading(name), rows))
    if panels:
        draw_intervals(panels, file)
    return bool(panels)


def _draw_differences(table: TableComparison, reference: str, file: Path) -> bool:
    panels = []
    for name in _shown(table):
        pairs = [table.metrics[name].pair(row, reference) for row in table.rows if row != reference]
        rows = [
            IntervalRow(pair.first, pair.difference, *pair.interval, tone=_tone(pair.verdict)) for pair in pairs if pair
        ]
        if rows:
            panels.append(IntervalPanel(metric_heading(name), rows, zero=True))
    if panels:
        draw_intervals(panels, file)
    return bool(panels)


def _tone(verdict: Verdict) -> Literal["plain", "better", "worse"]:
    return "better" if verdict == "better" else "worse" if verdict == "worse" else "plain"


def _draw_verdicts(table: TableComparison, file: Path) -> bool:
    panels = []
    for name in _shown(table):
        compared = table.metrics[name]
        rows = list(compared.summaries)
        if len(rows) > 1:
            pairs = [[compared.pair(left, above) for above in rows] for left in rows]
            panels.append(
                VerdictPanel(
                    metric_heading(name), rows, [[pair.verdict if pair else "" for pair in line] for line in pairs]
                )
            )
    if panels:
        draw_verdicts(panels, file)
    return bool(panels)


def _draw_losses(runs: Sequence[RunResult], file: Path) -> bool:
    panels = []
    for name, title in _LOSSES.items():
        for xlabel, scale in (("step", None), ("training time (s)", "step_seconds")):
            lines = [_line(row, of_row, name, scale) for row, of_row in _by_row(runs).items()]
            if found := [line for line in lines if line is not None]:
                panels.append(HistoryPanel(title, xlabel, found, late=True))
    return _draw(panels, file)


def _draw_parameters(runs: Sequence[RunResult], file: Path) -> bool:
    """A panel for each kind of history that is given by layer, such as alpha_q/3."""
    panels = []
    for kind in _layered(runs):
        lines = [_layer_mean(row, of_row, kind) for row, of_row in _by_row(runs).items()]
        panels.append(
            HistoryPanel(
                f"{_parameter_title(kind)}, mean of absolute values",
                "step",
                [line for line in lines if line is not None],
            )
        )
    return _draw(panels, file)


def _draw_layers(runs: Sequence[RunResult], file: Path) -> bool:
    panels = []
    for kind in _layered(runs):
        layers = sorted(
            {int(name.partition("/")[2]) for run in runs for name in run.history if name.startswith(f"{kind}/")}
        )
        lines = [_line(f"layer {layer}", runs, f"{kind}/{layer}") for layer in layers]
        panels.append(HistoryPanel(_parameter_title(kind), "step", [line for line in lines if line is not None]))
    return _draw(panels, file)


def _draw(panels: Sequence[HistoryPanel], file: Path) -> bool:
    if panels:
        draw_histories(panels, file)
    return bool(panels)


def _by_row(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    rows: dict[str, list[RunResult]] = {}
    for run in runs:
        rows.setdefault(run.row, []).append(run)
    return rows


def _layered(runs: Sequence[RunResult]) -> list[str]:
    """Kinds of history that are given by layer."""
    names = (name.partition("/") for run in runs for name in run.history)
    return list(dict.fromkeys(kind for kind, _, layer in names if layer.isdecimal()))


def _parameter_title(kind: str) -> str:
    """What a history of the encodings is called: those of SCoPE in words, others by their names."""
    if kind.startswith("gate_at_"):
        return f"gate of rays with a moment of {kind.removeprefix('gate_at_')}"
    return _PARAMETERS.get(kind, kind.replace("_", " "))


def _line(name: str, runs: Sequence[RunResult], key: str, scale: str | None = None) -> HistoryLine | None:
    """One history of the seeds of a row. scale: the cost that turns steps into what is drawn along x, by its mean over the seeds:
    with a scale for each seed, their mean would be one of different steps."""
    costs = [run.cost.get(scale, np.nan) for run in runs] if scale else [1.0]
    factor = float(np.mean(costs))
    if not np.isfinite(factor):
        return None
    curves = []
    for run in runs:
        points = np.array(run.history.get(key, []), float).reshape(-1, 2)
        points = points[np.isfinite(points).all(axis=1)]
        if len(points):
            values = _smooth(points[:, 1]) if key == "train_loss" else points[:, 1]
            curves.append((points[:, 0] * factor, values))
    if not curves:
        return None
    first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    x = np.linspace(first, max(last, first), _GRID) if last > first else np.array([first])
    return HistoryLine(name, x, np.stack([np.interp(x, *curve) for curve in curves]))


def _layer_mean(row: str, runs: Sequence[RunResult], kind: str) -> HistoryLine | None:
    """The mean over the layers of the absolute values."""
    names = sorted({name for run in runs for name in run.history if name.startswith(f"{kind}/")})
    lines = [line for name in names if (line := _line(row, runs, name)) is not None]
    if not lines or any(len(line.x) != len(lines[0].x) for line in lines):
        return None
    return HistoryLine(row, lines[0].x, np.mean([np.abs(line.values) for line in lines], axis=0))


def _smooth(values: np.ndarray) -> np.ndarray:  # [N]
    """A running mean, since the loss of a single step is mostly noise."""
    return running_mean(values.tolist(), max(int(_SMOOTH * len(values)), 1))
