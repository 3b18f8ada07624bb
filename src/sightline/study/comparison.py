"""The rows of a study's table against each other: a mean with its interval for each row, a verdict for each pair of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from sightline.errors import SightlineError
from sightline.evaluation.bootstrap import LEVEL, RESAMPLES, Interval
from sightline.study.results import COST, METRICS, POSE_METRICS, POSES, RunResult
from sightline.study.statistics import Bootstrap, collect, values_by_clip

Verdict = Literal["better", "worse", "no difference shown", "not tested"]
OPPOSITE: dict[Verdict, Verdict] = {"better": "worse", "worse": "better"}
MIN_SEEDS = 3  # a study with fewer says so


@dataclass(frozen=True)
class Summary:
    """The mean of a row. clips: those that every seed of the row has measured."""

    mean: float
    interval: Interval
    seeds: int
    clips: int


@dataclass(frozen=True)
class Pair:
    """Two rows. difference: first minus second, over the clips and seeds that both have.

    p_value: two-sided; None where neither seeds nor clips can be resampled. corrected: by Holm over all pairs of the table.
    verdict: on the first row.
    """

    first: str
    second: str
    difference: float
    interval: Interval
    p_value: float | None
    corrected: float | None
    verdict: Verdict
    seeds: int
    clips: int


@dataclass(frozen=True)
class MetricComparison:
    """One metric or cost in one table. best: rows that no other row beats.

    asked: clips of the study for this metric. values: of each row that this was measured for, how many values there are, and
    how many were asked for, over all seeds. pairs: empty for times that are no measurement of the method (see is_compared).
    """

    metric: str
    asked: int
    values: dict[str, tuple[int, int]]
    summaries: dict[str, Summary]
    pairs: list[Pair]

    def pair(self, first: str, second: str) -> Pair | None:
        """The pair as seen from its first row, whichever order it was computed in."""
        for pair in self.pairs:
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.first, pair.second) == (second, first):
                return _turned(pair)
        return None

    @property
    def best(self) -> list[str]:
        """Rows that no other row is significantly better than; empty where no pair could be tested."""
        if all(pair.verdict == "not tested" for pair in self.pairs):
            return []
        beaten = {pair.second for pair in self.pairs if pair.verdict == "better"}
        beaten |= {pair.first for pair in self.pairs if pair.verdict == "worse"}
        return [row for row in self.summaries if row not in beaten]


@dataclass(frozen=True)
class TableComparison:
    """All metrics and costs of one table. rows: in the order of the results, with those that failed.

    failures: one sentence for each row, or for some seeds of a row, that could not run.
    learning_rates: those that the seeds of a row were trained with, as RATE or, where the encoding has another, RATE x SCALE.
    """

    study: str
    table: str
    rows: list[str]
    seeds: list[int]
    metrics: dict[str, MetricComparison]
    learning_rates: dict[str, list[str]]
    failures: dict[str, str]


def is_better_lower(metric: str) -> bool:
    """Whether smaller values are better. Costs are; facts have no direction of their own and count as costs."""
    return metric not in METRICS or METRICS[metric].better == "lower"


def is_compared(runs: Sequence[RunResult], metric: str) -> bool:
    """Whether rows are compared in this. The time of a step is, where the study timed each row alone on the device; while others
    run, and for a whole training, it is that of the machine and differs between two runs of the same code.
    """
    if metric == "step_seconds":
        return all("denoise_seconds" in run.cost for run in runs)  # which only the timing measures
    return metric != "train_seconds"


def compare_tables(results: Sequence[RunResult], resamples: int = RESAMPLES) -> list[TableComparison]:
    """One comparison for each table of each study, in the order of the results."""
    if not results:
        raise SightlineError("results is empty: expected at least one run of a study.")
    tables: dict[tuple[str, str], list[RunResult]] = {}
    for run in results:
        tables.setdefault((run.study, run.table), []).append(run)
    return [_compare_table(runs, resamples) for runs in tables.values()]


def _compare_table(runs: Sequence[RunResult], resamples: int) -> TableComparison:
    finished = [run for run in runs if run.failure is None]
    names = [name for name in (*METRICS, *COST) if any(name in run.metrics or name in run.cost for run in finished)]
    rows = list(dict.fromkeys(run.row for run in runs))
    return TableComparison(
        study=runs[0].study,
        table=runs[0].table,
        rows=rows,
        seeds=sorted({run.seed for run in finished}),
        metrics={name: compare_metric(finished, name, resamples) for name in names},
        learning_rates={row: sorted({_rate(run) for run in finished if run.row == row}) for row in rows},
        failures={row: sentence for row in rows if (sentence := _failure([run for run in runs if run.row == row]))},
    )


def compare_metric(runs: Sequence[RunResult], metric: str, resamples: int = RESAMPLES) -> MetricComparison:
    """The rows of one table in one metric or cost."""
    values = collect(runs, metric)
    bootstrap = Bootstrap(values, resamples)
    asked = _asked(runs, metric)
    counts: dict[str, tuple[int, int]] = {}
    for run in runs:
        if metric in (run.metrics if metric in METRICS else run.cost):
            measured, of = counts.get(run.row, (0, 0))
            counts[run.row] = measured + len(values_by_clip(run, metric)), of + len(asked)
    means = {row: bootstrap.mean(row) for row in values.rows}
    summaries = {
        row: Summary(mean.estimate, mean.interval, mean.seeds, mean.clips) for row, mean in means.items() if mean
    }
    pairs = []
    for first, second in combinations(values.rows, 2) if is_compared(runs, metric) else ():
        found = bootstrap.difference(first, second)
        if found is not None:
            pairs.append(
                Pair(first, second, found.estimate, found.interval, found.p_value, None, "not tested", found.seeds, found.clips)
            )  # fmt: skip
    return MetricComparison(metric, len(asked), counts, summaries, _with_verdicts(pairs, is_better_lower(metric)))


def _asked(runs: Sequence[RunResult], metric: str) -> list[str]:
    """The clips that a metric was to be measured on. A cost has one value per run."""
    if metric not in METRICS:
        return [""]
    asked = dict.fromkeys(clip for run in runs for clip in run.asked(metric))
    if metric in POSE_METRICS and not any(POSES in run.clips for run in runs):  # results of before they were noted
        estimated = {clip for name in POSE_METRICS for run in runs for clip in values_by_clip(run, name)}
        asked = {clip: None for clip in asked if clip in estimated} or asked
    return list(asked)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: p-values that keep the chance of any false finding among all of them at their level."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min((len(p_values) - rank) * p_values[index], 1.0))
        adjusted[index] = largest
    return adjusted


def verdict_of(difference: float, p_value: float | None, lower_is_better: bool) -> Verdict:
    """p_value: corrected."""
    if p_value is None:
        return "not tested"
    if p_value > round(1 - LEVEL, 10) or difference == 0:
        return "no difference shown"
    return "better" if (difference < 0) == lower_is_better else "worse"


def _with_verdicts(pairs: Sequence[Pair], lower_is_better: bool) -> list[Pair]:
    corrected = iter(holm([pair.p_value for pair in pairs if pair.p_value is not None]))
    done = []
    for pair in pairs:
        p_value = None if pair.p_value is None else next(corrected)
        verdict = verdict_of(pair.difference, p_value, lower_is_better)
        done.append(Pair(**{**vars(pair), "corrected": p_value, "verdict": verdict}))
    return done


def _turned(pair: Pair) -> Pair:
    low, high = pair.interval
    interval = (None if high is None else -high, None if low is None else -low)
    verdict = OPPOSITE.get(pair.verdict, pair.verdict)
    turned = {"first": pair.second, "second": pair.first, "difference": -pair.difference, "interval": interval}
    return Pair(**{**vars(pair), **turned, "verdict": verdict})


def _rate(run: RunResult) -> str:
    scale = run.facts.get("encoding_lr_scale", 1.0)
    return f"{run.learning_rate:g}" + (f" x {scale:g}" if scale != 1 else "")


def _failure(runs: Sequence[RunResult]) -> str:
    """Why a row has no result, or which of its seeds have none."""
    failed = [run for run in runs if run.failure is not None]
    if len(failed) == len(runs) and len({run.failure for run in failed}) == 1:
        return str(failed[0].failure)
    return " ".join(f"Seed {run.seed}: {run.failure}" for run in failed)
