"""The plan of a study in a folder: its tasks, where each writes, and which are done. Everything is decided by files.

DIR/study.json               the study
DIR/clips/                   rendered and encoded clips, for all rows
DIR/bases/NAME/pipeline/     bases that the study trained
DIR/timing/CELL/             the time of a step alone on the device (timing.py)
DIR/sweeps/CELL/RATE/trial.json
DIR/runs/CELL/SEED/result.json
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sightline.digests import json_digest
from sightline.documents import read_json
from sightline.encodings.registry import has_parameters
from sightline.errors import SightlineError
from sightline.files import write_atomic
from sightline.settings import convert, from_dict, to_builtin
from sightline.study.results import RESULT, read_result
from sightline.study.study import Cell, Rate, Study

STUDY, TRIAL = "study.json", "trial.json"
_TRIAL = "the trial of a learning rate"
_MAY_CHANGE = ("seeds", "title")  # a folder may get more seeds later


@dataclass(frozen=True)
class Task:
    """One training: a trial of a learning rate (`rate`), or a run of a seed."""

    cell: Cell
    seed: int
    rate: Rate | None = None

    @property
    def name(self) -> str:
        what = f"seed {self.seed}" if self.rate is None else f"trial of learning rate {self.rate.name}"
        return f"{self.cell.table}, {self.cell.row}, {what}"


@dataclass(frozen=True)
class Share:
    """Part `number` of `count` of a study, counted from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Share:
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise SightlineError(f"share is {text!r}: expected PART/PARTS, such as 2/4.")
        return cls(int(number), int(count))


@dataclass(frozen=True, eq=False)
class Plan:
    """A study in a folder. rows, tables: the labels that are run; empty for all. share: which part of the tasks."""

    study: Study
    name: str
    folder: Path
    share: Share = Share()
    rows: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for what, given, known in (("rows", self.rows, self.study.rows), ("tables", self.tables, self.study.tables)):
            if unknown := [label for label in given if label not in known]:
                raise SightlineError(f"{what} has {unknown[0]!r}: expected some of {', '.join(known)}.")

    def cells(self) -> list[Cell]:
        """The rows of this share that are run."""
        return list(dict.fromkeys(cell for cell, _ in self._pairs()))

    def _pairs(self) -> list[tuple[Cell, int]]:
        """Rows and seeds. With a sweep, a row stays on one machine, so that all of its seeds have one learning rate."""
        cells = self.study.cells()
        whole_rows = len(self.study.rates) > 1
        pairs = [(cell, seed) for cell in cells for seed in self.study.seeds]
        rows = list(dict.fromkeys(map(self.trial_cell, cells)))
        numbers = [
            rows.index(self.trial_cell(cell)) if whole_rows else number for number, (cell, _) in enumerate(pairs)
        ]
        return [
            (cell, seed)
            for number, (cell, seed) in zip(numbers, pairs, strict=True)
            if number % self.share.count == self.share.number - 1
            and (not self.rows or cell.row in self.rows)
            and (not self.tables or cell.table in self.tables)
        ]

    def tasks(self) -> list[Task]:
        """All tasks of this share: the trials of the learning rates, and the runs."""
        seed = self.study.seeds[0]
        rows = dict.fromkeys(self.trial_cell(cell) for cell in self.cells() if self.has_trials(cell))
        trials = [Task(cell, seed, rate) for cell in rows for rate in self.rates(cell)]
        return trials + [Task(cell, seed) for cell, seed in self._pairs()]

    def rates(self, cell: Cell) -> list[Rate]:
        """The learning rates that a row chooses from. A row whose encoding has no parameters tries none that differ in their
        scale only."""
        rates = self.study.rates
        return (
            list({rate.learning_rate: rate for rate in rates[::-1]}.values())[::-1]
            if cell in self._unscaled
            else list(rates)
        )

    def has_trials(self, cell: Cell) -> bool:
        return len(self.rates(cell)) > 1

    def trial_cell(self, cell: Cell) -> Cell:
        """The row whose trials of learning rates are also those of this one: the first that is trained alike. Tables that differ
        in the budget of their runs only, or in the videos that are measured, share their trials."""
        return self._trial_cells[cell]

    def timing_cell(self, cell: Cell) -> Cell:
        """The row whose time of a step is also that of this one: the first that differs in the sources of its clips at most."""
        return self._timing_cells[cell]

    @cached_property
    def _timing_cells(self) -> dict[Cell, Cell]:
        first: dict[str, Cell] = {}
        return {cell: first.setdefault(_timing_digest(self.study, cell), cell) for cell in self.study.cells()}

    @cached_property
    def _trial_cells(self) -> dict[Cell, Cell]:
        first: dict[str, Cell] = {}
        return {cell: first.setdefault(trial_digest(self.study, cell), cell) for cell in self.study.cells()}

    @cached_property
    def _unscaled(self) -> frozenset[Cell]:
        """Rows without a parameter that has a learning rate of its own."""
        models = {cell: self.study.row_recipe(cell).model for cell in self.study.cells()}
        return frozenset(
            cell for cell, model in models.items() if model.camera is None and not has_parameters(model.encoding)
        )

    def task_folder(self, task: Task) -> Path:
        if task.rate is not None:
            return self.folder / "sweeps" / self.trial_cell(task.cell).name / task.rate.name
        return self.folder / "runs" / task.cell.name / str(task.seed)

    def is_done(self, task: Task) -> bool:
        return (self.task_folder(task) / (RESULT if task.rate is None else TRIAL)).is_file()

    def is_ready(self, task: Task) -> bool:
        """Whether a task may start: a run waits for the trials of its row."""
        cell = task.cell
        return task.rate is not None or not self.has_trials(cell) or len(self.trials(cell)) == len(self.rates(cell))

    def trials(self, cell: Cell) -> dict[Rate, float | None]:
        """The held-out losses of the trials that are done; None for one that failed."""
        done = {}
        for rate in self.rates(cell):
            file = self.task_folder(Task(cell, 0, rate)) / TRIAL
            if file.is_file():
                done[rate] = convert(float | None, read_json(file, _TRIAL).get("loss"), str(file))
        return done

    def weight(self, task: Task) -> float:
        """The share of a task in the work of the study, for the remaining time."""
        steps = self.study.steps_of(task.cell.table) or 10 * self.study.sweep_steps
        return float(self.study.sweep_steps if task.rate is not None else steps)

    def forget_failures(self, which: Callable[[str], bool] = lambda sentence: True) -> int:
        """Remove the files of tasks that failed, so that they are tried again: a cache may be there now, or more memory.
        which: whether to remove a failure of this sentence. Returns how many were removed."""
        failed = [task for task in self.tasks() if (sentence := self.failure(task)) is not None and which(sentence)]
        for task in failed:
            (self.task_folder(task) / (RESULT if task.rate is None else TRIAL)).unlink()
        return len(failed)

    def failure(self, task: Task) -> str | None:
        """Why a task that is done has no values; None where it has."""
        if not self.is_done(task):
            return None
        if task.rate is None:
            return read_result(self.task_folder(task) / RESULT).failure
        file = self.task_folder(task) / TRIAL
        return convert(str | None, read_json(file, _TRIAL).get("failure"), f"{file}: failure")

    def write_study(self) -> None:
        """Write study.json, or refuse a folder that holds another study."""
        file = self.folder / STUDY
        if file.is_file():
            require_same_study(file, self.name, self.study)
            seeds = dict.fromkeys([*read_plan(self.folder).study.seeds, *self.study.seeds])
            study = dataclasses.replace(self.study, seeds=tuple(seeds))
        else:
            study = self.study
        write_atomic(file, json.dumps({"name": self.name, **_plain(study)}, indent=1) + "\n")


