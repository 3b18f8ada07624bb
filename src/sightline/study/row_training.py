"""Training and measuring a row of a study: a run with a seed, or a trial of a learning rate, from its recipe to its values."""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import torch

from sightline.data.rendered_store import RenderedStore
from sightline.errors import SightlineError
from sightline.study.bases import base_model, require_base_of_results
from sightline.study.history import development, read_history, step_seconds
from sightline.study.measure import Measurer, new_parameters, reciprocal_shares
from sightline.study.plan import Plan, Task
from sightline.study.results import RunResult
from sightline.study.shortage import lack_of_memory
from sightline.study.study import Cell, Rate
from sightline.study.timing import TIMED_STEPS, read_or_measure
from sightline.training import checkpoint
from sightline.training.export import export, load_trained
from sightline.training.recipe import Recipe
from sightline.training.trainer import train

_CHECKPOINTS = 4  # of a run on its way, so that a killed one repeats little
_HISTORY_CLIPS = 2  # held-out clips of the losses on the way; the result has many


class OutOfTime(Exception):
    """The time of the command is over; the rest is left to the next one."""


class RowTrainer:
    """Trains the rows of a plan and measures what they learn. What consecutive rows share (clips, encoder) stays in memory.

    jobs: processes that share the device. deadline: the time of time.perf_counter() at which trainings stop with a checkpoint,
    and other work between two batches. keep_models: export every trained model beside its result.
    """

    def __init__(self, plan: Plan, jobs: int = 1, deadline: float | None = None, keep_models: bool = False) -> None:
        self.plan, self.jobs, self.deadline, self.keep_models = plan, jobs, deadline, keep_models
        self.store = RenderedStore(plan.folder / "clips", between=self._seconds_left)
        self._measurer: tuple[str, Measurer] | None = None
        self._same_base: set[str] = set()  # tables whose results started from the base that is there

    def trial(self, task: Task, folder: Path) -> dict[str, Any]:
        """The held-out loss after a short training with a learning rate."""
        assert task.rate is not None
        recipe = _without_history(self._recipe(task.cell, task.seed, task.rate, self.plan.study.sweep_steps, folder))
        model = self._trained(recipe, folder)
        loss = self.measurer(task.cell.table).sweep_loss(model)
        return {"loss": loss} if math.isfinite(loss) else {"loss": None, "failure": f"the held-out loss is {loss}."}

    def run(self, task: Task, folder: Path) -> RunResult:
        cell = task.cell
        recipe = self._recipe(cell, task.seed, self._best_rate(cell), self.steps(cell), folder)
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        model = self._trained(recipe, folder)
        state = checkpoint.read_state(checkpoint.list_checkpoints(folder / "checkpoints")[-1])
        clips, metrics = self.measurer(cell.table)(model)
        history, peak_gib = read_history(folder)
        study = self.plan.study
        timing = (
            self.timing(cell, task.seed) if study.measure.time else {} if study.seconds is None else self.timing(cell)
        )
        cost = {
            "new_parameters": float(new_parameters(model)),
            "step_seconds": step_seconds(folder),
            "train_seconds": state.seconds,
            "steps": float(state.step),
            **({} if peak_gib is None else {"peak_gib": peak_gib}),
            **timing,
        }
        optimizer = recipe.optimizer
        facts = {"encoding_lr_scale": optimizer.encoding_lr_scale, "jobs": float(self.jobs), **reciprocal_shares(model)}
        facts |= development(history)
        facts |= {f"sweep/{tried.name}": loss for tried, loss in self.plan.trials(cell).items() if loss is not None}
        if self.keep_models and not (folder / "model").exists():
            export(folder, folder / "model")
        return RunResult(
            self.plan.name,
            cell.row,
            task.seed,
            cell.table,
            clips,
            metrics,
            cost,
            optimizer.learning_rate,
            history,
            facts,
            base=state.base,
        )

    def measurer(self, table: str) -> Measurer:
        if self._measurer is None or self._measurer[0] != table:
            recipe = self._with_base(self.plan.study.shared_recipe(table), table)
            videos = self.plan.study.tables[table].videos
            self._measurer = table, Measurer(recipe, videos, self.plan.study.measure, self.store)
        return self._measurer[1]

    def timing(self, cell: Cell, seed: int | None = None) -> dict[str, float]:
        """Seconds of a training step, and of a denoising step of one clip: of a seed, or once for a row (and
        all tables that differ in their sources only), which is what its number of steps is computed from."""
        if seed is None:
            cell = self.plan.timing_cell(cell)
        folder = self.plan.folder / "timing" / cell.name / ("" if seed is None else str(seed))

        def train(run: Path) -> Any:
            study = self.plan.study
            recipe = self._recipe(cell, study.seeds[0] if seed is None else seed, None, TIMED_STEPS, run)
            if (size := study.timed_batch_size) is not None:
                optimizer = dataclasses.replace(recipe.optimizer, batch_size=size, micro_batch_size=size)
                recipe = dataclasses.replace(recipe, optimizer=optimizer)
            return self._trained(_without_history(recipe), run)

        return read_or_measure(folder, train, self.measurer(cell.table))

    def steps(self, cell: Cell) -> int:
        """The steps of a run: the study's, or as many as fit into its seconds."""
        steps, seconds = self.plan.study.steps_of(cell.table), self.plan.study.seconds_of(cell.table)
        if steps is not None:
            return steps
        assert seconds is not None
        return max(1, round(seconds / self.timing(cell)["step_seconds"]))

    def _best_rate(self, cell: Cell) -> Rate | None:
        """The learning rates to train with; None for the recipe's own."""
        rates = self.plan.rates(cell)
        if len(rates) < 2:
            return rates[0] if rates else None
        losses = {rate: loss for rate, loss in self.plan.trials(cell).items() if loss is not None}
        failed = [self.plan.failure(Task(cell, 0, rate)) or "" for rate in rates if rate not in losses]
        if short := [sentence for sentence in failed if lack_of_memory(sentence)]:
            raise SightlineError(short[0])  # all rows must have had the same trials
        if not losses:
            raise SightlineError(f"none of the learning rates could be tried: {failed[0]}")
        return min(losses, key=lambda rate: losses[rate])

    def _with_base(self, recipe: Recipe, table: str) -> Recipe:
        study = self.plan.study
        name = study.tables[table].base
        base = base_model(name, study.bases[name], self.plan.folder / "bases", self.store, self._seconds_left())
        if base is None:
            raise OutOfTime
        if table not in self._same_base:
            require_base_of_results(self.plan, table)
            self._same_base.add(table)
        return dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, base=base))

    def _recipe(self, cell: Cell, seed: int, rate: Rate | None, steps: int, output: Path) -> Recipe:
        """The recipe of a row with its seed, length and learning rates. Nothing else may differ between rows."""
        recipe = self._with_base(self.plan.study.row_recipe(cell), cell.table)
        chosen = {} if rate is None else dataclasses.asdict(rate)
        warmup = min(recipe.optimizer.warmup_steps, steps // 10)
        limits: dict[str, Any] = {"max_steps": steps, "max_seconds": None, "warmup_steps": warmup}
        every = max(1, steps // self.plan.study.measure.history)
        validation = dataclasses.replace(recipe.validation, every_steps=every, num_clips=_HISTORY_CLIPS, num_videos=0)
        return dataclasses.replace(
            recipe,
            seed=seed,
            optimizer=dataclasses.replace(recipe.optimizer, **limits, **chosen),
            validation=validation,
            checkpointing_steps=max(1, -(-steps // _CHECKPOINTS)),
            checkpoints_total_limit=1,
            report_to="none",
            output=str(output),
        )

    def _trained(self, recipe: Recipe, folder: Path) -> Any:
        """Train, or go on with an interrupted training, and return the model to measure: the averaged weights, uncompiled."""
        train(recipe, "latest", self._seconds_left(), self.store)
        last = checkpoint.list_checkpoints(folder / "checkpoints")[-1]
        if checkpoint.read_state(last).step < recipe.optimizer.max_steps:
            raise OutOfTime
        plain = dataclasses.replace(recipe.model, compile=False, gradient_checkpointing=False)
        model, _ = load_trained(folder, dataclasses.replace(recipe, model=plain))
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return model.to(device).requires_grad_(False).eval()

    def _seconds_left(self) -> float | None:
        if self.deadline is None:
            return None
        left = self.deadline - time.perf_counter()
        if left <= 0:
            raise OutOfTime
        return left


def _without_history(recipe: Recipe) -> Recipe:
    """Validated at its end only: nobody reads the history of a trial."""
    validation = dataclasses.replace(recipe.validation, every_steps=recipe.optimizer.max_steps)
    return dataclasses.replace(recipe, validation=validation)
