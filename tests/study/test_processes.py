"""Processes that share a device: one that lacks memory, or whose device is lost, leaves its tasks to the others."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import torch

from sightline.errors import SightlineError
from sightline.locks import hold_lock
from sightline.study import row_training, run
from sightline.study.plan import Plan
from sightline.study.results import read_results
from sightline.study.run import run_study
from sightline.study.shortage import explain, is_device_lost, lack_of_memory
from sightline.study.study import Rate

FULL = "the run needs about 24 GiB per device and 18 are free: try optimizer.micro_batch_size: 1."


@pytest.fixture
def forked(monkeypatch):
    """Processes that know what a test has replaced; the list of how many were started in each round."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(run.multiprocessing, "get_context", lambda *_: fork)
    real, rounds = run._work_in_processes, []

    def counted(plan, jobs, *rest):
        rounds.append(jobs)
        return real(plan, jobs, *rest)

    monkeypatch.setattr(run, "_work_in_processes", counted)
    return rounds


@pytest.fixture
def plan(small, tmp_path):
    rows = {name: small.rows[name] for name in ("SCoPE", "ReRoPE")}
    study = dataclasses.replace(small, rows=rows, steps=1, rates=(Rate(2e-3), Rate(1e-3)), sweep_steps=1)
    return Plan(study, "small", tmp_path)


def only_one_fits(monkeypatch, log):
    """Trainings for which a device has room in the first process only."""
    real = row_training.train

    def train(recipe, *arguments, **options):
        with (log / "trains").open("a") as file:
            file.write(f"{recipe.output}\n")
        if multiprocessing.current_process().name != "study-0":
            raise SightlineError(FULL)
        time.sleep(0.2)
        return real(recipe, *arguments, **options)

    monkeypatch.setattr(row_training, "train", train)


@pytest.mark.parametrize(
    "error, is_short, is_lost",
    [
        (SightlineError(FULL), True, False),
        (torch.OutOfMemoryError("no"), True, False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True, False),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False, True),
        (RuntimeError("a shape is wrong"), False, False),
    ],
)
def test_errors_of_the_device_are_told_from_those_of_a_row(error, is_short, is_lost):
    assert lack_of_memory(explain(error)) == is_short and is_device_lost(error) == is_lost


def test_a_process_without_memory_leaves_its_tasks_to_the_others(plan, forked, monkeypatch):
    only_one_fits(monkeypatch, plan.folder)
    assert run_study(plan, jobs=2) == []
    assert forked == [2] and [one.failure for one in read_results(plan.folder)] == [None] * 4
    tried = (plan.folder / "trains").read_text().splitlines()
    assert len(tried) <= 9 and not list((plan.folder / "locks").glob("*.lock"))  # 8 trainings, and one that was left


def test_half_of_the_processes_go_on_where_no_task_had_room(plan, forked, monkeypatch):
    monkeypatch.setattr(row_training, "train", lambda *_, **__: (_ for _ in ()).throw(SightlineError(FULL)))
    run_study(plan, jobs=3)
    assert forked == [3, 1]
    assert {one.failure for one in read_results(plan.folder)} == {FULL}  # even alone


def test_a_lost_device_ends_the_process_and_costs_one_task(small, forked, tmp_path, monkeypatch):
    real, broken = row_training.train, []

    def train(recipe, *arguments, **options):
        if broken or recipe.output.endswith("SCoPE/0"):
            broken.append(os.getpid())
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return real(recipe, *arguments, **options)

    monkeypatch.setattr(row_training, "train", train)
    # What is forked must not know of the loss in its parent, as a new process does not.
    monkeypatch.setattr(run, "_work_in_rounds", lambda *a, f=run._work_in_rounds: (broken.clear(), f(*a)))
    rows = {name: small.rows[name] for name in ("SCoPE", "ReRoPE")}
    assert run_study(Plan(dataclasses.replace(small, rows=rows, steps=1), "small", tmp_path)) == []
    failures = {(one.row, one.seed): one.failure for one in read_results(tmp_path)}
    assert "illegal memory access" in failures.pop(("SCoPE", 0)) and set(failures.values()) == {None}


def test_a_process_takes_a_row_that_no_other_is_at_work_on(plan, tmp_path):
    """Its own row first, then one that is free, and only then that of another process."""
    first, second = plan.cells()
    locks = tmp_path / "locks"
    locks.mkdir()

    def next_row(last, *busy):
        taken = []
        worker = SimpleNamespace(last_cell=last, execute=lambda task: taken.append(task.cell))
        with ExitStack() as others:
            for cell in busy:
                others.enter_context(hold_lock(locks / f"row-{cell.name}.lock", tmp_path))
            order = run._in_order(plan, plan.tasks(), worker)
            assert any(run._take(plan, worker, task, locks, run.Presence(locks), alone) for task, alone in order)
        return taken[0]

    assert next_row(None) == first and next_row(None, first) == second
    assert next_row(first, first) == first and next_row(second) == second
    assert next_row(None, first, second) == first
    assert not list(locks.glob("*.lock"))


def test_the_processes_of_a_study_keep_the_libraries_quiet(plan, monkeypatch):
    called = []
    for name in ("end_with_parent", "one_progress_bar", "use_gpu", "_work"):
        monkeypatch.setattr(run, name, lambda *_, name=name: called.append(name))
    monkeypatch.setattr(run.torch, "set_num_threads", lambda _: None)
    run._process(plan, 0, 2, None, False)
    assert called == ["end_with_parent", "one_progress_bar", "use_gpu", "_work"]