def trial_digest(study: Study, cell: Cell) -> str:
    """Equal for rows whose trials of learning rates are the same trainings, judged alike."""
    return json_digest(
        {
            "recipe": dataclasses.asdict(study.row_recipe(cell)),
            "judged on": dataclasses.asdict(study.shared_recipe(cell.table)),
            "base": dataclasses.asdict(study.bases[study.tables[cell.table].base]),
            "steps": study.sweep_steps,
            "seed": study.seeds[0],
            "clips": [study.measure.loss_clips, study.measure.batch_size],
        }
    )


def _timing_digest(study: Study, cell: Cell) -> str:
    recipe = dataclasses.asdict(study.row_recipe(cell))
    recipe["data"].pop("sources")
    return json_digest({"recipe": recipe, "base": dataclasses.asdict(study.bases[study.tables[cell.table].base])})


def _plain(study: Study) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(to_builtin(dataclasses.asdict(study))))
    return plain


def read_plan(folder: Path) -> Plan:
    """The plan of a folder that `study run` wrote."""
    file = folder / STUDY
    if not file.is_file():
        raise SightlineError(f"{folder} holds no {STUDY}: expected a folder that sightline study run wrote.")
    content = read_json(file, "a study")
    name = convert(str, content.pop("name", None), f"{file}: name")
    return Plan(from_dict(Study, content, f"{file}: "), name, folder)


def require_same_study(file: Path, name: str, study: Study) -> None:
    """Refuse a folder of another study."""
    found = read_plan(file.parent)
    old, new = ({"name": one_name, **_plain(one)} for one_name, one in ((found.name, found.study), (name, study)))
    for setting in old:
        if setting not in _MAY_CHANGE and old[setting] != new[setting]:
            raise SightlineError(
                f"{file.parent} holds a study with {setting} {_short(old[setting])}: expected {_short(new[setting])}, or "
                "another folder."
            )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def unfinished(plan: Plan, tasks: Sequence[Task]) -> list[Task]:
    """The tasks that are still to be done. A row whose runs are all there, from another folder, needs no trials."""
    runs = [task for task in tasks if task.rate is None and not plan.is_done(task)]
    cells = {plan.trial_cell(task.cell) for task in runs}
    trials = [task for task in tasks if task.rate is not None and task.cell in cells and not plan.is_done(task)]
    return trials + runs
