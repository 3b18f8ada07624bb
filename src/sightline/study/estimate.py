"""How many trainings, steps and minutes studies will take, before any of them runs. Each reuses what earlier ones have done."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sightline.digests import json_digest
from sightline.study.plan import Plan, Task, trial_digest
from sightline.study.reuse import run_digest
from sightline.study.study import Base, Cell, Rate, Study, merge
from sightline.study.study_file import read_study
from sightline.study.timing import TIMED_STEPS
from sightline.training.recipe import Recipe

_SMALL = Base(layers=7, heads=5, ffn=1024)  # which `clips_per_second` is about


@dataclass(frozen=True)
class Pace:
    """How fast the machine is.

    clips_per_second: that all processes together train, of the lab's clips of 33 x 128 x 128 and its base of 11 M parameters.
    A base of four times the size takes twice as long, since wider layers use a GPU better: the lab model of 39 M parameters has
    trained 1,220 clips/s. row_seconds: for each row before its first step, mostly compilation. run_seconds: to
    measure one run. jobs: processes, which compile and measure at the same time. table_seconds: for each table before its first
    training, to render and encode its clips.
    """

    clips_per_second: float = 2400.0
    row_seconds: float = 60.0
    run_seconds: float = 20.0
    jobs: int = 8
    table_seconds: float = 30.0


@dataclass
class Done:
    """What the studies before have trained, by digest."""

    bases: set[str] = field(default_factory=set)
    trials: set[tuple[str, Rate | None]] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Estimate:
    """trials, runs: trainings that are left. taken: runs of earlier studies. steps: of all trainings but the bases'."""

    study: str
    trials: int
    runs: int
    taken: int
    steps: int
    seconds: float


def estimate_all(names: Sequence[str], pace: Pace) -> list[Estimate]:
    """One estimate for each study, in the order in which they are run with --reuse of all before."""
    done = Done()
    return [_estimate(Path(name).stem, read_study(name), pace, done) for name in names]


def _estimate(name: str, study: Study, pace: Pace, done: Done) -> Estimate:
    plan = Plan(study, name, Path(name))
    digests = {task: run_digest(plan, task) for task in plan.tasks() if task.rate is None}
    runs = [task for task, digest in digests.items() if digest not in done.runs]
    rows = {plan.trial_cell(task.cell) for task in runs}
    keys = {
        task: (trial_digest(study, task.cell), task.rate) for task in plan.tasks() if task.cell in rows and task.rate
    }
    trials = [task for task, key in keys.items() if key not in done.trials]
    measuring = pace.run_seconds * len(runs) if study.measure.groups else 0.0
    preparing = pace.row_seconds * len({task.cell for task in (*trials, *runs)})
    steps, training = 0, 0.0
    for task in (*trials, *runs):
        count = study.sweep_steps if task.rate else _steps(study, task, pace)
        steps += count
        training += count * _step_seconds(study, task.cell, pace)
    alone = _alone(plan, runs, pace, done)
    done.runs.update(digests.values())
    done.trials.update(keys.values())
    seconds = alone + training + (preparing + measuring) / pace.jobs
    return Estimate(name, len(trials), len(runs), len(digests) - len(runs), steps, seconds)


def _alone(plan: Plan, runs: Sequence[Task], pace: Pace, done: Done) -> float:
    """Seconds in which only one process works: clips, bases, and times of steps."""
    study = plan.study
    seconds = pace.table_seconds * len({task.cell.table for task in runs})
    for name in dict.fromkeys(study.tables[task.cell.table].base for task in runs):
        base = study.bases[name]
        if (digest := json_digest(dataclasses.asdict(base))) not in done.bases:
            done.bases.add(digest)
            seconds += _base_seconds(base, pace)
    timed: dict[Cell, int] = {}  # and how often
    for task in runs:
        if study.measure.time:
            timed[task.cell] = timed.get(task.cell, 0) + 1
        elif study.seconds is not None:
            timed[plan.timing_cell(task.cell)] = 1
    return seconds + sum(
        pace.row_seconds + count * TIMED_STEPS * _step_seconds(study, cell, pace, study.timed_batch_size)
        for cell, count in timed.items()
    )


def _steps(study: Study, task: Task, pace: Pace) -> int:
    steps, seconds = study.steps_of(task.cell.table), study.seconds_of(task.cell.table)
    if steps is not None:
        return steps
    return round((seconds or 0.0) / _step_seconds(study, task.cell, pace, study.timed_batch_size))


def _step_seconds(study: Study, cell: Cell, pace: Pace, batch_size: int | None = None) -> float:
    """batch_size: if not that of the row's recipe."""
    base = study.bases[study.tables[cell.table].base]
    clips = batch_size or study.row_recipe(cell).optimizer.batch_size
    return clips / pace.clips_per_second * _slowdown(base)


def _base_seconds(base: Base, pace: Pace) -> float:
    if base.recipe is None:
        return 0.0
    settings = merge(dataclasses.asdict(Recipe.from_yaml(base.recipe)), base.overrides)["optimizer"]
    if settings["max_seconds"] is not None:
        return float(settings["max_seconds"])
    clips = float(settings["max_steps"]) * settings["batch_size"]
    return pace.row_seconds + clips / pace.clips_per_second * _slowdown(base)


def _slowdown(base: Base) -> float:
    return math.sqrt(_size(base) / _size(_SMALL))


def _size(base: Base) -> float:
    """The parameters of a base's blocks: two attentions and a feed-forward. A base without `layers` counts as a small one."""
    layers = _SMALL.layers if base.layers is None else base.layers
    width = 64 * base.heads
    return float((layers or 0) * (8 * width**2 + 2 * width * base.ffn))
