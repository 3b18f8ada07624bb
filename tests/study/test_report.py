"""The files of a study's report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sightline.study.comparison import compare_tables
from sightline.study.plots import reference_row
from sightline.study.report import write_report
from sightline.study.results import RunResult
from tests.study.examples import invent_runs

METRICS = ("loss", "rot_err", "return_ratio")


def test_everything_is_written(tmp_path: Path) -> None:
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, metrics=METRICS)
    runs += [RunResult("main", "<wide>", 0, "metre", failure="Heads of 24 channels are too narrow.")]
    [section] = write_report(runs, tmp_path)
    assert section.table.rows == ["UCPE", "SCoPE", "<wide>"]
    text = (tmp_path / "report.md").read_text()
    files = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()}
    tables = {f"tables/metre{part}.{suffix}" for part in ("", "-revisit") for suffix in ("md", "csv", "tex")}
    kinds = ("intervals", "differences", "verdicts", "loss", "parameters", "layers")
    assert files == {
        "report.md", "report.html", "claims.md", "statistics.json", *tables, "tables/metre-pairs.csv",
        *(f"plots/metre-{kind}.png" for kind in kinds),
    }  # fmt: skip
    for link in re.findall(r"\]\((plots/[^)]+)\)", text):
        assert (tmp_path / link).is_file()
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(kinds)
    assert "&lt;wide&gt;" in page and "<wide>" not in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)  # the page needs no other file
    assert "SCoPE turns the camera more exactly than UCPE" in page and '<td class="better">holds</td>' in page
    [table] = json.loads((tmp_path / "statistics.json").read_text())["tables"]
    assert table["metrics"]["loss"]["pairs"][0]["verdict"] == "worse"


def test_reports_repeat_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.study.report.draw_plots", lambda *_: {})
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.02}, metrics=("loss",))
    for name in "ab":
        write_report(runs, tmp_path / name)
    for file in ("statistics.json", "report.md", "report.html", "claims.md"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_report_says_what_tables_and_clips_are(tmp_path: Path) -> None:
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, metrics=("loss",))
    [section] = write_report(runs, tmp_path, "A study", {"metre": "trajectories in metres"})
    assert section.heading == "main, metre: trajectories in metres"
    assert "## main, metre: trajectories in metres" in (tmp_path / "report.md").read_text()
    page = (tmp_path / "report.html").read_text()
    assert '<h2 id="t1">main, metre: trajectories in metres</h2>' in page and "held-out loss\u00a0↓" in page
    assert "12 for the held-out loss, 6 generated along their trajectories, 6 closed loops" in page


def test_a_study_without_any_result_has_a_report(tmp_path: Path) -> None:
    write_report([RunResult("my study", "wide", 0, "metre", failure="It does not fit.")], tmp_path)
    assert "wide: It does not fit." in (tmp_path / "report.md").read_text()
    assert (tmp_path / "report.html").is_file() and not (tmp_path / "claims.md").exists()


def test_the_reference_is_the_paper_s_method() -> None:
    [table] = compare_tables(invent_runs({"UCPE": 0.0, "Full SCoPE": 0.1}, metrics=("loss",)))
    assert reference_row(table) == "Full SCoPE"
    [table] = compare_tables(invent_runs({"a": 0.0, "b": 0.1}, metrics=("loss",)))
    assert reference_row(table) == "a"
