"""The report of a study's folder, in the order of the study's tables and rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sightline.errors import SightlineError
from sightline.study.claims import Claim
from sightline.study.judging import JudgedClaim, judge_claims
from sightline.study.page import Section
from sightline.study.plan import Plan, read_plan
from sightline.study.report import write_report
from sightline.study.results import RunResult, read_results
from sightline.study.tables import Sheet, TableCell

Printed = tuple[str, list[str], list[list[str]]]  # title, header, rows


def ordered_results(plan: Plan) -> list[RunResult]:
    """The finished runs of a folder, as the study orders its tables, rows and seeds."""
    tables, rows, seeds = (list(names) for names in (plan.study.tables, plan.study.rows, plan.study.seeds))
    known = [run for run in read_results(plan.folder) if run.table in tables and run.row in rows and run.seed in seeds]
    return sorted(known, key=lambda run: (tables.index(run.table), rows.index(run.row), seeds.index(run.seed)))


def report_folder(plan: Plan) -> list[Section]:
    """Write the report of a study into its folder; returns what it shows. Empty, and nothing written, before the first result."""
    results = ordered_results(plan)
    titles = {name: table.title for name, table in plan.study.tables.items()}
    return write_report(results, plan.folder, plan.study.title, titles) if results else []


def judge_folders(folders: Sequence[Path], claims: Sequence[Claim] | None = None) -> list[JudgedClaim]:
    """Every claim of a list, by default of the paper, by the results of one or more studies."""
    if not folders:
        raise SightlineError("no folder is given: expected those of studies, such as outputs/study/main.")
    results: list[RunResult] = []
    found: dict[tuple[str, str], Path] = {}  # where the results of each table are
    for folder in folders:
        of_folder = ordered_results(read_plan(folder))
        for table in dict.fromkeys((run.study, run.table) for run in of_folder):
            if table in found:
                raise SightlineError(
                    f"{folder} and {found[table]} both have results of {', '.join(table)}: expected every table once; sightline "
                    "study merge joins shares, and a study with another budget needs a file, and so a name, of its own."
                )
            found[table] = folder
        results += of_folder
    if not results:
        raise SightlineError("the folders hold no result: expected those of studies with finished runs.")
    return judge_claims(results, claims, everything=True)


def printed(sheet: Sheet) -> Printed:
    """A table for the terminal."""
    return sheet.title, sheet.head, [[_text(cell) for cell in row] for row in sheet.rows]


def _text(cell: TableCell) -> str:
    return f"{cell.text}{'*' if cell.bold else ''} {cell.interval}".rstrip()
