"""Running a study: rows x seeds to results, rows that cannot run, shares, kills."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path

import pytest

from sightline.data.sources import open_sources
from sightline.errors import SightlineError
from sightline.study import measure, row_training, videos, worker
from sightline.study.losses import require_clips_for_rates
from sightline.study.merge import merge_shares
from sightline.study.plan import Plan, Share, Task, read_plan
from sightline.study.results import RunResult, read_results
from sightline.study.reuse import reuse_results
from sightline.study.run import run_study
from sightline.study.study import Cell, Rate, Row, TableConfig
from sightline.study.study_file import read_study, shipped_studies
from sightline.training import checkpoint, trainer
from tests.processes import kill_at
from tests.study.conftest import longer


def measured(folder):
    """Everything of the results but times."""
    return [
        (one.table, one.row, one.seed, one.clips, one.metrics, one.history, one.facts, one.learning_rate, one.failure)
        for one in read_results(folder)
    ]


@pytest.fixture(scope="module")
def undisturbed(quick, tmp_path_factory):
    """The results of a study that was run at once."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run_study(Plan(quick, "quick", folder))
    return measured(folder)


def test_rows_and_seeds_become_results_without_av(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    every = dataclasses.replace(small.measure, groups=("loss", "video", "revisit"), history=2)
    study = dataclasses.replace(small, seeds=(0,), measure=every, rates=(Rate(2e-3), Rate(1.0)), sweep_steps=1)
    assert run_study(Plan(study, "small", tmp_path)) == []
    results = {one.row: one for one in read_results(tmp_path)}
    assert set(results) == set(study.rows)
    assert results["UCPE"].failure.endswith("ratio is 3: expected a divisor of the layer's 4 heads.")
    assert not results["UCPE"].metrics
    scope, rerope = results["SCoPE"], results["ReRoPE"]
    assert scope.failure is None and scope.learning_rate == 2e-3
    assert scope.facts["sweep/0.002x1"] < scope.facts["sweep/1x1"]
    loops = [f"{scope.clips['video'][0]}/loop_{loop}" for loop in ("truck", "orbit", "dolly", "nonpalindromic")]
    assert len(scope.clips["loss"]) == 1 and len(scope.clips["video"]) == 1 and scope.clips["revisit"] == loops
    expected = ("loss", "loss_another_camera", "psnr_moved", "rot_err", "trans_err", "ate_rescaled", "return_ssim")
    assert set(expected) <= set(scope.metrics) and "return_lpips" not in scope.metrics
    assert (
        scope.cost["new_parameters"] == 4 * (2 * 96 * 7 + 2 * 96 + 2 + 16 + 16 + 96 * 17) and scope.cost["steps"] == 2
    )
    assert [step for step, _ in scope.history["alpha_q/3"]] == [1, 2] and scope.history["alpha_q/3"][-1][1] != 0
    assert 0 < scope.facts["reciprocal_share"] <= 1
    assert rerope.base == scope.base != ""
    assert rerope.clips == scope.clips and "reciprocal_share" not in rerope.facts
    assert not list(tmp_path.glob("runs/*/*/checkpoints")) and not list(tmp_path.glob("**/*.lock"))


def test_rows_of_one_seed_see_the_same_clips_and_noise(quick, small, tmp_path, monkeypatch):
    seen = []
    real = trainer.flow_matching_loss
    monkeypatch.setattr(
        trainer,
        "flow_matching_loss",
        lambda model, batch, drawn: seen.append((batch.latents, drawn.noise, drawn.sigma)) or real(model, batch, drawn),
    )
    rows = {name: small.rows[name] for name in ("SCoPE", "ReRoPE")}
    study = dataclasses.replace(quick, rows=rows, seeds=(5,), steps=1)
    run_study(Plan(study, "small", tmp_path))
    first, second = seen[:1], seen[1:]
    assert len(seen) == 2 and all(
        (a == b).all() for one, two in zip(first, second, strict=True) for a, b in zip(one, two, strict=True)
    )


def test_two_shares_merged_are_one_run(quick, undisturbed, tmp_path):
    for number in (1, 2):
        run_study(Plan(quick, "quick", tmp_path / f"share-{number}", Share(number, 2)))
    shares = [tmp_path / "share-1", tmp_path / "share-2"]
    assert [len(read_results(share)) for share in shares] == [1, 1]
    merge_shares(shares, tmp_path / "merged")
    assert measured(tmp_path / "merged") == undisturbed
    assert run_study(read_plan(tmp_path / "merged")) == []  # nothing is left to do


def test_a_row_that_another_study_has_done_is_taken_from_it(quick, tmp_path):
    one = dataclasses.replace(quick, seeds=(0,))
    Plan(one, "one", tmp_path / "one").write_study()
    done = RunResult("one", "SCoPE", 0, "all", {"loss": ["a"]}, {"loss": [0.5]})
    done.write(tmp_path / "one/runs/all_SCoPE/0")
    renamed = dataclasses.replace(one, title="two", rows={"Full": one.rows["SCoPE"]})
    assert run_study(Plan(renamed, "two", tmp_path / "two"), reuse=[tmp_path / "one"]) == []
    assert read_results(tmp_path / "two") == [dataclasses.replace(done, study="two", row="Full")]
    other = Plan(dataclasses.replace(renamed, steps=9), "three", tmp_path / "three")
    assert reuse_results(other, [tmp_path / "one"]) == 0


def test_tables_with_another_budget_share_the_trials_of_their_rows(quick, tmp_path):
    plan = Plan(longer(quick, seeds=(0,)), "quick", tmp_path)
    assert [task.cell.table for task in plan.tasks() if task.rate] == ["once", "once"]
    assert {cell.table for cell in Plan(plan.study, "quick", tmp_path, Share(1, 2)).cells()} == {"once", "twice"}
    assert run_study(plan) == []
    once, twice = read_results(tmp_path)
    assert (once.cost["steps"], twice.cost["steps"]) == (2.0, 4.0)
    assert once.facts["sweep/0.002x1"] == twice.facts["sweep/0.002x1"] and once.metrics != twice.metrics


def test_equal_time_is_as_many_steps_as_fit_into_it(quick, tmp_path):
    plan = Plan(dataclasses.replace(quick, seeds=(0,), steps=None, seconds=0.3), "quick", tmp_path)
    run_study(plan)
    (result,) = read_results(tmp_path)
    assert (
        result.cost["steps"] == max(1, round(0.3 / result.cost["step_seconds"])) and result.cost["denoise_seconds"] > 0
    )


def test_steps_are_timed_with_as_many_clips_as_fill_the_device(quick, tmp_path, monkeypatch):
    """The time of a step of four clips decides; the run itself trains with the recipe's two."""
    sizes, train = {}, row_training.train

    def note(recipe, *rest):
        sizes[Path(recipe.output).name] = (recipe.optimizer.batch_size, recipe.optimizer.micro_batch_size)
        return train(recipe, *rest)

    monkeypatch.setattr(row_training, "train", note)
    timed = dataclasses.replace(quick, seeds=(0,), rates=(), steps=None, seconds=0.3, timed_batch_size=4)
    plan = Plan(timed, "quick", tmp_path)
    run_study(plan)
    recipe = timed.row_recipe(Cell("all", "SCoPE")).optimizer
    assert sizes == {"run": (4, 4), "0": (recipe.batch_size, recipe.micro_batch_size)} and recipe.batch_size != 4
    (result,) = read_results(tmp_path)
    assert result.cost["steps"] == max(1, round(0.3 / result.cost["step_seconds"]))


def test_tables_of_other_sources_share_the_time_of_a_step(quick, tmp_path):
    sources = {"data": {"sources": ["worlds:orbit?clips=7"]}}
    tables = {**longer(quick).tables, "reported": dataclasses.replace(quick.tables["all"], overrides=sources)}
    rows = {"SCoPE": quick.rows["SCoPE"], "other": Row({"name": "scope", "flip": False})}
    plan = Plan(dataclasses.replace(quick, rows=rows, tables=tables), "quick", tmp_path)
    assert {plan.timing_cell(cell) for cell in plan.study.cells()} == {Cell("once", "SCoPE"), Cell("once", "other")}
    assert plan.trial_cell(Cell("reported", "SCoPE")) == Cell("reported", "SCoPE")


def test_different_results_of_one_run_are_not_merged(quick, tmp_path):
    for number, value in enumerate((0.5, 0.25)):
        Plan(quick, "quick", tmp_path / str(number)).write_study()
        RunResult("quick", "SCoPE", 0, "all", {"loss": ["a"]}, {"loss": [value]}).write(
            tmp_path / str(number) / "runs/all_SCoPE/0"
        )
    with pytest.raises(SightlineError, match="hold different results of all, SCoPE, seed 0: expected every run in one"):
        merge_shares([tmp_path / "0", tmp_path / "1"], tmp_path / "merged")
    failed = RunResult("quick", "SCoPE", 0, "all", failure="the GPU's memory is full.")
    failed.write(tmp_path / "1/runs/all_SCoPE/0")
    merge_shares([tmp_path / "1", tmp_path / "0"], tmp_path / "merged")
    assert read_results(tmp_path / "merged")[0].metrics == {
        "loss": [0.5]
    }  # one that failed elsewhere counts as finished


def test_a_folder_of_another_study_is_refused_but_may_get_more_seeds(quick, tmp_path):
    Plan(quick, "quick", tmp_path).write_study()
    with pytest.raises(SightlineError, match="holds a study with steps 2: expected 4, or another folder"):
        run_study(Plan(dataclasses.replace(quick, steps=4), "quick", tmp_path))
    Plan(dataclasses.replace(quick, seeds=(7,)), "quick", tmp_path).write_study()
    assert read_plan(tmp_path).study.seeds == (0, 1, 7)


def killed(plan, module, name, call):
    kill_at(module, name, call, lambda: run_study(plan))


def test_a_study_that_was_killed_ten_times_gives_the_same_results(quick, undisturbed, tmp_path):
    plan = Plan(quick, "quick", tmp_path)
    killed(plan, trainer, "make_feed", 0)
    killed(plan, trainer, "set_learning_rate", 0)
    killed(plan, trainer, "set_learning_rate", 1)
    killed(plan, checkpoint, "save_shards", 1)  # in the middle of a checkpoint
    killed(plan, checkpoint, "mark_validated", 0)
    killed(plan, row_training, "load_trained", 0)  # between training and measuring
    killed(plan, row_training, "reciprocal_shares", 0)
    killed(plan, RunResult, "write", 0)
    killed(plan, worker.shutil, "rmtree", 0)  # after the result, before its checkpoints are removed
    killed(plan, trainer, "set_learning_rate", 1)  # in the second run
    assert len(read_results(plan.folder)) == 1
    assert list(plan.folder.glob("locks/*.lock"))
    run_study(plan)
    assert measured(plan.folder) == undisturbed and not list(plan.folder.glob("locks/*.lock"))


def test_a_study_goes_on_from_its_small_files_alone(quick, undisturbed, tmp_path):
    """As on another machine: without clips, and without the checkpoints of a run that was interrupted."""
    first, second = (Plan(quick, "quick", tmp_path / name) for name in ("first", "second"))
    killed(first, row_training, "load_trained", 1)  # the second run, after its training
    shutil.copytree(first.folder, second.folder, ignore=shutil.ignore_patterns("clips", "checkpoints"))
    assert not list(second.folder.glob("**/*.safetensors"))
    run_study(second)
    assert measured(second.folder) == undisturbed
    assert list(
        (second.folder / "clips").glob("prepared-*")
    )  # they were made before the training, not by the first who asked


def test_a_failed_run_is_tried_again_by_the_next_command(quick, tmp_path, monkeypatch):
    def full(*_, **__):
        raise row_training.torch.OutOfMemoryError

    plan = Plan(dataclasses.replace(quick, seeds=(0,)), "quick", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(row_training, "train", full)
        run_study(plan)
    assert (
        read_results(tmp_path)[0].failure
        == "the GPU's memory is full: expected fewer --jobs, or a smaller micro_batch_size."
    )
    run_study(plan)
    assert read_results(tmp_path)[0].failure is None


def test_a_study_stops_after_the_given_time_and_goes_on(quick, tmp_path):
    plan = Plan(dataclasses.replace(quick, seeds=(0,)), "quick", tmp_path)
    assert len(run_study(plan, stop_after=1e-6)) == 1
    assert run_study(plan) == []


def test_a_trial_of_a_learning_rate_is_validated_at_its_end_only(quick, tmp_path, monkeypatch):
    real, steps = trainer.validate, []
    monkeypatch.setattr(trainer, "validate", lambda *a: steps.append((a[3].output, a[5])) or real(*a))
    noted = dataclasses.replace(quick.measure, history=2)
    study = dataclasses.replace(
        quick, seeds=(0,), measure=noted, rates=(Rate(2e-3), Rate(1e-3)), steps=2, sweep_steps=4
    )
    run_study(Plan(study, "quick", tmp_path))
    assert [step for output, step in steps if "sweeps" in output] == [4, 4]
    assert [step for output, step in steps if "runs" in output] == [1, 2]


def test_every_seed_has_times_of_its_own(quick, tmp_path):
    study = dataclasses.replace(quick, steps=1, measure=dataclasses.replace(quick.measure, time=True, groups=()))
    run_study(Plan(study, "quick", tmp_path))
    for name in ("step_seconds", "denoise_seconds"):
        assert len({one.cost[name] for one in read_results(tmp_path)}) == 2


def test_a_row_that_cannot_be_prepared_is_a_failed_row(small, tmp_path, monkeypatch):
    def prepare(self, data):
        if data.stride == 2:
            raise KeyError("no such clip")

    monkeypatch.setattr(row_training.Measurer, "prepare", prepare)
    rows = {"SCoPE": small.rows["SCoPE"], "broken": Row({"name": "scope"}, {"data": {"stride": 2}})}
    assert run_study(Plan(dataclasses.replace(small, rows=rows, seeds=(0,), steps=1), "small", tmp_path)) == []
    failures = {one.row: one.failure for one in read_results(tmp_path)}
    assert failures["SCoPE"] is None and failures["broken"].startswith("an unexpected KeyError ('no such clip')")


def test_rows_without_parameters_of_their_encoding_try_no_scales(small, tmp_path):
    rates = (Rate(1e-3), Rate(1e-3, 5.0), Rate(2e-3))
    rows = {"none": Row(), "SCoPE": Row({"name": "scope"}), "ReRoPE": Row({"name": "rerope"})}
    plan = Plan(dataclasses.replace(small, rows=rows, rates=rates), "small", tmp_path)
    tried = {row: [task.rate for task in plan.tasks() if task.cell.row == row and task.rate] for row in rows}
    assert tried == {"none": [rates[0], rates[2]], "SCoPE": list(rates), "ReRoPE": [rates[0], rates[2]]}
    plan = Plan(dataclasses.replace(small, rows=rows, rates=rates[:2]), "small", tmp_path)
    assert {task.cell.row for task in plan.tasks() if task.rate} == {"SCoPE"}  # one rate is left to the others
    assert plan.is_ready(Task(Cell("all", "none"), 0)) and not plan.is_ready(Task(Cell("all", "SCoPE"), 0))


def test_learning_rates_are_not_chosen_on_the_clips_of_results(small, tmp_path):
    many = dataclasses.replace(small.measure, loss_clips=7)
    study = dataclasses.replace(small, measure=many, rates=(Rate(2e-3), Rate(1e-3)))
    with pytest.raises(SightlineError, match=r"held-out clips: expected more than measure\.loss_clips, 7, as learning"):
        run_study(Plan(study, "small", tmp_path))


@pytest.mark.parametrize("name", [name for name in shipped_studies() if not name.endswith("-5b")])
def test_shipped_studies_have_clips_for_learning_rates(name):
    study = read_study(name)
    require_clips_for_rates(study, list(study.tables))


def test_reuse_links_the_clips(quick, tmp_path):
    one, two = (Plan(quick, name, tmp_path / name) for name in ("one", "two"))
    one.write_study()
    for plan, text in ((one, "rendered"), (two, "its own")):
        (plan.folder / "clips").mkdir(parents=True)
        (plan.folder / "clips/a.safetensors").write_text(text)
    (one.folder / "clips/b.safetensors").write_text("rendered")
    (one.folder / "clips/prepared-0").write_text("")
    reuse_results(two, [one.folder])
    assert {file.name: file.read_text() for file in (two.folder / "clips").iterdir()} == {
        "a.safetensors": "its own",
        "b.safetensors": "rendered",
    }


@pytest.mark.parametrize("module, name", [(measure, "held_out_losses"), (measure, "estimate_all"), (videos, "_encode")])
def test_a_study_stops_between_the_parts_of_its_work(quick, tmp_path, monkeypatch, module, name):
    """Time is over when a function is first called, and it is not called again before the next command."""
    groups = ("loss", "video")
    study = dataclasses.replace(
        quick, seeds=(0,), steps=1, measure=dataclasses.replace(quick.measure, groups=groups, videos=2, poses=2),
        tables={"all": TableConfig(videos=("worlds:orbit?seed=900000&clips=2&unit=metre",))},
    )  # fmt: skip
    plan, real, calls = Plan(study, "quick", tmp_path), getattr(module, name), []

    def last(*arguments, **options):
        calls.append(1)
        monkeypatch.setattr(row_training.time, "perf_counter", lambda: 1e9)
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, last)
        perf_counter = row_training.time.perf_counter
        assert len(run_study(plan, stop_after=1e6)) == 1 and len(calls) == 1
    monkeypatch.setattr(row_training.time, "perf_counter", perf_counter)
    assert run_study(plan) == [] and read_results(tmp_path)[0].failure is None


@pytest.mark.parametrize("name", [name for name in shipped_studies() if not name.endswith("-5b") and name != "debug"])
def test_lab_studies_share_the_clips_of_main(name):
    def clips(study):
        return {
            str(source.in_metres().settings())
            for table in study.tables
            for source in open_sources(study.shared_recipe(table).data.sources)
        }

    assert clips(read_study(name)) <= clips(read_study("main"))
