"""The results of a study as tables for the terminal: means over clips and seeds, without statistics."""

from __future__ import annotations

import statistics

from sightline.study.plan import Plan
from sightline.study.results import COST, METRICS, RunResult, read_results

Printed = tuple[str, list[str], list[tuple[str, ...]]]  # title, header, rows


def mean_table(plan: Plan, table: str) -> Printed:
    """One table of a study."""
    results = [result for result in read_results(plan.folder) if result.table == table and result.failure is None]
    metrics = [name for name in METRICS if any(name in result.metrics for result in results)]
    costs = [name for name in COST if any(name in result.cost for result in results)]
    header = ["", "seeds", *(f"{METRICS[n].title} {METRICS[n].arrow}" for n in metrics), *(COST[n] for n in costs)]
    rows = []
    for label in plan.study.rows:
        of_row = [result for result in results if result.row == label]
        if of_row:
            cells = [_mean([result.mean(name) for result in of_row]) for name in metrics]
            rows.append((label, str(len(of_row)), *cells, *(_cost(of_row, name) for name in costs)))
    return f"{plan.name}, {plan.study.tables[table].title or table}", header, rows


def failures(plan: Plan) -> list[str]:
    """A sentence for each row that could not run, once for all of its seeds."""
    failed = [result for result in read_results(plan.folder) if result.failure is not None]
    return list(dict.fromkeys(f"{result.table}, {result.row} cannot run: {result.failure}" for result in failed))


def _mean(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.fmean(known):.4f}" if known else "-"


def _cost(results: list[RunResult], name: str) -> str:
    value = statistics.fmean(result.cost.get(name, 0.0) for result in results)
    return f"{value:,.0f}" if name in ("new_parameters", "steps") else f"{value:.3g}"
