"""Studies as YAML files: those that ship, what extends what, and settings that are refused."""

from __future__ import annotations

import pytest

from sightline import cli
from sightline.encodings import encoding_from_config
from sightline.errors import SightlineError
from sightline.study.estimate import Pace, estimate_all
from sightline.study.plan import Plan, Share, trial_digest
from sightline.study.reuse import run_digest
from sightline.study.study import Cell
from sightline.study.study_file import read_study, shipped_studies

LAB = ("main", "pe-design", "components", "data", "revisit", "efficiency", "scale")
LAB_ONLY = ("main-seconds", "longer")  # what is asked beyond the tables of the paper


def test_every_table_of_the_paper_ships_for_the_lab_and_for_5b():
    assert set(shipped_studies()) == {"debug", *LAB, *LAB_ONLY, *(f"{name}-5b" for name in LAB)}
    for name in shipped_studies():
        study = read_study(name)
        assert len(study.seeds) >= 2 or name == "efficiency-5b"
        for row in study.rows.values():
            assert row.encoding is None or encoding_from_config(row.encoding)


@pytest.mark.parametrize("name", ["main", "pe-design", "components", "revisit"])
def test_the_lab_is_studied_in_metres_and_in_units_of_structure_from_motion(name):
    study = read_study(name)
    for table, is_metric in (("metres", True), ("reported", False)):
        sources = [*study.shared_recipe(table).data.sources, *study.tables[table].videos]
        assert len(sources) == 8 and all(("unit=metre" in source) == is_metric for source in sources)


def test_rows_differ_only_in_what_they_override():
    study = read_study("components")
    full, row = (study.row_recipe(Cell("metres", label)) for label in ("Full SCoPE", "w/o log-scale aug."))
    assert row.changes_from(full) == ["objective.log_scale_prob: 0.3 -> 0.0"]
    flip = study.row_recipe(Cell("metres", "w/o flip"))
    assert flip.changes_from(full) == ["model.encoding.flip: None -> False"]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("extends: debug\nsteps: 0", "steps is 0: expected"),
        ("extends: debug\nseconds: 5", "steps and seconds: expected exactly one of the two"),
        ("extends: debug\ntimed_batch_size: 8", "timed_batch_size is 8: expected it beside seconds only"),
        ("extends: main-seconds\ntimed_batch_size: 0", "timed_batch_size is 0: expected"),
        ("extends: debug\nrates: [{learning_rate: 1e-3}, {learning_rate: 0.001}]", "rates is 0.001x1, 0.001x1: expected every"),
        ("extends: debug\nseeds: [1, 1]", "every seed once"),
        ("extends: debug\nrows: {SCoPE: {tables: [some]}}", "rows.SCoPE.tables has 'some': expected some of all"),
        ("extends: debug\nrows: {A b: {}, A_b: {}}", "expected labels that still differ as names of folders"),
        ("extends: debug\ntables: {all: {base: other}}", "tables.all.base is 'other': expected one of base"),
        ("extends: debug\ntables: {all: {budget_scale: 0}}", "tables.all.budget_scale is 0.0: expected"),
        ("extends: debug\ntables: {all: {}}", "tables.all.videos is empty"),
        ("extends: debug\noverrides: {optimizer: {speed: 1}}", "optimizer.speed is no setting"),
        ("extends: debug\nmeasure: {groups: [sound]}", "measure.groups is 'sound': expected one of loss, video, revisit"),
        ("extends: debug\nmeasure: {networks: [sound]}", "measure.networks is 'sound': expected one of lpips, dino"),
        ("extends: debug\nmeasure: {videos: 0}", "measure.videos is 0: expected"),
        ("extends: debug\nmeasure: {poses: -1}", "measure.poses is -1: expected"),
        ("extends: debug\ntables: {all: {like: some}}", "tables.all.like is 'some': expected one of those above it"),
        ("extends: debug\nrows: {A: {like: [B]}}", "rows.A.like is ['B']: expected one of those above it"),
        ("extends: debug\nbases: {first: {like: second}, second: {like: base}}", "bases.first.like is 'second'"),
        ("extends: nowhere", "'nowhere' is neither a file nor a shipped study"),
    ],
)  # fmt: skip
def test_a_wrong_study_is_refused_in_one_sentence(tmp_path, text, sentence):
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(SightlineError) as error:
        read_study(tmp_path / "study.yaml")
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    "options, budget", [(["--steps", "5"], (5, None, None)), (["--seconds", "9"], (None, 9.0, 128))]
)
def test_the_budget_of_a_study_of_equal_time_can_be_changed(tmp_path, monkeypatch, options, budget):
    plans = []
    monkeypatch.setattr(
        "sightline.study.run.run_study", lambda plan, *rest: plans.append(plan) or plan.write_study() or []
    )
    assert cli.main(["study", "run", "main-seconds", "-o", str(tmp_path / "study"), *options]) == 0
    assert [(plan.study.steps, plan.study.seconds, plan.study.timed_batch_size) for plan in plans] == [budget]


