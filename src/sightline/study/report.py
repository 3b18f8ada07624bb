"""The report of a study: tables, plots, claims and page, from its results alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from sightline.evaluation.bootstrap import LEVEL, RESAMPLES
from sightline.files import write_atomic
from sightline.names import unique_names
from sightline.study.claims_table import claims_markdown, summary_of
from sightline.study.comparison import TableComparison, compare_tables
from sightline.study.judging import judge_claims
from sightline.study.page import Section, write_page
from sightline.study.plots import draw_plots
from sightline.study.results import RunResult
from sightline.study.table_files import csv_text, latex, markdown, pairs_csv
from sightline.study.tables import Sheet, make_sheets

REPORT, PAGE, CLAIMS, STATISTICS = "report.md", "report.html", "claims.md", "statistics.json"


_CLIPS = {  # what the groups of clips are called in a sentence
    "loss": "for the held-out loss", "video": "generated along their trajectories", "poses": "of these with estimated cameras",
    "revisit": "closed loops",
}  # fmt: skip


def write_report(
    results: Sequence[RunResult], folder: Path, title: str | None = None, table_titles: Mapping[str, str] | None = None
) -> list[Section]:
    """Write everything into the folder of a study; returns its tables, one section for each.

    results: in the order of the tables' rows. title: by default the names of the studies. table_titles: what the names of
        tables mean, such as reported.
    report.md and report.html hold all tables; tables/ has each as .md, .csv and .tex, with a .csv of its pairs of rows; plots/
    has the pictures; claims.md what the results say about the paper's claims; statistics.json all numbers.
    """
    tables = compare_tables(results)
    names = unique_names(table.table if _is_one_study(tables) else f"{table.study} {table.table}" for table in tables)
    sections = []
    for table, name in zip(tables, names, strict=True):
        sheets = make_sheets(table)
        _write_tables(sheets, table, folder / "tables", name)
        runs = [run for run in results if (run.study, run.table) == (table.study, table.table)]
        plots = draw_plots(table, runs, folder / "plots", name)
        sections.append(Section(table, sheets, plots, (table_titles or {}).get(table.table, "")))
    claims = judge_claims(results, tables=tables)
    if claims:
        write_atomic(folder / CLAIMS, f"{summary_of(claims)}\n\n{claims_markdown(claims)}")
    statistics = {"level": LEVEL, "resamples": RESAMPLES, "tables": [asdict(table) for table in tables]}
    write_atomic(folder / STATISTICS, json.dumps(statistics, indent=1, allow_nan=False) + "\n")
    title = title or " and ".join(dict.fromkeys(f"Study {table.study}" for table in tables))
    write_atomic(folder / REPORT, _report(title, sections, folder))
    write_page(folder / PAGE, title, _summary(results), sections, claims)
    return sections


def _is_one_study(tables: Sequence[TableComparison]) -> bool:
    return len({table.study for table in tables}) == 1


def _write_tables(sheets: Sequence[Sheet], table: TableComparison, folder: Path, name: str) -> None:
    for sheet in sheets:
        file = f"{name}-{sheet.name}" if sheet.name else name
        write_atomic(folder / f"{file}.md", f"# {sheet.title}\n\n{markdown(sheet)}\n\n{sheet.method}\n")
        write_atomic(folder / f"{file}.csv", csv_text(sheet))
        write_atomic(folder / f"{file}.tex", latex(sheet))
    write_atomic(folder / f"{name}-pairs.csv", pairs_csv(table))


def _summary(results: Sequence[RunResult]) -> str:
    finished = [run for run in results if run.failure is None]
    failed = len(results) - len(finished)
    clips = {group: len(names) for run in finished for group, names in run.clips.items()}
    listed = ", ".join(f"{count} {_CLIPS.get(group, group)}" for group, count in clips.items())
    failures = f" and {failed} that could not run" if failed else ""
    return f"{len(finished)} finished runs{failures}{f'; clips per run: {listed}' if listed else ''}."


def _report(title: str, sections: Sequence[Section], folder: Path) -> str:
    """All tables and the plots, as Markdown."""
    parts = [f"# {title}"]
    for section in sections:
        parts += [f"## {section.heading}", section.sheets[0].method]
        for sheet in section.sheets:
            parts += [f"### {sheet.title}", markdown(sheet)]
        parts += [f"![{caption}]({file.relative_to(folder).as_posix()})" for caption, file in section.plots.items()]
    return "\n\n".join(parts) + "\n"
