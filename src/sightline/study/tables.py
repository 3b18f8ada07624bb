"""The tables of a study in the paper's layout. A cell has a mean and its 95 % interval; bold are the rows that no other beats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sightline.evaluation.bootstrap import LEVEL, RESAMPLES, Interval
from sightline.evaluation.efficiency import INTEGRATIONS
from sightline.evaluation.tables import NO_VALUE, format_number
from sightline.study.comparison import MIN_SEEDS, MetricComparison, Summary, TableComparison
from sightline.study.layout import Layout, layouts, metric_heading, metric_title
from sightline.study.results import CAMERA_METRICS, COST, METRICS


@dataclass(frozen=True)
class TableCell:
    """interval: empty where there is none."""

    text: str
    interval: str = ""
    bold: bool = False


@dataclass(frozen=True)
class Sheet:
    """One table as it is written. name: empty for the first of a table. head: headings of the columns.

    groups: heading and number of neighbouring columns. numbers: by row, what the csv file holds.
    method: how intervals and bold cells were made. notes: on single cells and rows.
    """

    name: str
    title: str
    head: list[str]
    groups: list[tuple[str, int]]
    rows: list[list[TableCell]]
    numbers: list[dict[str, float | str | None]]
    method: str
    notes: list[str]


def make_sheets(table: TableComparison) -> list[Sheet]:
    """All tables of one comparison, in the paper's order."""
    measured = [name for name, compared in table.metrics.items() if compared.summaries]
    shown = [_make_sheet(table, layout) for layout in layouts(table.study, measured)]
    return shown or [_make_sheet(table, Layout("", "", ()))]  # every row failed: the table says so


def format_mean(mean: float, interval: Interval) -> tuple[str, str]:
    """A mean and its interval, with as many decimals as the interval's half-width has up to its second digit."""
    low, high = interval
    if low is None or high is None or high - low <= 1e-9 * abs(mean):  # a count, or a value that no seed changes
        return format_number(mean), ""
    decimals = min(max(1 - math.floor(math.log10((high - low) / 2)), 0), 8)
    low, mean, high = (0.0 if abs(value) < 0.5 * 10**-decimals else value for value in (low, mean, high))
    return f"{mean:.{decimals}f}", f"[{low:.{decimals}f}, {high:.{decimals}f}]"


def _make_sheet(table: TableComparison, layout: Layout) -> Sheet:
    costs = [name for name in ("new_parameters", "step_seconds") if name not in layout.metrics]
    if len({summary.mean for summary in _summaries(table, "steps").values()}) > 1:
        costs.append("steps")  # equal seconds: the number of steps is then a result
    integrations = {row: _integration(row) for row in table.rows if "peak_gib" in layout.metrics}
    has_integration = any(integrations.values())
    head = [layout.rows, *(["Camera integration"] if has_integration else []), *map(metric_heading, layout.metrics)]
    cameras = next((name for name in layout.metrics if name in CAMERA_METRICS), None)
    head += [*(["cameras found"] if cameras else []), *(COST[name] for name in costs)]
    has_rates = bool(set(table.metrics) & set(METRICS))  # in a study of cost alone, nothing is learned
    head += [*(["learning rate"] if has_rates else []), "seeds"]
    rows, numbers = [], []
    for row in table.rows:
        cells = [TableCell(row)] + ([TableCell(integrations[row] or NO_VALUE)] if has_integration else [])
        cells += [_metric_cell(table.metrics[name], row) for name in layout.metrics]
        if cameras:
            counts = table.metrics[cameras].values.get(row)
            cells.append(TableCell("{} of {}".format(*counts) if counts else NO_VALUE))
        cells += [_cost_cell(table, name, row) for name in costs]
        if has_rates:
            cells.append(TableCell(", ".join(table.learning_rates[row]) or NO_VALUE))
        cells.append(TableCell(str(_seeds(table, row))))
        rows.append(cells)
        numbers.append(_numbers(table, layout, row, cameras, costs))
    groups = [("", 2 if has_integration else 1), *((text, len(names)) for text, names in layout.groups)]
    groups.append(("", len(head) - sum(count for _, count in groups)))
    text = ": ".join(part for part in (f"{table.study}, {table.table}", layout.title) if part)
    return Sheet(layout.name, text, head, groups, rows, numbers, _method(table), _notes(table, layout))


def _integration(row: str) -> str:
    """How a method takes the camera in, of a row such as "PRoPE, own branch"."""
    return INTEGRATIONS.get(row.partition(",")[0].lower(), "")


def _summaries(table: TableComparison, name: str) -> dict[str, Summary]:
    return table.metrics[name].summaries if name in table.metrics else {}


