"""Worker: executes the tasks of a study in one process. Every task ends with a file: its values, or why there are none."""

from __future__ import annotations

import gc
import json
import shutil
import sys
from contextlib import ExitStack, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch

from sightline.devices import cpu_threads
from sightline.digests import json_digest
from sightline.files import write_atomic
from sightline.locks import LockHeldError
from sightline.study.plan import TRIAL, Plan, Task, unfinished
from sightline.study.results import RunResult
from sightline.study.row_training import OutOfTime, RowTrainer
from sightline.study.shortage import DeviceLost, NoRoom, explain, is_device_lost, lack_of_memory
from sightline.study.study import Cell
from sightline.worlds.batches import available_cores


class Worker:
    """Executes tasks of a plan, one after the other. The arguments are those of RowTrainer."""

    def __init__(self, plan: Plan, jobs: int = 1, deadline: float | None = None, keep_models: bool = False) -> None:
        self.plan, self.jobs = plan, jobs
        self.rows = RowTrainer(plan, jobs, deadline, keep_models)
        self.last_cell: Cell | None = None

    def prepare(self) -> None:
        """Make what all processes wait for: bases, clips, and times of steps. It is done once. A row for which it fails gets
        results that say why; where memory was missing, its runs try again."""
        tasks = self.plan.tasks()
        # Beside the clips: where these were removed, or not copied to another machine, they are made before the first training.
        done = self.plan.folder / "clips" / f"prepared-{json_digest([task.name for task in tasks])}"
        if done.is_file():
            return
        cells = dict.fromkeys(task.cell for task in unfinished(self.plan, tasks))
        with cpu_threads(available_cores()) if self.jobs > 1 else nullcontext():  # the other processes wait
            is_ready = [self._prepare_cell(cell) for cell in cells]
        if all(is_ready):
            write_atomic(done, "")

    def _prepare_cell(self, cell: Cell) -> bool:
        """False where the runs of the row cannot run."""
        sentence, is_lost = None, False
        study = self.plan.study
        runs = [task for task in self.plan.tasks() if task.cell == cell and task.rate is None]
        try:
            with self._log(self.plan.folder / "prepare.txt"):
                self.rows.measurer(cell.table).prepare(study.row_recipe(cell).data)
                if study.seconds is not None:
                    self.rows.timing(cell)
                for task in runs if study.measure.time else ():
                    self.rows.timing(cell, task.seed)
        except OutOfTime:
            raise
        except LockHeldError:
            return True
        except Exception as error:
            sentence, is_lost = explain(error), is_device_lost(error)
        self._free(is_lost)
        _forget_compiled()
        if sentence is None or lack_of_memory(sentence):
            return True
        for task in runs:
            if not self.plan.is_done(task):
                self.fail(task, sentence)
        if is_lost:
            raise DeviceLost(sentence)
        return False

    def execute(self, task: Task) -> None:
        """Execute a task to its file. A row that cannot run has a result with one sentence instead of values.

        NoRoom: beside other processes, the device lacks the memory for it; nothing is written then. DeviceLost: this process
        can do nothing more.
        """
        folder = self.plan.task_folder(task)
        if self.last_cell not in (None, task.cell):
            _forget_compiled()
        self.last_cell = task.cell
        sentence, is_lost = None, False
        try:
            with self._log(folder / "output.txt"):
                result = self.rows.trial(task, folder) if task.rate is not None else self.rows.run(task, folder)
        except (OutOfTime, LockHeldError):
            raise
        except Exception as error:  # whatever is wrong with one row, the others run
            sentence, is_lost = explain(error), is_device_lost(error)
        # From here on, the error no longer keeps the model in memory.
        if sentence is None:
            self._write(task, result)
        elif self.jobs > 1 and lack_of_memory(sentence):
            self._free()
            raise NoRoom(sentence)
        else:
            self.fail(task, sentence)
        self._free(is_lost)
        if is_lost:
            raise DeviceLost(sentence)

    def fail(self, task: Task, sentence: str) -> None:
        """Write why a task has no values."""
        if task.rate is not None:
            self._write(task, {"loss": None, "failure": sentence})
        else:
            self._write(task, RunResult(self.plan.name, task.cell.row, task.seed, task.cell.table, failure=sentence))

    def _write(self, task: Task, result: RunResult | dict[str, Any]) -> None:
        folder = self.plan.task_folder(task)
        if isinstance(result, RunResult):
            result.write(folder)
        else:
            write_atomic(folder / TRIAL, json.dumps(result) + "\n")
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)

    def _log(self, file: Path) -> ExitStack:
        """What the libraries and the trainer print goes to a file beside the run."""
        file.parent.mkdir(parents=True, exist_ok=True)
        stack = ExitStack()
        stream = stack.enter_context(file.open("a"))
        stack.enter_context(redirect_stderr(stream))
        stack.enter_context(redirect_stdout(stream))
        return stack

    @staticmethod
    def _free(is_lost: bool = False) -> None:
        gc.collect()
        if torch.cuda.is_available() and not is_lost:
            torch.cuda.empty_cache()


def _forget_compiled() -> None:
    """Each encoding compiles other code, and torch limits how often that may happen."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
