"""The report of a folder, and the claims by several folders."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sightline.cli.study import main
from sightline.errors import SightlineError
from sightline.settings import from_dict
from sightline.study.plan import Plan
from sightline.study.show import ordered_results, report_folder
from sightline.study.study import merge
from sightline.study.study_file import read_study, shipped_studies
from sightline.training.recipe import Recipe
from tests.study.examples import invent_runs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the study `debug` with invented results, written in another order than the study's."""
    monkeypatch.setattr("sightline.study.report.draw_plots", lambda *_: {})
    plan = Plan(read_study("debug"), "debug", tmp_path / "debug")
    plan.write_study()
    for run in reversed(
        invent_runs({"PRoPE": 0.0, "SCoPE": 0.1}, table="all", study="debug", seeds=2, metrics=("loss",))
    ):
        run.write(plan.folder / "runs" / f"all_{run.row}" / str(run.seed))
    return plan.folder


def test_rows_are_in_the_order_of_the_study(folder: Path) -> None:
    plan = Plan(read_study("debug"), "debug", folder)
    assert [(run.row, run.seed) for run in ordered_results(plan)] == [
        ("SCoPE", 0), ("SCoPE", 1), ("PRoPE", 0), ("PRoPE", 1),
    ]  # fmt: skip
    [section] = report_folder(plan)
    assert section.table.rows == ["SCoPE", "PRoPE"]
    assert f"<title>{plan.study.title}</title>" in (folder / "report.html").read_text()
    fewer = Plan(replace(plan.study, seeds=(1,)), "debug", folder)
    assert {run.seed for run in ordered_results(fewer)} == {1}


def test_show_prints_the_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", str(folder)])
    printed = capsys.readouterr().out
    assert "SCoPE" in printed and "*" in printed and f"wrote {folder / 'report.html'}" in printed.replace("\n", "")


def test_names_of_rows_are_whole_on_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sightline.study.report.draw_plots", lambda *_: {})
    plan = Plan(read_study("main"), "main", tmp_path / "main")
    plan.write_study()
    metrics = ("loss", "psnr_moved", "rot_err", "trans_err", "cam_mc", "ate")
    for run in invent_runs({"CameraCtrl": 0.0, "SCoPE, moment floor 0.1": 0.1}, table="metres", metrics=metrics):
        run.write(plan.folder / "runs" / f"metres_{run.row}" / str(run.seed))
    main(["show", str(plan.folder)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    words = [line[0] for line in lines if line]
    assert {"CameraCtrl", "SCoPE,"} <= set(words)
    assert any(line[:2] == ["SCoPE,", "moment"] for line in lines)


def test_the_sign_of_the_best_rows_is_explained_where_there_is_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", str(folder)])
    assert "* no other row is significantly better" in capsys.readouterr().out
    for file in folder.rglob("result.json"):
        if file.parts[-3] == "all_PRoPE":
            file.unlink()
    main(["show", str(folder)])
    assert "*" not in capsys.readouterr().out


def test_show_of_an_empty_folder_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(read_study("debug"), "debug", tmp_path)
    plan.write_study()
    main(["show", str(tmp_path)])
    assert "has no result yet" in capsys.readouterr().out.replace("\n", " ")


def test_claims_of_several_folders(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(read_study("main"), "main", tmp_path / "main")
    plan.write_study()
    for run in invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, table="metres", metrics=("rot_err",)):
        run.write(plan.folder / "runs" / f"metres_{run.row}" / str(run.seed))
    file = tmp_path / "claims.md"
    main(["claims", str(folder), str(plan.folder), "-o", str(file)])
    line = next(
        line
        for line in file.read_text().splitlines()
        if line.startswith("| SCoPE turns the camera more exactly than UCPE")
    )
    assert line.endswith("| holds |")
    assert "1 holds" in capsys.readouterr().out


def test_no_study_starts_from_a_base_that_has_seen_cameras() -> None:
    """The lab model that ships may have: a study trains a base of its own, or starts from an untrained one."""
    for name in shipped_studies():
        for base in read_study(name).bases.values():
            assert base.model != "lab" or base.layers is not None, name
            if base.recipe is not None:
                recipe = from_dict(Recipe, merge(asdict(Recipe.from_yaml(base.recipe)), base.overrides), name)
                assert recipe.model.encoding is None


def test_claims_need_results(tmp_path: Path) -> None:
    from sightline.study.show import judge_folders

    Plan(read_study("debug"), "debug", tmp_path).write_study()
    with pytest.raises(SightlineError, match="hold no result"):
        judge_folders([tmp_path])
    with pytest.raises(SightlineError, match="no folder is given"):
        judge_folders([])