def _seeds(table: TableComparison, row: str) -> int:
    """The largest number of seeds that any metric of the row has."""
    return max(
        (compared.summaries[row].seeds for compared in table.metrics.values() if row in compared.summaries), default=0
    )


def _metric_cell(compared: MetricComparison, row: str) -> TableCell:
    if row not in compared.summaries:
        return TableCell(NO_VALUE)
    summary = compared.summaries[row]
    text, interval = format_mean(summary.mean, summary.interval)
    return TableCell(text, interval, row in compared.best)


def _cost_cell(table: TableComparison, name: str, row: str) -> TableCell:
    summaries = _summaries(table, name)
    if row not in summaries:
        return TableCell(NO_VALUE)
    mean = summaries[row].mean
    return TableCell(f"{mean:,.0f}" if name in ("new_parameters", "steps") or mean >= 100 else f"{mean:#.3g}")


def _numbers(
    table: TableComparison, layout: Layout, row: str, cameras: str | None, costs: Sequence[str]
) -> dict[str, float | str | None]:
    """Unrounded, with the rows that are bold."""
    numbers: dict[str, float | str | None] = {"row": row}
    for name in layout.metrics:
        summary = table.metrics[name].summaries.get(row)
        low, high = summary.interval if summary else (None, None)
        numbers |= {name: summary.mean if summary else None, f"{name}_low": low, f"{name}_high": high}
        numbers |= {
            f"{name}_best": str(row in table.metrics[name].best).lower(),
            f"{name}_clips": summary.clips if summary else 0,
        }
    if cameras:
        found, asked = table.metrics[cameras].values.get(row, (0, 0))
        numbers |= {"cameras_found": found, "cameras_asked": asked}
    for name in costs:
        numbers[name] = _summaries(table, name)[row].mean if row in _summaries(table, name) else None
    numbers |= {"learning_rate": ", ".join(table.learning_rates[row]), "seeds": _seeds(table, row)}
    return numbers | {"failure": table.failures.get(row, "")}


def _method(table: TableComparison) -> str:
    rows = len([row for row in table.rows if _seeds(table, row)])
    seeds, pairs = len(table.seeds), rows * (rows - 1) // 2
    has_clips = any(name in METRICS for name in table.metrics)
    text = (
        f"Means with {100 * LEVEL:.0f} % intervals over {'clips and ' * has_clips}{seeds} seed{'s' * (seeds != 1)} "
        f"({RESAMPLES:,} bootstrap resamples). Bold: no other row is significantly better, by the paired bootstrap with Holm's "
        f"correction over the {pairs} pair{'s' * (pairs != 1)} of rows."
    )
    if has_clips:
        text += (
            " The interval of a mean holds the variation between clips, which all rows share: pairs are judged by their "
            "difference, not by the overlap of their intervals."
        )
    if seeds == 1 and has_clips:
        text += (
            " There is one seed: intervals and verdicts are over clips only, and say nothing about another training."
        )
    elif 1 < seeds < MIN_SEEDS:
        text += f" There are {seeds} seeds: a result needs at least {MIN_SEEDS}."
    return text


def _notes(table: TableComparison, layout: Layout) -> list[str]:
    incomplete: dict[tuple[int, str], list[str]] = {}  # metrics by the clips that are missing
    for name in layout.metrics:
        compared = table.metrics[name]
        clips = {row: compared.summaries[row].clips if row in compared.summaries else 0 for row in compared.values}
        if listed := ", ".join(f"{row} {count}" for row, count in clips.items() if count < compared.asked):
            incomplete.setdefault((compared.asked, listed), []).append(metric_title(name))
    notes = [
        f"Measured on fewer than {asked} clips, because some have no value: {', '.join(names)} ({listed}). A pair is compared "
        "on the clips that both rows have."
        for (asked, listed), names in incomplete.items()
    ]
    nowhere = [
        metric_title(name) for name, compared in table.metrics.items() if compared.asked and not compared.summaries
    ]
    if nowhere and not layout.name:
        notes.append(f"Without a value on any clip of any row: {', '.join(nowhere)}.")
    untested = [name for name in layout.metrics if name in COST and len(table.metrics[name].summaries) > 1]
    untested = [name for name in untested if all(pair.verdict == "not tested" for pair in table.metrics[name].pairs)]
    if untested:
        names = ", ".join(map(metric_title, untested))
        notes.append(f"Without intervals and verdicts, because their variation was not measured: {names}.")
    return notes + [f"{row}: {sentence}" for row, sentence in table.failures.items()]
