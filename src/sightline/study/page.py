"""The HTML page of a study: one file with its tables, plots and verdicts, that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.evaluation.page import environment
from sightline.files import write_atomic
from sightline.study.claims_table import CLAIMS_HEAD, claim_rows, summary_of
from sightline.study.comparison import TableComparison
from sightline.study.judging import JudgedClaim
from sightline.study.table_files import PAIRS_HEAD, pairs_rows
from sightline.study.tables import Sheet

_TONES = {  # the class of a cell that holds only this
    "better": "better", "holds": "better", "worse": "worse", "does not hold": "worse", "no difference shown": "same",
    "not tested": "same", "not shown": "same", "not measured": "same",
}  # fmt: skip


@dataclass(frozen=True)
class Section:
    """One table of a study on the page. plots: files by caption. title: what the name of the table means."""

    table: TableComparison
    sheets: Sequence[Sheet]
    plots: Mapping[str, Path]
    title: str = ""

    @property
    def heading(self) -> str:
        names = f"{self.table.study}, {self.table.table}"
        return f"{names}: {self.title}" if self.title else names


def write_page(
    path: Path, title: str, summary: str, sections: Sequence[Section], claims: Sequence[JudgedClaim]
) -> None:
    """claims: those of the paper that this study can judge."""
    page = environment("sightline.study").get_template("study.html.j2").render(
        title=title,
        summary=summary,
        tones=_TONES,
        claims_head=CLAIMS_HEAD,
        claims=claim_rows(claims),
        claims_summary=summary_of(claims),
        sections=[_content(section) for section in sections],
    )  # fmt: skip
    write_atomic(path, page)


def _content(section: Section) -> dict[str, object]:
    pictures = [
        (*caption.partition(". ")[::2], base64.b64encode(file.read_bytes()).decode())
        for caption, file in section.plots.items()
    ]
    pairs = [row for compared in section.table.metrics.values() for row in pairs_rows(compared)]
    return {
        "title": section.heading,
        "method": section.sheets[0].method,
        "sheets": section.sheets,
        "plots": pictures,
        "pairs_head": PAIRS_HEAD,
        "pairs": pairs,
    }
