"""Results of other studies that are also results of this one: many studies have a row in common, such as SCoPE itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from sightline.digests import json_digest
from sightline.study.bases import SameBase, copy_bases
from sightline.study.plan import Plan, Task, read_plan
from sightline.study.results import RESULT, read_result


def reuse_results(plan: Plan, folders: Sequence[Path]) -> int:
    """Copy the results of runs that these folders have already done in the same way; returns how many. Bases that they have
    trained with the same settings are copied too, so that all rows start from the same one.

    The same way: recipe with all overrides, base, steps, trials of learning rates, seed, clips and what is measured. Results
    that started from other weights than the base of this folder are refused.
    """
    copied = 0
    others = [read_plan(folder) for folder in folders]
    for other in others:
        copy_bases(other, plan)
    same_base = SameBase(plan)
    for other in others:
        done = {_digest(other, task): task for task in other.tasks() if task.rate is None and other.is_done(task)}
        for task in plan.tasks():
            same = done.get(_digest(plan, task)) if task.rate is None and not plan.is_done(task) else None
            if same is None:
                continue
            result = read_result(other.task_folder(same) / RESULT)
            if result.failure is None:
                same_base.require(task.cell.table, result, other.folder)
                names = {"study": plan.name, "row": task.cell.row, "table": task.cell.table}
                dataclasses.replace(result, **names).write(plan.task_folder(task))  # type: ignore[arg-type]
                copied += 1
    return copied


def _digest(plan: Plan, task: Task) -> str:
    study, table = plan.study, plan.study.tables[task.cell.table]
    return json_digest(
        {
            "recipe": dataclasses.asdict(study.row_recipe(task.cell)),
            "measured on": dataclasses.asdict(study.shared_recipe(task.cell.table)),
            "base": dataclasses.asdict(study.bases[table.base]),
            "budget": [study.steps, study.seconds, study.sweep_steps],
            "rates": [rate.name for rate in study.rates],
            "sweep seed": study.seeds[0] if len(study.rates) > 1 else None,
            "measure": dataclasses.asdict(study.measure),
            "videos": table.videos,
            "seed": task.seed,
        }
    )
