"""sightline generate: generate a video from a first frame, a prompt and a camera trajectory, which the video follows.

Without options, the lab model continues a shipped first frame along an orbit of 30 degrees. A folder is written: video.mp4,
sheet.png (frames over time), trajectory.png, trajectory.json and settings.json; for a world also true.mp4 and side-by-side.mp4.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, arg

from sightline.cli._console import print_line, print_table
from sightline.cli._launch import clean_exit, launched
from sightline.errors import SightlineError
from sightline.generation.job import Job
from sightline.generation.model import Model
from sightline.generation.model_options import ModelOptions
from sightline.option_types import check_options
from sightline.quiet import one_progress_bar

if TYPE_CHECKING:
    from accelerate import PartialState


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run; only `run` imports torch, so that the help is quick."""
    command = tyro.cli(
        Generate, prog="sightline generate", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    check_options(command)
    with clean_exit():
        command.run()


@dataclass
class Generate:
    job: Annotated[Job, arg(name="")] = field(default_factory=Job)
    options: Annotated[ModelOptions, arg(name="")] = field(default_factory=ModelOptions)
    jobs: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Many jobs: a .json list or a .csv table whose fields are the options of a job. Options given here are the defaults.
    Continues where it was stopped. Also runs under `accelerate launch -m sightline generate --jobs FILE`."""
    overwrite: bool = False
    """Replace an earlier output folder, once the new one is ready."""
    dry_run: bool = False
    """Describe the shot in one line (moves, distance, rotation, lens, time, size, radius of an orbit), and stop before
    anything is loaded or written."""
    estimate: bool = False
    """Print the memory that this job needs, estimated from the model's configuration files, and stop."""

    def run(self) -> None:
        self.job.check()
        jobs = None if self.jobs is None else _read_jobs(self.jobs, self.job)
        if self.dry_run:
            _print_shots(jobs or [self.job], self.options)
            return
        if jobs is None:
            _check_move(self.job)
        one_progress_bar()
        if self.estimate:
            _print_estimate(self.job, self.options)
            return
        from sightline.files import remove_leftovers
        from sightline.generation.outputs import run_job
        from sightline.run_folder import locked

        state = launched()
        rank, processes = (0, 1) if state is None else (state.process_index, state.num_processes)
        if jobs is None and processes > 1 and self.options.context_parallel == "none":
            raise SightlineError(f"one job is given to {processes} processes: expected --jobs or --context-parallel.")
        model = Model(self.options) if state is None else Model(self.options, state.device, processes)
        model.on_load = lambda pipe: pipe.set_progress_bar_config(
            desc="generating", leave=False, disable=rank > 0 or not sys.stderr.isatty()
        )
        if jobs is None:
            if rank == 0:
                remove_leftovers(Path(os.path.abspath(self.job.output)).parent)
            _print_done(self.job, run_job(model, self.job, overwrite=self.overwrite, rank=rank))
            return
        with locked(self.job.output):
            if state is not None:
                state.wait_for_everyone()  # until the first process has the folder
            self._run_all(model, jobs, state)

    def _run_all(self, model: Model, jobs: Sequence[Job], state: PartialState | None) -> None:
        from sightline.generation.batch import run_jobs

        rank, processes = (0, 1) if state is None else (state.process_index, state.num_processes)
        failed = run_jobs(model, jobs, overwrite=self.overwrite, rank=rank, processes=processes, on_done=_print_done)
        if state is not None:
            from accelerate.utils import gather_object

            # A process that exits with an error ends the others: all wait here, and learn of every failure.
            failed = gather_object(failed if self.options.context_parallel == "none" or rank == 0 else [])
        if failed and rank:
            sys.exit(2)  # the first process prints the failures of all
        if failed:
            for folder, sentence in failed:
                print(f"{folder}: {sentence}", file=sys.stderr)
            raise SightlineError(f"{len(failed)} of {len(jobs)} jobs failed: expected all to run; the others are done.")


def _read_jobs(file: Path, base: Job) -> list[Job]:
    from sightline.generation.batch import read_jobs

    return read_jobs(file, base)


def _check_move(job: Job) -> None:
    """Refuse a move that is not understood now: importing diffusers, which comes next, takes seconds."""
    from sightline.cameras.moves import MoveLine

    if job.move is not None:
        MoveLine.read(job.move)


def _print_done(job: Job, settings: dict[str, Any]) -> None:
    if not settings:  # another process has written it
        return
    psnr = settings["result"].get("psnr")
    similarity = f", PSNR to the ground-truth video {psnr['mean']:.2f} dB" if psnr else ""
    print_line(f"wrote {job.output} ({settings['result']['seconds']:g} s{similarity})")


def _print_shots(jobs: Sequence[Job], options: ModelOptions) -> None:
    from sightline.generation.shot import make_shot
    from sightline.images import load_image

    model = Model(options)
    model.require_camera()
    for job in jobs:
        shot = make_shot(job, model.info)
        if job.image is not None:
            load_image(job.image, shot.trajectory.width, shot.trajectory.height)  # refused here if it is no picture
        print_line(f"{job.output}: {shot}")


def _print_estimate(job: Job, options: ModelOptions) -> None:
    from sightline.generation.memory import GIB, OFFLOADS, estimate
    from sightline.generation.shot import make_shot

    model = Model(replace(options, offload="none"))  # all ways of offloading are listed, also where there is no GPU
    if model.configs is None:
        raise SightlineError(f"model {options.model!r} has no configuration files: expected a trained model.")
    trajectory, camera_guidance = make_shot(job, model.info).trajectory, job.camera_guidance_scale != 1.0
    video = (len(trajectory), trajectory.width, trajectory.height)
    rows = []
    for offload in OFFLOADS:
        options_of_row = {"camera_guidance": camera_guidance, **model.savings(offload)}
        untiled, tiled = (
            estimate(model.configs, *video, model.dtype, tiled=tiled, **options_of_row) for tiled in (False, True)
        )
        sizes = (untiled.device(offload), tiled.device(offload), untiled.host(offload))
        rows.append((offload, *(f"{size / GIB:.1f}" for size in sizes)))
    name = str(model.dtype).removeprefix("torch.")
    title = "GiB for {} frames of {}x{} in {}, estimated".format(*video, name)
    print_table(title, ("--offload", "GPU", "GPU, --tiled-decode", "main memory"), rows)
