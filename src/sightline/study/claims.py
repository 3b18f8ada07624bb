"""The paper's claims, one by one, and what the results of a study say about each: holds, does not hold, or not shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from sightline.checks import shown
from sightline.documents import read_yaml
from sightline.errors import SightlineError
from sightline.evaluation.bootstrap import Interval
from sightline.evaluation.tables import NO_VALUE, format_number, grid
from sightline.settings import from_dict
from sightline.study.comparison import Pair, TableComparison, compare_tables, verdict_of
from sightline.study.layout import metric_heading, metric_title
from sightline.study.results import COST, METRICS, RunResult
from sightline.study.statistics import Bootstrap, collect
from sightline.study.tables import format_mean

SHIPPED = Path(__file__).parent / "claims.yaml"
CLAIMS_HEAD = ["Claim", "Place", "Table", "Metric", "Ours", "Difference, 95 %", "Paper", "Verdict"]
ClaimVerdict = Literal["holds", "does not hold", "not shown", "not measured"]
Expectation = Literal["better", "similar", "above", "below", "wider"]
_ROWS: dict[Expectation, int] = {"better": 2, "similar": 2, "above": 1, "below": 1, "wider": 2}
_RESCALED = {name: f"{name}_rescaled" for name in ("trans_err", "cam_mc", "ate")}
FACTS = ("reciprocal_share",)  # of RunResult.facts, those that a claim may be about


@dataclass(frozen=True)
class Names:
    """Rows and tables of a claim as another study calls them; what is not given is as in the claim."""

    rows: tuple[str, ...] = ()
    table: str | None = None


@dataclass(frozen=True)
class Claim:
    """One claim. place: in the paper. study, table, metric, rows: where it is tested; without a table, in every one of the study.

    expect: of rows [a, b]: a is `better` than b; a is `similar` to b, within the relative `limit`; or the relative margin of a
        over b is `wider` in `table` than in the table `than`, whose rows are `than_rows` where they have other names.
        Of rows [a]: its mean is `above` or `below` the `limit`.
    elsewhere: the names of studies that test the claim on other rows or tables, such as data-5b. Other variants of the study,
        such as main-5b and main-seconds, test it where they have its rows.
    paper: the paper's figures of the rows. untested: why no study tests the claim; nothing else is then given.
    """

    claim: str
    place: str
    study: str = ""
    metric: str = ""
    rows: tuple[str, ...] = ()
    expect: Expectation = "better"
    table: str | None = None
    than: str | None = None
    than_rows: tuple[str, ...] = ()
    limit: float | None = None
    elsewhere: dict[str, Names] = field(default_factory=dict)
    paper: tuple[float, ...] = ()
    untested: str = ""

    def __post_init__(self) -> None:
        known = (*METRICS, *COST, *FACTS)
        if self.untested:
            return
        if self.metric not in known:
            raise SightlineError(f"metric is {shown(self.metric)}: expected one of {', '.join(known)}.")
        if not self.study or len(self.rows) != _ROWS[self.expect] or len(self.paper) not in (0, len(self.rows)):
            raise SightlineError(
                f"study, rows, paper: expected the name of a study, {_ROWS[self.expect]} row(s) to expect {self.expect!r} of, "
                "and as many figures of the paper or none."
            )
        if (self.limit is None) != (self.expect in ("better", "wider")):
            raise SightlineError("limit: expected a number with similar, above and below, and none with the others.")
        if (self.expect == "wider") != (self.than is not None and self.table is not None):
            raise SightlineError(
                "than: expected a table to compare `table` with where the margin should be wider, else none."
            )
        for study, names in self.elsewhere.items():
            if len(names.rows) not in (0, len(self.rows)):
                raise SightlineError(
                    f"elsewhere.{study}.rows: expected {len(self.rows)} row(s), or none for the same ones."
                )

    def as_in(self, study: str) -> Claim:
        """The claim with the names that a study has for its rows and table."""
        names = self.elsewhere.get(study)
        if names is None:
            return self
        return replace(self, rows=names.rows or self.rows, table=names.table or self.table)


@dataclass(frozen=True)
class JudgedClaim:
    """A claim in one table. ours, difference: as text; `ours` says why where nothing was measured."""

    claim: Claim
    setting: str
    ours: str
    difference: str
    verdict: ClaimVerdict


def read_claims(file: Path = SHIPPED) -> list[Claim]:
    """The claims of a YAML file, by default those of the paper."""
    entries = read_yaml(file, "claims in YAML", list)
    return [from_dict(Claim, entry, f"{file}: claim {number}: ") for number, entry in enumerate(entries, start=1)]


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


def summary_of(judged: Sequence[JudgedClaim]) -> str:
    """How many claims hold, as a sentence."""
    counts = Counter(claim.verdict for claim in judged)
    listed = ", ".join(
        f"{counts[verdict]} {verdict}"
        for verdict in ("holds", "does not hold", "not shown", "not measured")
        if counts[verdict]
    )
    return f"{len(judged)} tests of the paper's claims: {listed}."


def claim_rows(judged: Sequence[JudgedClaim]) -> list[list[str]]:
    """The table of claims, under CLAIMS_HEAD. A claim that several tables test is named in the first of its rows only."""
    rows = [_claim_cells(claim) for claim in judged]
    repeated = [False, *(rows[i][:2] == rows[i - 1][:2] for i in range(1, len(rows)))]
    return [["", "", *row[2:]] if again else row for row, again in zip(rows, repeated, strict=False)]


def _claim_cells(judged: JudgedClaim) -> list[str]:
    claim = judged.claim
    paper = " against ".join(format_number(value) for value in claim.paper)
    if len(claim.paper) == 2 and claim.paper[1] > 0:
        paper += f" ({claim.paper[0] / claim.paper[1] - 1:+.0%})".replace("%", " %")
    metric = (
        NO_VALUE
        if claim.untested
        else metric_title(claim.metric)
        if claim.metric in FACTS
        else metric_heading(claim.metric)
    )
    return [
        claim.claim, claim.place, judged.setting, metric, judged.ours, judged.difference, paper or NO_VALUE, judged.verdict,
    ]  # fmt: skip


def claims_markdown(judged: Sequence[JudgedClaim]) -> str:
    return grid(CLAIMS_HEAD, claim_rows(judged)) + "\n"


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
    verdict = _pair_verdict(claim, pair, abs(means[1]))
    ours = " against ".join(map(format_number, means))
    return JudgedClaim(claim, setting, ours, _with_interval(pair.difference, pair.interval, means[1]), verdict)


def _is_measured(table: TableComparison, metric: str) -> bool:
    return metric in table.metrics and bool(table.metrics[metric].summaries)


def _pair_verdict(claim: Claim, pair: Pair, scale: float) -> ClaimVerdict:
    if claim.expect == "better":
        return {"better": "holds", "worse": "does not hold"}.get(pair.verdict, "not shown")  # type: ignore[return-value]
    low, high = pair.interval
    limit = (claim.limit or 0.0) * scale
    if low is None or high is None:
        return "not shown"
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
    growth = None
    if {row for pair in pairs for row in pair} <= set(values.rows):
        growth = Bootstrap(values).margin_growth(pairs[0], pairs[1])  # type: ignore[arg-type]
    if growth is None:
        return JudgedClaim(claim, setting, NO_VALUE, NO_VALUE, "not measured")
    lower = METRICS[claim.metric].better == "lower" if claim.metric in METRICS else True
    verdict = verdict_of(growth.estimate, growth.p_value, lower)
    word: ClaimVerdict = "holds" if verdict == "better" else "does not hold" if verdict == "worse" else "not shown"
    text, interval = format_mean(100 * growth.estimate, _times_100(growth.interval))
    return JudgedClaim(
        claim, setting, f"{claim.table} against {claim.than}", f"{text} {interval} % of the ratio".strip(), word
    )


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
