"""The trainer: one loop for pretraining and retrofits, one process or many."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sightline.backbones.weights_digest import weights_digest
from sightline.cameras.token_grid import TokenGrid
from sightline.data.cached import CachedClips
from sightline.errors import SightlineError
from sightline.files import require_writable, write_atomic
from sightline.training import checkpoint, memory, validation
from sightline.training.feeds import make_feed
from sightline.training.objective import draw, flow_matching_loss
from sightline.training.recipe import OptimizerConfig, Recipe
from sightline.training.report import Report
from sightline.training.setup import build_model, load_base, set_sync, share
from sightline.training.trainable import choose_trainable, summary


def train(recipe: Recipe, resume: str | None = None) -> Path:
    """Run a recipe to its last step and return the run's folder.

    resume: "latest" or a checkpoint's path. With "latest", a folder without checkpoints starts from the beginning.
    """
    run = Path(recipe.output)
    if resume is None and checkpoint.list_checkpoints(run / "checkpoints"):
        raise SightlineError(f"{run} holds checkpoints of an earlier run: expected --resume latest, or another output.")
    found = None if resume is None else checkpoint.find_checkpoint(run, resume)
    if found is not None and (done := checkpoint.read_state(found).step) >= recipe.optimizer.max_steps:
        if done == recipe.optimizer.max_steps:
            return run  # a finished run that is started again has nothing to do
        raise SightlineError(f"{found} has done {done} steps: expected optimizer.max_steps above that to go on.")
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    device, rank, processes = accelerator.device, accelerator.process_index, accelerator.num_processes
    micro_batches = shares_of_a_step(recipe.optimizer, rank, processes)
    if accelerator.is_main_process:
        require_writable(run, "a new folder or an earlier run's")
    torch.manual_seed(recipe.seed)  # the encoding's start, the same in every process

    if recipe.data.cache is not None:
        CachedClips(recipe.data.cache)  # a cache that is not there is refused before a large model is read
    pipe = load_base(recipe.model)
    base = weights_digest(getattr(pipe, recipe.model.component))
    bare = build_model(pipe, recipe.model)
    trainable = choose_trainable(bare, recipe.model)
    if not trainable:
        raise SightlineError(
            f"model.trainable is {recipe.model.trainable!r}: this model has no such parameters to train."
        )
    config: Any = bare.config
    feed = make_feed(
        recipe.data,
        pipe,
        recipe.seed,
        patch=tuple(config.patch_size),
        with_camera=hasattr(bare, "encoding_layers"),
        device=device,
        quiet=not accelerator.is_main_process,
    )

    with Report(run, recipe, accelerator) as report:
        report.say_trainable(summary(bare))
        tokens = TokenGrid.from_latents(feed.held_out.read([0]).latents.shape, config.patch_size).num_tokens
        report.say(memory.require_fit(memory.estimate(bare, recipe, tokens, processes), recipe, device))
        model = share(bare, recipe.parallel, processes, device)
        trainable = {name: p for name, p in bare.named_parameters() if p.requires_grad}  # sharding replaces parameters
        optimizer = make_optimizer(trainable, recipe.optimizer)
        average = (
            {n: p.detach().clone() for n, p in trainable.items()} if recipe.optimizer.ema_decay is not None else None
        )
        done = 0
        if found is not None:
            done = checkpoint.load_checkpoint(found, base, trainable, optimizer, average)
            report.say(f"resumed from {found}")
            if (run / "recipe.yaml").is_file():
                for change in recipe.changes_from(Recipe.from_yaml(run / "recipe.yaml")):
                    report.say(f"changed since then: {change}")
        write = accelerator.is_main_process
        if write:
            write_atomic(run / "recipe.yaml", recipe.to_yaml())

        batches = feed.micro_batches(
            done * recipe.optimizer.batch_size, recipe.optimizer.batch_size, micro_batches, recipe.data.num_workers, device,
            draw=partial(draw, objective=recipe.objective, seed=recipe.seed),
        )  # fmt: skip
        clock = Clock(recipe.optimizer.max_seconds, accelerator)
        for step in report.steps(done, recipe.optimizer.max_steps):
            started = time.perf_counter()
            spent = clock.spent()
            loss = accelerator.reduce(backward(model, batches, len(micro_batches), recipe, device, processes), "sum")
            norm = clip_gradients(trainable, recipe.optimizer.max_grad_norm)
            require_finite(step, run, loss=loss, gradient=norm)
            rate = set_rate(optimizer, recipe.optimizer, step, spent)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if average is not None:
                update_average(average, trainable, recipe.optimizer.ema_decay or 0.0, step)
            report.log_step(step, loss, norm, rate, time.perf_counter() - started)

            finished = step + 1
            last = finished == recipe.optimizer.max_steps or spent >= 1
            if finished % recipe.checkpointing_steps == 0 or last:
                state = checkpoint.State(finished, base)
                checkpoint.save_checkpoint(
                    run / "checkpoints",
                    state,
                    trainable,
                    optimizer,
                    average,
                    total_limit=recipe.checkpoints_total_limit,
                )
            if finished % recipe.validation.every_steps == 0 or last:
                with averaged(trainable, average):
                    validation.validate(model, bare, pipe, feed, recipe, report, finished, device)
            if last:
                break
        batches.close()
    accelerator.wait_for_everyone()
    return run


def backward(
    model: nn.Module, batches: Iterator[Any], count: int, recipe: Recipe, device: torch.device, processes: int
) -> Tensor:
    """Adds up the gradients of this process's micro-batches of a step, and returns their share of its loss."""
    loss = torch.zeros((), device=device)
    for micro in range(count):
        batch, drawn = next(batches)
        set_sync(model, last=micro == count - 1)
        with autocast(recipe, device):
            losses = flow_matching_loss(model, batch, drawn)
        # Gradients are averaged over processes, so each process's share is divided by its own clips alone.
        part = losses.sum() * processes / recipe.optimizer.batch_size
        part.backward()
        loss += part.detach() / processes
    return loss


