"""Results of other studies that are also results of this one: many studies have a row in common, such as SCoPE itself."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sightline.digests import json_digest
from sightline.files import write_atomic
from sightline.study.bases import SameBase, copy_bases, have_same_base
from sightline.study.plan import TRIAL, Plan, Task, read_plan, trial_digest
from sightline.study.results import RESULT, read_result


def reuse_results(plan: Plan, folders: Sequence[Path]) -> int:
    """Copy the results of runs that these folders have already done in the same way; returns how many. Bases that they have
    trained with the same settings are copied too, so that all rows start from the same one.

    The same way: recipe with all overrides, base, steps, trials of learning rates, seed, clips and what is measured. Results
    that started from other weights than the base of this folder are refused. Trials of learning rates are copied as well where
    they are the same and started from the same weights. Clips are linked: their files are named by what they hold.
    """
    copied = 0
    others = [read_plan(folder) for folder in folders]
    for other in others:
        copy_bases(other, plan)
        _link_clips(other.folder / "clips", plan.folder / "clips")
    same_base = SameBase(plan)
    for other in others:
        done = {run_digest(other, task): task for task in other.tasks() if task.rate is None and other.is_done(task)}
        for task in plan.tasks():
            same = done.get(run_digest(plan, task)) if task.rate is None and not plan.is_done(task) else None
            if same is None:
                continue
            result = read_result(other.task_folder(same) / RESULT)
            if result.failure is None:
                same_base.require(task.cell.table, result, other.folder)
                names = {"study": plan.name, "row": task.cell.row, "table": task.cell.table}
                dataclasses.replace(result, **names).write(plan.task_folder(task))  # type: ignore[arg-type]
                copied += 1
        _copy_trials(other, plan)
    return copied


def _link_clips(source: Path, target: Path) -> None:
    """A file that cannot be linked, such as to another disk, or that is there already, is left out: clips can be made again."""
    for file in source.glob("*.safetensors"):
        target.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            os.link(file, target / file.name)


def _copy_trials(other: Plan, plan: Plan) -> None:
    done = {
        (trial_digest(other.study, task.cell), task.rate): task
        for task in other.tasks()
        if task.rate is not None and other.is_done(task) and other.failure(task) is None
    }
    for task in plan.tasks():
        same = done.get((trial_digest(plan.study, task.cell), task.rate)) if task.rate is not None else None
        if (
            same is not None
            and not plan.is_done(task)
            and have_same_base(other, same.cell.table, plan, task.cell.table)
        ):
            write_atomic(plan.task_folder(task) / TRIAL, (other.task_folder(same) / TRIAL).read_bytes())


def run_digest(plan: Plan, task: Task) -> str:
    """Equal for runs that are the same training, from the same base, measured alike."""
    study, table = plan.study, plan.study.tables[task.cell.table]
    return json_digest(
        {
            "recipe": dataclasses.asdict(study.row_recipe(task.cell)),
            "measured on": dataclasses.asdict(study.shared_recipe(task.cell.table)),
            "base": dataclasses.asdict(study.bases[table.base]),
            "budget": [study.steps_of(task.cell.table), study.seconds_of(task.cell.table), study.sweep_steps],
            "timed": study.timed_batch_size,
            "rates": [rate.name for rate in study.rates],
            "sweep seed": study.seeds[0] if len(study.rates) > 1 else None,
            "measure": dataclasses.asdict(study.measure),
            "videos": table.videos,
            "seed": task.seed,
        }
    )
