"""Judged claims as a table and as a plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from sightline.evaluation.tables import NO_VALUE, format_number, grid
from sightline.figures import IntervalPanel, IntervalRow, draw_intervals
from sightline.study.claims import FACTS
from sightline.study.comparison import is_better_lower
from sightline.study.judging import ClaimVerdict, JudgedClaim
from sightline.study.layout import metric_heading, metric_title

CLAIMS_HEAD = ["Claim", "Place", "Table", "Metric", "Ours", "Difference, 95 %", "Paper", "Verdict"]
PLOT_CAPTION = (
    "How much better the first row of each claim is, in % of the second, with 95 % intervals. Green: the claim holds; red: it "
    "does not; grey: not shown. Ticks are the figures of the paper."
)
_PAIR_LETTERS = 24  # of both rows, in one line of a plot

_SEVERAL: dict[ClaimVerdict, str] = {
    "holds": "hold", "does not hold": "do not hold", "not shown": "not shown", "not measured": "not measured",
}  # fmt: skip


def summary_of(judged: Sequence[JudgedClaim], subject: str = "the paper's claims") -> str:
    """How many claims hold, as a sentence."""
    counts = Counter(claim.verdict for claim in judged)
    listed = ", ".join(
        f"{counts[verdict]} {verdict if counts[verdict] == 1 else several}"
        for verdict, several in _SEVERAL.items()
        if counts[verdict]
    )
    return f"{len(judged)} tests of {subject}: {listed}."


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


def draw_claims(judged: Sequence[JudgedClaim], file: Path) -> bool:
    """Draw the claims on two rows of one table, a panel for each table and metric; False where there is none."""
    panels: dict[str, list[IntervalRow]] = {}
    for one in judged:
        if one.effect is not None:
            effect, (low, high) = one.effect
            row = IntervalRow(
                _pair_name(*one.claim.rows),
                100 * effect,
                None if low is None else 100 * low,
                None if high is None else 100 * high,
                tone=_tone(one),
                points=_paper_effect(one),
            )
            panels.setdefault(f"{one.setting}: {metric_title(one.claim.metric)} (%)", []).append(row)
    if panels:
        ordered = sorted(panels.items(), key=lambda item: -len(item[1]))  # those side by side are then equally high
        draw_intervals([IntervalPanel(title, rows, zero=True) for title, rows in ordered], file)
    return bool(panels)


def _pair_name(first: str, second: str) -> str:
    """In two lines where one would be cut."""
    return f"{first}{' ' if len(first) + len(second) <= _PAIR_LETTERS else chr(10)}against {second}"


def _tone(judged: JudgedClaim) -> Literal["plain", "better", "worse"]:
    return "better" if judged.verdict == "holds" else "worse" if judged.verdict == "does not hold" else "plain"


def _paper_effect(judged: JudgedClaim) -> list[float]:
    paper = judged.claim.paper
    if len(paper) != 2 or paper[1] == 0:
        return []
    sign = -1 if is_better_lower(judged.claim.metric) else 1
    return [100 * sign * (paper[0] - paper[1]) / abs(paper[1])]
