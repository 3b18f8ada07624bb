"""Joining the folders of shares of one study."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from sightline.errors import SightlineError
from sightline.files import write_atomic
from sightline.run_folder import locked
from sightline.study.bases import SameBase, copy_bases
from sightline.study.plan import STUDY, TRIAL, Plan, read_plan, require_same_study
from sightline.study.results import RunResult, read_results


def merge_shares(folders: Sequence[Path], output: Path) -> Plan:
    """Write the results of all folders into one, which `study show` reads and `study run` goes on with.

    A run that one folder has failed and another has finished counts as finished. Two different results of one run, and
    results of different bases, are refused. The first folder's bases are copied too.
    """
    if not folders:
        raise SightlineError("no folder is given: expected those of the shares of a study.")
    plans = [read_plan(folder) for folder in folders]
    for plan in plans[1:]:
        require_same_study(folders[0] / STUDY, plan.name, plan.study)
    seeds = dict.fromkeys(seed for plan in plans for seed in plan.study.seeds)
    merged = Plan(dataclasses.replace(plans[0].study, seeds=tuple(seeds)), plans[0].name, output)
    same_base = SameBase(merged)
    results: dict[tuple[str, str, int], tuple[RunResult, Path]] = {}
    for folder in folders:
        for result in read_results(folder):
            same_base.require(result.table, result, folder)
            key = (result.table, result.row, result.seed)
            earlier = results.get(key)
            if earlier is None or earlier[0].failure is not None:
                results[key] = result, folder
            elif result.failure is None and result != earlier[0]:
                raise SightlineError(
                    f"{folder} and {earlier[1]} hold different results of {result.table}, {result.row}, seed {result.seed}: "
                    "expected every run in one of the shares."
                )
    with locked(output, expected="a new folder, or that of the same study"):
        merged.write_study()
        for task in merged.tasks():
            found = results.get((task.cell.table, task.cell.row, task.seed))
            if task.rate is None and found is not None:
                found[0].write(merged.task_folder(task))
        for plan in plans:
            copy_bases(plan, merged)
            _copy_trials(plan.folder, merged)
    return merged


def _copy_trials(folder: Path, merged: Plan) -> None:
    """The trials of learning rates too, so that a run in the merged folder repeats none."""
    for task in merged.tasks():
        file = merged.task_folder(task) / TRIAL
        trial = folder / file.relative_to(merged.folder)
        if task.rate is not None and trial.is_file():
            write_atomic(file, trial.read_bytes())