def clip_gradients(trainable: dict[str, nn.Parameter], max_norm: float) -> Tensor:
    """Scale the gradients down to at most this norm; returns the norm that they had."""
    norm = nn.utils.clip_grad_norm_(trainable.values(), max_norm)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def require_finite(step: int, run: Path, **figures: Tensor) -> None:
    """Stop before an optimizer step that would spoil every weight."""
    for name, figure in figures.items():
        if not bool(figure.isfinite()):
            written = checkpoint.list_checkpoints(run / "checkpoints")
            kept = f"the last checkpoint is {written[-1].name}" if written else "no checkpoint was written yet"
            raise SightlineError(
                f"the {name} is {figure.item()} at step {step}, before it spoiled a weight; {kept}. Try a lower "
                "optimizer.learning_rate, a warm-up, or dtype: float32."
            )


def shares_of_a_step(settings: OptimizerConfig, rank: int, processes: int) -> list[slice]:
    """The slices of a step's clips that are this process's micro-batches, in order."""
    per_round = settings.micro_batch_size * processes
    if settings.batch_size % per_round:
        raise SightlineError(
            f"optimizer.batch_size is {settings.batch_size}: expected a multiple of micro_batch_size x processes = "
            f"{settings.micro_batch_size} x {processes}."
        )
    starts = range(rank * settings.micro_batch_size, settings.batch_size, per_round)
    return [slice(start, start + settings.micro_batch_size) for start in starts]


def make_optimizer(trainable: dict[str, nn.Parameter], settings: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW with the camera's own parameters in a group of their own rate."""
    groups = [
        {"params": [p for name, p in trainable.items() if ".camera_encoding." not in name], "multiple": 1.0},
        {
            "params": [p for name, p in trainable.items() if ".camera_encoding." in name],
            "multiple": settings.encoding_lr_scale,
        },
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
    )


class Clock:
    """How much of a run's time is spent, from its second step on: the first one may compile."""

    def __init__(self, seconds: float | None, accelerator: Accelerator) -> None:
        self.seconds, self.accelerator = seconds, accelerator
        self.calls, self.began = 0, 0.0

    def spent(self) -> float:
        """As a share; every process is told the same."""
        if self.seconds is None:
            return 0.0
        self.calls += 1
        if self.calls == 2:
            self.began = time.perf_counter()
        share = (time.perf_counter() - self.began) / self.seconds if self.calls > 1 else 0.0
        return float(self.accelerator.reduce(torch.tensor(share, device=self.accelerator.device), "mean"))


def set_rate(optimizer: torch.optim.Optimizer, settings: OptimizerConfig, step: int, spent: float = 0.0) -> float:
    """Warm-up, then a cosine down to `min_lr_ratio` of the rate at the last step. A function of the step alone, unless the run is
    bounded in time, of which `spent` is the share that is over."""
    if step < settings.warmup_steps:
        share = (step + 1) / settings.warmup_steps
    else:
        progress = max(
            (step - settings.warmup_steps) / max(settings.max_steps - settings.warmup_steps, 1), min(spent, 1.0)
        )
        share = settings.min_lr_ratio + (1 - settings.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * progress))
    for group in optimizer.param_groups:
        group["lr"] = settings.learning_rate * share * group["multiple"]
    return settings.learning_rate * share


@torch.no_grad()
def update_average(average: dict[str, Tensor], trainable: dict[str, nn.Parameter], decay: float, step: int) -> None:
    """An exponential moving average that forgets its start: early on the decay is (1 + step) / (10 + step)."""
    weight = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(list(average.values()), [trainable[name] for name in average], weight)


class averaged:
    """The model with its averaged weights, for the time of a with block."""

    def __init__(self, trainable: dict[str, nn.Parameter], average: dict[str, Tensor] | None) -> None:
        self.trainable, self.average = trainable, average or {}

    def __enter__(self) -> None:
        self._swap()

    def __exit__(self, *_: object) -> None:
        self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, tensor in self.average.items():
            trained = self.trainable[name].detach().clone()
            self.trainable[name].copy_(tensor)
            tensor.copy_(trained)


def autocast(recipe: Recipe, device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast(device.type, torch.bfloat16) if recipe.dtype == "bfloat16" else nullcontext()
