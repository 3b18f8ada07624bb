"""Reports of a run: a table and a progress bar on the console, lines in log.jsonl, scalars and videos in a tracker."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from sightline import __version__
from sightline.errors import SightlineError
from sightline.files import reason, require_writable
from sightline.training.memory import GIB
from sightline.training.recipe import Recipe


class Report:
    """Prints and logs in the main process and does nothing in the others. A context manager, which closes the log, the tracker
    and the progress bar however a run ends."""

    def __init__(self, run: Path, recipe: Recipe, accelerator: Accelerator) -> None:
        self.run, self.recipe, self.accelerator = run, recipe, accelerator
        self.is_main = accelerator.is_main_process
        self.console = Console(stderr=True, quiet=not self.is_main, highlight=False)
        self._tracker: Any = None
        self._bar: Progress | None = None

    def __enter__(self) -> Report:
        if self.is_main:
            require_writable(self.run, "a new folder or an earlier run's")
            self._tracker = make_tracker(self.recipe, self.run)  # before the folder exists: one may not be installed
            self.run.mkdir(parents=True, exist_ok=True)
            self._log = (self.run / "log.jsonl").open("a")
            self._line(event="start", version=__version__, revision=git_revision(), time=time.time())
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self.is_main:
            self._log.close()
            if self._tracker is not None:
                self._tracker.close(failed=error is not None)

    def say(self, line: str) -> None:
        self.console.print(line)

    def say_trainable(self, rows: list[tuple[str, int, int]]) -> None:
        table = Table("part", "trained", "all")
        for part, trained, total in [*rows, ("total", sum(r[1] for r in rows), sum(r[2] for r in rows))]:
            table.add_row(part, f"{trained:,}", f"{total:,}")
        self.console.print(table)

    def steps(self, done: int, total: int) -> Iterator[int]:
        """The numbers of the steps that are left, shown by a progress bar."""
        columns = (
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[scalars]}"),
        )  # fmt: skip
        self._bar = Progress(*columns, console=self.console, disable=not self.is_main)
        self._bar.start()
        self._task = self._bar.add_task("training", total=total, completed=done, scalars="")
        yield from range(done, total)

    def log_step(
        self,
        step: int,
        loss: float,
        grad_norm: float,
        learning_rate: float,
        seconds: float,
        throughput: Mapping[str, float],
    ) -> None:
        """throughput: tokens_per_second and, where the GPU's peak is known, mfu."""
        if not self.is_main:
            return
        clips_per_second = self.recipe.optimizer.batch_size / seconds
        scalars = {
            "loss": loss,
            "grad_norm": grad_norm,
            "learning_rate": learning_rate,
            "clips_per_second": clips_per_second,
            **throughput,
        }
        text = f"loss {scalars['loss']:.4f}  {clips_per_second:.3g} clips/s  {throughput['tokens_per_second']:,.0f} tokens/s"
        if "mfu" in throughput:
            text += f"  MFU {throughput['mfu']:.1%}"
        if torch.cuda.is_available():
            scalars["memory_gib"] = torch.cuda.max_memory_allocated() / GIB
            text += f"  {scalars['memory_gib']:.1f} GiB"
        if self._bar is not None:
            self._bar.update(self._task, completed=step + 1, scalars=text)
        self._line(step=step, **scalars)
        self._track(scalars, step, "train")

    def _track(self, scalars: dict[str, float], step: int, group: str) -> None:
        """Send scalars to the tracker, as GROUP/NAME."""
        if self._tracker is not None:
            self._tracker.scalars({f"{group}/{name}": value for name, value in scalars.items()}, step)

    def log_validation(self, scalars: dict[str, float], step: int) -> None:
        if not self.is_main:
            return
        self._line(validation=step, **scalars)
        self._track(scalars, step, "validation")
        losses = ", ".join(f"{name} {value:.4f}" for name, value in scalars.items() if name.startswith("loss"))
        self.console.print(f"step {step}: {losses}")

    def video(self, name: str, frames: Any, step: int) -> None:  # frames [T, H, W, 3] uint8
        if self._tracker is not None:
            self._tracker.video(name, frames, step)

    def _line(self, **content: Any) -> None:
        try:
            self._log.write(json.dumps(content) + "\n")
            self._log.flush()
        except OSError as error:
            raise SightlineError(
                f"{self.run / 'log.jsonl'} cannot be written ({reason(error)}): make room and resume."
            ) from None


class _Tensorboard:
    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def scalars(self, scalars: dict[str, float], step: int) -> None:
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, step)

    def video(self, name: str, frames: Any, step: int) -> None:
        # As a strip of frames: TensorBoard's own videos need a package that is no longer maintained.
        strip = torch.from_numpy(frames[:: max(len(frames) // 6, 1)]).permute(1, 0, 2, 3).flatten(1, 2)
        self.writer.add_image(name, strip, step, dataformats="HWC")

    def close(self, failed: bool) -> None:
        self.writer.close()


class _Wandb:
    def __init__(self, recipe: Recipe, folder: Path) -> None:
        import wandb

        self.wandb = wandb
        folder.mkdir(parents=True, exist_ok=True)  # wandb would write elsewhere
        self.run = wandb.init(project="sightline", dir=str(folder), name=folder.name, config=dataclasses.asdict(recipe))
        # The step is logged as a metric: wandb's own step must never go back, but a resumed run repeats some steps.
        self.run.define_metric("*", step_metric="step")

    def scalars(self, scalars: dict[str, float], step: int) -> None:
        self.run.log({**scalars, "step": step})

    def video(self, name: str, frames: Any, step: int) -> None:
        self.run.log({name: self.wandb.Video(frames.transpose(0, 3, 1, 2), fps=16), "step": step})

    def close(self, failed: bool) -> None:
        self.run.finish(exit_code=1 if failed else 0)


def make_tracker(recipe: Recipe, run: Path) -> _Tensorboard | _Wandb | None:
    if recipe.report_to == "none":
        return None
    try:
        return _Tensorboard(run / "tensorboard") if recipe.report_to == "tensorboard" else _Wandb(recipe, run)
    except ImportError:
        raise SightlineError(
            f"report_to is {recipe.report_to!r}, which is not installed: pip install {recipe.report_to}, or report_to: none."
        ) from None


def git_revision() -> str | None:
    """The git revision that the code runs from; None outside a git checkout."""
    try:
        result = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None
