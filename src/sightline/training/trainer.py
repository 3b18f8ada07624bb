"""The trainer: one loop for pretraining and for camera retrofits, on one process or many."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from sightline.backbones.families import patch_size
from sightline.backbones.model_io import io_of
from sightline.checks import number
from sightline.data.encode import load_encoder
from sightline.data.latents import LatentBatch
from sightline.data.rendered_store import RenderedStore
from sightline.errors import SightlineError
from sightline.files import require_writable, write_atomic
from sightline.run_folder import locked
from sightline.training import checkpoint, memory
from sightline.training.ema import ema_weights, make_ema, update_ema
from sightline.training.encoder_check import require_vae_of
from sightline.training.feeds import make_feed, open_caches, require_cached_clips
from sightline.training.finite import require_finite, require_finite_weights
from sightline.training.model import build_model, load_base, warn_of_other_experts_noise
from sightline.training.objective import Draw, autocast, draw, flow_matching_loss
from sightline.training.optimizer import (
    Clock,
    clip_gradients,
    make_optimizer,
    mean_over_processes,
    set_learning_rate,
)
from sightline.training.parallelize import is_sharded, micro_batch_slices, parallelize, set_gradient_sync
from sightline.training.recipe import Recipe
from sightline.training.report import Report
from sightline.training.resume import find_start, is_finished
from sightline.training.running_step import Measured, RunningStep
from sightline.training.sampler import count_other_experts, load_sampler
from sightline.training.throughput import Throughput
from sightline.training.trainable import choose_trainable, summary
from sightline.training.validation import validate

MicroBatches = Generator[tuple[LatentBatch, Draw], None, None]


def train(
    recipe: Recipe,
    resume: str | None = None,
    stop_after: float | None = None,
    store: RenderedStore | None = None,
) -> Path:
    """Run a recipe to its last step and return the run's folder.

    resume: "latest" or a checkpoint's path. With "latest", a folder without checkpoints starts from the beginning.
    stop_after: write a checkpoint and return at the first step that ends so many seconds after this call. The recipe's
        schedule does not change; a later call continues it.
    store: rendered clips that several runs share, so that each is rendered and encoded once.
    """
    stop_at = math.inf if stop_after is None else time.perf_counter() + number("stop_after", stop_after, above=0.0)
    run = Path(recipe.output)
    with locked(run, ("samples",), "a new folder or an earlier run's"):
        if os.environ.get("RANK", "0") == "0":
            checkpoint.remove_leftovers(run / "checkpoints")
        start = find_start(recipe, run, resume)
        # A run that is started again has nothing to do once what follows its last checkpoint is done too.
        if start is None or not (is_finished(checkpoint.read_state(start), recipe) and checkpoint.is_validated(start)):
            _train(recipe, run, start, stop_at, store)
    return run


def _train(recipe: Recipe, run: Path, start: Path | None, stop_at: float, store: RenderedStore | None) -> None:
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    trainer = Trainer(recipe, accelerator, store)
    with Report(run, recipe, accelerator) as report:
        trainer.prepare(report, start)
        if start is not None and trainer.owes_validation(start):
            trainer.validate(report)
        if start is None or not is_finished(checkpoint.read_state(start), recipe):
            trainer.train(report, stop_at)
    accelerator.wait_for_everyone()


class Trainer:
    """A run in one process: its model, data and optimizer, and the loop over its steps."""

    def __init__(self, recipe: Recipe, accelerator: Accelerator, store: RenderedStore | None = None) -> None:
        """Load the model and open the data. What is wrong with the recipe is raised here, before the run's folder exists."""
        self.recipe, self.accelerator, self.device = recipe, accelerator, accelerator.device
        self.run, self.num_processes = Path(recipe.output), accelerator.num_processes
        self.slices = micro_batch_slices(recipe.optimizer, accelerator.process_index, self.num_processes)
        if accelerator.is_main_process:
            require_writable(self.run, "a new folder or an earlier run's")
        if recipe.data.cache:
            require_cached_clips(recipe.data)
        base = load_base(recipe.model, is_sharded(recipe.parallel, self.num_processes))
        self.base_digest, self.base_weights = base.digest, base.weights
        if accelerator.is_main_process:
            warn_of_other_experts_noise(recipe.model, recipe.objective)
        torch.manual_seed(recipe.seed)  # the encoding's initialization, the same in every process
        self.model: Any = build_model(base.transformer, recipe.model)
        if not choose_trainable(self.model, recipe.model):
            raise SightlineError(
                f"model.trainable is {recipe.model.trainable!r}: this model has no such parameters to train."
            )
        # Clips are encoded where the model is trained. With a cache, neither VAE nor text encoder is loaded for it.
        load = load_encoder if store is None else store.encoder
        encoder = None if recipe.data.cache else load(recipe.model.base, self.device, recipe.dtype)
        model_config: Any = self.model.config
        self.feed = make_feed(
            recipe.data,
            encoder,
            recipe.seed,
            batch_size=recipe.optimizer.batch_size,
            patch_size=patch_size(model_config),
            with_camera=hasattr(self.model, "encoding_layers"),
            quiet=not accelerator.is_main_process,
            store=store,
        )
        self.feed.require_fit(model_config, io_of(self.model).text_channels(model_config))
        tokens = self.feed.max_tokens(patch_size(model_config))
        estimate = memory.estimate(self.model, recipe, tokens, self.num_processes, count_other_experts(recipe))
        self.memory = memory.require_fit(estimate, recipe, self.device)
        self.throughput = Throughput.of(self.model, recipe.dtype, self.device, self.num_processes)
        self.sampler = None
        if recipe.validation.num_videos:
            vae = None if encoder is None else encoder.pipe.vae
            self.sampler = load_sampler(recipe, self.device, self.num_processes, vae)
        if recipe.data.cache:
            own_vae = None if self.sampler is None else self.sampler.pipe.vae
            require_vae_of(open_caches(recipe.data)[0], recipe.model.base, own_vae)

    def prepare(self, report: Report, start: Path | None) -> None:
        """Put the model on its devices, make the optimizer and the EMA, and fill them from a checkpoint to resume."""
        recipe, model = self.recipe, self.model
        report.say_trainable(summary(model))
        report.say(self.memory)
        self.parallel_model = parallelize(model, recipe.parallel, self.num_processes, self.device, self.base_weights)
        # Only now, because sharding replaces parameters.
        self.trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.optimizer = make_optimizer(self.trainable, recipe.optimizer)
        self.ema = None if recipe.optimizer.ema_decay is None else make_ema(self.trainable)
        self.steps_done, self.clock = 0, Clock(self.accelerator)
        if start is not None:
            state = checkpoint.load_checkpoint(start, self.base_digest, self.trainable, self.optimizer, self.ema)
            self.steps_done, self.clock.seconds = state.step, state.seconds
            report.say(f"resumed from {start}")
            if (self.run / "recipe.yaml").is_file():
                for change in recipe.changes_from(Recipe.from_yaml(self.run / "recipe.yaml")):
                    report.say(f"changed since then: {change}")
        if self.accelerator.is_main_process:
            write_atomic(self.run / "recipe.yaml", recipe.to_yaml())

    def train(self, report: Report, stop_at: float = math.inf) -> None:
        """All steps that are left, with checkpoints and validation on the way and at the end.

        stop_at: the time of time.perf_counter() after which a checkpoint is written and the rest is left to a later call.
        """
        recipe, max_seconds = self.recipe, self.recipe.optimizer.max_seconds or math.inf
        batches = self.feed.micro_batches(
            self.steps_done * recipe.optimizer.batch_size,
            recipe.optimizer.batch_size,
            self.slices,
            recipe.data.num_workers,
            self.device,
            partial(draw, objective=recipe.objective, seed=recipe.seed),
        )
        previous: RunningStep | None = None
        for step in report.steps(self.steps_done, recipe.optimizer.max_steps):
            started = time.perf_counter()
            time_fraction = self.clock.start_step() / max_seconds
            launched = RunningStep(step, *self.train_step(batches, step, time_fraction), self.clip_tokens, started)
            # A device computes this step while the one before it is read, so that it never waits for this process.
            if previous is not None:
                self.finish(previous, report, until=started)
            previous = launched
            self.steps_done = step + 1
            is_last = self.steps_done == recipe.optimizer.max_steps or time_fraction >= 1
            is_stopped = not is_last and self.is_over(stop_at)
            saves = self.steps_done % recipe.checkpointing_steps == 0
            validates = self.steps_done % recipe.validation.every_steps == 0
            if saves or validates or is_last or is_stopped:
                self.finish(previous, report)
                previous = None
            if saves or is_last or is_stopped:
                self.save_checkpoint()
            if is_stopped:
                report.say(
                    f"stopped after {self.steps_done} steps, as --stop-after asks: continue with --resume latest"
                )
                break
            if validates or is_last:
                self.validate(report)
            if is_last:
                break
        batches.close()

    def finish(self, step: RunningStep, report: Report, until: float | None = None) -> None:
        """Wait for a step, refuse one that was not finite, and log it. until: when the next one began, if it has."""
        loss, grad_norm = step.measured.wait()
        require_finite(self.run, step.index, loss=loss, gradient=grad_norm)
        seconds = (time.perf_counter() if until is None else until) - step.started
        throughput = self.throughput.scalars(*step.tokens, self.recipe.optimizer.batch_size, seconds)
        report.log_step(step.index, loss, grad_norm, step.learning_rate, seconds, throughput)

    def is_over(self, stop_at: float) -> bool:
        """Whether a time of time.perf_counter() has come, on average over the processes."""
        return stop_at < math.inf and mean_over_processes(stop_at - time.perf_counter(), self.accelerator) <= 0

    def train_step(self, batches: MicroBatches, step: int, time_fraction: float) -> tuple[Measured, float]:
        """Launch one step of the optimizer, which a GPU may still be computing on return. Returns its loss with the norm of its
        gradients, and its learning rate."""
        config = self.recipe.optimizer
        reduced = self.accelerator.reduce(self.backward(batches), "sum")
        norm = clip_gradients(self.trainable, config.max_grad_norm)
        measured = Measured(torch.stack([reduced, norm.to(reduced)]))
        learning_rate = set_learning_rate(self.optimizer, config, step, time_fraction)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            update_ema(self.ema, self.trainable, config.ema_decay or 0.0, step)
        return measured, learning_rate

    def backward(self, batches: MicroBatches) -> Tensor:
        """Accumulate the gradients of this process's micro-batches of a step; returns its part of the step's loss."""
        loss = torch.zeros((), device=self.device)
        for index in range(len(self.slices)):
            batch, drawn = next(batches)
            self.clip_tokens = self.throughput.tokens(batch)
            set_gradient_sync(self.parallel_model, enabled=index == len(self.slices) - 1)
            with autocast(self.recipe, self.device):
                losses = flow_matching_loss(self.parallel_model, batch, drawn)
            # DDP and FSDP2 average gradients over processes, so their number is multiplied in here and out of the loss.
            scaled = losses.sum() * self.num_processes / self.recipe.optimizer.batch_size
            scaled.backward()
            loss += scaled.detach() / self.num_processes
        return loss

    def save_checkpoint(self) -> None:
        require_finite_weights(self.run, self.steps_done - 1, self.trainable.values(), self.accelerator)
        state = checkpoint.State(self.steps_done, self.clock.seconds, self.base_digest)
        limit = self.recipe.checkpoints_total_limit
        checkpoint.save_checkpoint(
            self.run / "checkpoints", state, self.trainable, self.optimizer, self.ema, total_limit=limit
        )

    def owes_validation(self, start: Path) -> bool:
        """Whether a run was killed after the checkpoint that it is resumed from, before the validation of that step was done."""
        is_due = self.steps_done % self.recipe.validation.every_steps == 0
        is_last = is_finished(checkpoint.read_state(start), self.recipe)
        return (is_due or is_last) and not checkpoint.is_validated(start)

    def validate(self, report: Report) -> None:
        """Validate the averaged weights, or the last ones where the run keeps no average."""
        with ema_weights(self.trainable, self.ema):
            validate(self.model, self.sampler, self.feed, self.recipe, report, self.steps_done, self.device)
        self.accelerator.wait_for_everyone()  # every process has written its samples
        if self.accelerator.is_main_process:
            checkpoint.mark_validated(self.run / "checkpoints", self.steps_done)
