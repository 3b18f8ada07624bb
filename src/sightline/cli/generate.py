"""sightline generate: an image, a prompt and a camera path go in, a video that follows the path comes out.

Without options, the lab model films a frame that ships on an orbit of 30 degrees. A folder is written: video.mp4, sheet.png
(frames over time), path.png, path.json and settings.json; for a world also true.mp4 and side-by-side.mp4.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, arg

from sightline.cli._console import print_line, print_table
from sightline.cli._launch import launched, one_progress_bar, tidy_when_ended
from sightline.errors import SightlineError
from sightline.generation.job import Job
from sightline.generation.model import Model, ModelOptions

if TYPE_CHECKING:
    from accelerate import PartialState


def main(arguments: Sequence[str]) -> None:
    """Torch is loaded by `run`, not by the help."""
    command = tyro.cli(
        Generate, prog="sightline generate", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    with tidy_when_ended():
        command.run()


@dataclass
class Generate:
    job: Annotated[Job, arg(name="")] = field(default_factory=Job)
    options: Annotated[ModelOptions, arg(name="")] = field(default_factory=ModelOptions)
    jobs: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Many jobs: a .json list or a .csv table whose fields are the options of a job; those given here are defaults.
    Goes on where it was stopped; also under `accelerate launch -m sightline generate --jobs FILE`."""
    overwrite: bool = False
    """Replace a folder that holds something, once the new one is ready."""
    estimate: bool = False
    """Print the memory that the model needs for this job, from its configuration files alone, and stop."""

    def run(self) -> None:
        from sightline.generation.batch import read_jobs
        from sightline.generation.outputs import run_job

        self.job.check()
        jobs = None if self.jobs is None else read_jobs(self.jobs, self.job)
        one_progress_bar()
        if self.estimate:
            _print_estimate(self.job, self.options)
            return
        state = launched()
        rank, processes = (0, 1) if state is None else (state.process_index, state.num_processes)
        if jobs is None and processes > 1 and self.options.context_parallel == "none":
            raise SightlineError(f"one job is given to {processes} processes: expected --jobs or --context-parallel.")
        model = Model(self.options) if state is None else Model(self.options, state.device, processes)
        model.on_load = lambda pipe: pipe.set_progress_bar_config(
            desc="filming", leave=False, disable=rank > 0 or not sys.stderr.isatty()
        )
        if jobs is None:
            _tell(self.job, run_job(model, self.job, overwrite=self.overwrite, rank=rank))
        else:
            self._run_all(model, jobs, state)

    def _run_all(self, model: Model, jobs: Sequence[Job], state: PartialState | None) -> None:
        from sightline.generation.batch import run_jobs

        rank, processes = (0, 1) if state is None else (state.process_index, state.num_processes)
        failed = run_jobs(model, jobs, overwrite=self.overwrite, rank=rank, processes=processes, on_done=_tell)
        if state is not None:
            from accelerate.utils import gather_object

            # The first process to fail would take the others down with it: all wait, and all know.
            failed = gather_object(failed if self.options.context_parallel == "none" or rank == 0 else [])
        if failed and rank:
            sys.exit(2)  # the first process says it for all
        if failed:
            for folder, sentence in failed:
                print(f"{folder}: {sentence}", file=sys.stderr)
            raise SightlineError(f"{len(failed)} of {len(jobs)} jobs failed: expected all to run; the others are done.")


def _tell(job: Job, settings: dict[str, Any]) -> None:
    if not settings:  # another process has written it
        return
    found = settings["result"].get("psnr")
    truth = f", {found['mean']:.2f} dB from the truth" if found else ""
    print_line(f"wrote {job.output} ({settings['result']['seconds']:g} s{truth})")


def _print_estimate(job: Job, options: ModelOptions) -> None:
    from sightline.generation.memory import GIB, OFFLOADS, estimate
    from sightline.generation.plan import make_path

    model = Model(options)
    if model.configs is None:
        raise SightlineError("model is missing: expected --model, since the shipped one fits everywhere.")
    path, guided = make_path(job, model.info), job.camera_cfg != 1.0
    whole, tiled = (
        estimate(model.configs, len(path), path.width, path.height, model.dtype, guided=guided, tiled=one)
        for one in (False, True)
    )
    rows = [
        (offload, f"{whole.device(offload) / GIB:.1f}", f"{tiled.device(offload) / GIB:.1f}", f"{whole.host / GIB:.1f}")
        for offload in OFFLOADS
    ]
    name = str(model.dtype).removeprefix("torch.")
    title = f"GiB for {len(path)} frames of {path.width}x{path.height} in {name}, estimated"
    print_table(title, ("--offload", "GPU", "GPU, --tiled-decode", "main memory"), rows)