def test_an_estimate_counts_what_is_left(tmp_path, capsys):
    assert cli.main(["study", "plan", "main", "revisit", "longer", "--clips-per-second", "320"]) == 0
    pace = Pace(clips_per_second=320.0, jobs=8)  # 0.1 s for a step of 32 clips
    main, revisit, longer = estimate_all(["main", "revisit", "longer"], pace)
    assert (main.trials, main.runs, main.taken) == (64, 54, 0) and main.steps == 64 * 200 + 54 * 1000
    assert (revisit.trials, revisit.runs, revisit.taken, revisit.seconds) == (0, 0, 30, 0.0)
    assert (longer.trials, longer.runs, longer.taken, longer.steps) == (0, 30, 30, 60_000)
    assert longer.seconds == pytest.approx(2 * 30 + 60_000 * 0.1 + (10 * 60 + 30 * 20) / 8)
    assert "longer" in capsys.readouterr().out
    _, equal_time, timed = estimate_all(["main", "main-seconds", "efficiency"], pace)
    # Timed with 128 clips, a step takes 0.4 s, and 112 or 113 of them 45 s.
    assert (equal_time.trials, equal_time.runs, equal_time.steps) == (0, 42, 42 * 112)
    assert timed.trials == 0 and timed.steps == 27 * 40
    alone = (
        30 + 9 * 60 + 27 * 24 * 0.4
    )  # a table's clips, then a compilation for each row, and 24 timed steps for each seed
    assert timed.seconds == pytest.approx(alone + 27 * 40 * 0.4 + 9 * 60 / 8)


@pytest.mark.parametrize("name", ["revisit", "longer", "components", "pe-design", "scale"])
def test_studies_reuse_what_main_has_trained(name, tmp_path):
    """Their rows that main has too are the same trainings, measured alike, so that --reuse takes them."""
    main = Plan(read_study("main"), "main", tmp_path / "main")
    plan = Plan(read_study(name), name, tmp_path / name)
    done = {run_digest(main, task) for task in main.tasks() if task.rate is None}
    same = {task.cell for task in plan.tasks() if task.rate is None and run_digest(plan, task) in done}
    expected = {"revisit": 10, "longer": 10, "components": 2, "pe-design": 2, "scale": 5}
    assert len(same) == expected[name]
    trials = {trial_digest(main.study, cell) for cell in main.study.cells()}
    if name == "longer":
        assert all(trial_digest(plan.study, cell) in trials for cell in plan.study.cells())


def test_a_study_that_extends_itself_is_refused(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(f"extends: {file}")
    with pytest.raises(SightlineError, match="extends leads back to it"):
        read_study(file)


@pytest.mark.parametrize("name", ["main", "efficiency"])  # with and without trials of learning rates
def test_shares_are_all_tasks_without_overlap(name, tmp_path):
    study = read_study(name)
    shares = [Plan(study, name, tmp_path, Share(number, 4)).tasks() for number in (1, 2, 3, 4)]
    assert sorted(task.name for share in shares for task in share) == sorted(
        t.name for t in Plan(study, name, tmp_path).tasks()
    )
    if study.rates:  # all seeds of a row have one learning rate
        cells = [{task.cell for task in share} for share in shares]
        assert sum(map(len, cells)) == len(study.cells())


def test_the_command_lists_studies_and_refuses_what_it_does_not_know(tmp_path, capsys):
    assert cli.main(["study", "list"]) == 0 and "pe-design-5b" in capsys.readouterr().out
    for arguments, sentence in (
        (["run", "nothing"], "'nothing' is neither a file nor a shipped study"),
        (["run", "debug", "--share", "3/2"], "share is '3/2': expected PART/PARTS"),
        (["run", "debug", "--rows", "scope"], "rows has 'scope': expected some of SCoPE, PRoPE"),
        (["show", str(tmp_path)], "holds no study.json: expected a folder that sightline study run wrote"),
        (["merge"], "no folder is given"),
        (["plan"], "no study is given"),
        (["claims"], "no folder is given"),
    ):
        assert cli.main(["study", *arguments]) == cli.FAULT
        assert sentence in capsys.readouterr().err


def test_a_table_may_be_like_one_of_the_study_that_it_extends(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(
        "extends: longer\n"
        "tables:\n"
        "  short: {like: 'metres, twice', budget_scale: 0.5, overrides: {data: {num_workers: 3}}}\n"
        "  shorter: {like: short, title: S}\n"
        "rows: {SCoPE: {like: SCoPE, overrides: {dtype: float32}}}\n"
    )
    study, main = read_study(file), read_study("main")
    assert list(study.tables) == ["short", "shorter"] and list(study.rows) == ["SCoPE"]
    assert study.tables["shorter"].title == "S" and study.tables["shorter"].videos == main.tables["metres"].videos
    assert study.tables["shorter"].budget_scale == 0.5
    recipe = study.row_recipe(Cell("shorter", "SCoPE"))
    assert recipe.data.sources == main.shared_recipe("metres").data.sources and recipe.data.num_workers == 3
    assert recipe.dtype == "float32" and recipe.model.encoding == {"name": "scope", "gate_hidden": 16}
