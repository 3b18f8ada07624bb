"""What the results of studies say about each claim: holds, does not hold, or not shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sightline.evaluation.bootstrap import Interval
from sightline.evaluation.tables import NO_VALUE, format_number
from sightline.study.claims import Claim, read_claims
from sightline.study.comparison import Pair, TableComparison, compare_tables, is_better_lower, verdict_of
from sightline.study.results import RunResult
from sightline.study.statistics import Bootstrap, collect
from sightline.study.tables import format_mean

ClaimVerdict = Literal["holds", "does not hold", "not shown", "not measured"]
_RESCALED = {name: f"{name}_rescaled" for name in ("trans_err", "cam_mc", "ate")}


@dataclass(frozen=True)
class JudgedClaim:
    """A claim in one table. ours, difference: as text; `ours` says why where nothing was measured.

    effect: of a claim on two rows of one table, how much better the first is, as a fraction of the second, with its interval.
    """

    claim: Claim
    setting: str
    ours: str
    difference: str
    verdict: ClaimVerdict
    effect: tuple[float, Interval] | None = None


def judge_claims(
    results: Sequence[RunResult],
    claims: Sequence[Claim] | None = None,
    tables: Sequence[TableComparison] | None = None,
    everything: bool = False,
) -> list[JudgedClaim]:
    """What the results say about each claim, once for every table that tests it. In a table without raw lengths, whose clips have
    no common unit, a claim on a raw error is judged by the rescaled one.

    claims: by default those of the paper. tables: the comparison of these results, where it exists already.
    everything: also name the claims that these results say nothing about, as not measured.
    """
    tables = compare_tables(results) if tables is None else tables
    judged = []
    for claim in read_claims() if claims is None else claims:
        found = [] if claim.untested else [table for table in tables if _is_tested_in(claim.as_in(table.study), table)]
        judged += [_judge(claim.as_in(table.study), table, results) for table in found]
        if not found and everything:
            judged.append(JudgedClaim(claim, NO_VALUE, claim.untested or NO_VALUE, NO_VALUE, "not measured"))
    return judged


def _is_tested_in(claim: Claim, table: TableComparison) -> bool:
    """main-5b and main-seconds also test the claims of main, on the rows that they have."""
    if claim.table not in (None, table.table):
        return False
    if table.study == claim.study or table.study in claim.elsewhere:
        return True
    return table.study.startswith(f"{claim.study}-") and set(claim.rows) <= set(table.rows)


def _judge(claim: Claim, table: TableComparison, results: Sequence[RunResult]) -> JudgedClaim:
    if (
        claim.metric in _RESCALED
        and not _is_measured(table, claim.metric)
        and _is_measured(table, _RESCALED[claim.metric])
    ):
        claim = replace(claim, metric=_RESCALED[claim.metric])  # lengths without a common unit
    runs = [run for run in results if (run.study, run.table) == (table.study, table.table)]
    setting = f"{table.study}, {table.table}"
    if claim.expect == "wider":
        return _judge_margin(claim, setting, [run for run in results if run.study == table.study])
    if claim.expect in ("above", "below"):
        return _judge_limit(claim, setting, runs)
    compared = table.metrics.get(claim.metric)
    pair = compared.pair(*claim.rows) if compared else None
    if compared is None or pair is None:
        return _not_measured(claim, setting, table)
    means = [compared.summaries[row].mean for row in claim.rows]
    lower = is_better_lower(claim.metric)
    verdict = _pair_verdict(claim, pair, abs(means[1]), lower)
    ours = " against ".join(map(format_number, means))
    text = _with_interval(pair.difference, pair.interval, means[1])
    return JudgedClaim(claim, setting, ours, text, verdict, _effect(pair, abs(means[1]), lower))


def _is_measured(table: TableComparison, metric: str) -> bool:
    return metric in table.metrics and bool(table.metrics[metric].summaries)


def _effect(pair: Pair, scale: float, lower_is_better: bool) -> tuple[float, Interval] | None:
    """How much better the first row is, relative to the second."""
    if scale == 0:
        return None
    factor = (-1 if lower_is_better else 1) / scale
    low, high = (None if end is None else factor * end for end in pair.interval)
    return factor * pair.difference, (high, low) if factor < 0 else (low, high)


def _pair_verdict(claim: Claim, pair: Pair, scale: float, lower_is_better: bool) -> ClaimVerdict:
    """scale: what the limit is relative to."""
    if claim.expect == "better":
        return {"better": "holds", "worse": "does not hold"}.get(pair.verdict, "not shown")  # type: ignore[return-value]
    low, high = pair.interval
    limit = (claim.limit or 0.0) * scale
    if low is None or high is None:
        return "not shown"
    if claim.expect == "not worse":
        smallest, largest = (low, high) if lower_is_better else (-high, -low)  # how much worse the first row is
        return "holds" if largest <= limit else "does not hold" if smallest > limit else "not shown"
    if -limit <= low and high <= limit:
        return "holds"
    return "does not hold" if low > limit or high < -limit else "not shown"


def _judge_limit(claim: Claim, setting: str, runs: Sequence[RunResult]) -> JudgedClaim:
    values = collect(runs, claim.metric)
    [row] = claim.rows
    mean = Bootstrap(values).mean(row) if row in values.rows else None
    if mean is None or claim.limit is None:
        return JudgedClaim(claim, setting, NO_VALUE, NO_VALUE, "not measured")
    low, high = (mean.estimate if end is None else end for end in mean.interval)
    holds, fails = low > claim.limit, high < claim.limit
    if claim.expect == "below":
        holds, fails = fails, holds
    verdict: ClaimVerdict = "holds" if holds else "does not hold" if fails else "not shown"
    return JudgedClaim(claim, setting, " ".join(format_mean(mean.estimate, mean.interval)), NO_VALUE, verdict)


def _judge_margin(claim: Claim, setting: str, runs: Sequence[RunResult]) -> JudgedClaim:
    """The margins of two tables in one contrast: the same rows, seeds and clips, at two sizes of the model."""
    both = [replace(run, row=f"{run.table}/{run.row}") for run in runs if run.table in (claim.table, claim.than)]
    values = collect(both, claim.metric)
    tables = ((claim.table, claim.rows), (claim.than, claim.than_rows or claim.rows))
    pairs = [tuple(f"{table}/{row}" for row in rows) for table, rows in tables]
    growth, bootstrap = None, Bootstrap(values)
    if {row for pair in pairs for row in pair} <= set(values.rows):
        growth = bootstrap.margin_growth(pairs[0], pairs[1])  # type: ignore[arg-type]
    if growth is None:
        return JudgedClaim(claim, setting, NO_VALUE, NO_VALUE, "not measured")
    verdict = verdict_of(growth.estimate, growth.p_value, is_better_lower(claim.metric))
    word: ClaimVerdict = "holds" if verdict == "better" else "does not hold" if verdict == "worse" else "not shown"
    text, interval = format_mean(100 * growth.estimate, _times_100(growth.interval))
    margins = [_margin(bootstrap, *pair) for pair in pairs]
    ours = f"{margins[0]} ({claim.table}) against {margins[1]} ({claim.than})"
    return JudgedClaim(claim, setting, ours, f"{text} {interval} % of the ratio".strip(), word)


def _margin(bootstrap: Bootstrap, first: str, second: str) -> str:
    """The first row relative to the second, such as -12.0 %, over the clips and seeds that both have."""
    difference, mean = bootstrap.difference(first, second), bootstrap.mean(second)
    return NO_VALUE if difference is None or mean is None else _percent(difference.estimate / mean.estimate)


def _not_measured(claim: Claim, setting: str, table: TableComparison) -> JudgedClaim:
    missing = [row for row in claim.rows if row not in table.rows or row in table.failures]
    reasons = [table.failures.get(row, f"{row} is not in this table.") for row in missing]
    if not reasons and claim.metric in table.metrics and not table.metrics[claim.metric].summaries:
        reasons = ["no value on any clip."]
    if not reasons and _is_measured(table, claim.metric) and not table.metrics[claim.metric].pairs:
        reasons = ["not compared: the time of a step was not measured alone on the device."]
    return JudgedClaim(claim, setting, " ".join(reasons) or NO_VALUE, NO_VALUE, "not measured")


def _with_interval(difference: float, interval: Interval, scale: float) -> str:
    text, shown_interval = format_mean(difference, interval)
    return f"{text} {shown_interval}".rstrip() + (f" ({_percent(difference / scale)})" if scale > 0 else "")


def _percent(share: float) -> str:
    """With its sign; what is rounded to 0 has none."""
    percent = round(100 * share, 1)
    return f"{percent:+.1f} %" if percent else "0.0 %"


def _times_100(interval: Interval) -> Interval:
    low, high = interval
    return (None if low is None else 100 * low, None if high is None else 100 * high)
