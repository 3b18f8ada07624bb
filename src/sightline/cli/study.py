"""sightline study: train and measure many rows and seeds alike, as the tables of the paper do.

A study is a YAML file: a base, rows that differ in one thing, seeds, a budget. The same run command continues a run that was
stopped. docs/study.md explains it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.cli._console import print_line, print_table
from sightline.cli._launch import clean_exit
from sightline.errors import SightlineError
from sightline.option_types import OptionalFloat, OptionalInt, check_options
from sightline.quiet import one_progress_bar

_Folder = Annotated[Positional[Path], arg(metavar="DIR")]
_Labels = Annotated[tuple[str, ...], arg(metavar="LABEL ...", help_behavior_hint="")]
_LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def main(arguments: Sequence[str]) -> None:
    """Parse and run one of the commands. Torch is loaded by `run`, not by the help."""
    commands: dict[str, Any] = {"list": List, "plan": Plan, "run": Run, "show": Show, "merge": Merge, "claims": Claims}
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, prog="sightline study", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    check_options(command)
    with clean_exit():
        command.run()


@dataclass
class List:
    """List the studies that ship with the package."""

    def run(self) -> None:
        from sightline.study.study_file import read_study, shipped_studies

        rows = []
        for name in shipped_studies():
            study = read_study(name)
            budget = f"{study.steps} steps" if study.steps is not None else f"{study.seconds:g} s"
            counts = (str(len(study.rows)), str(len(study.tables)), str(len(study.seeds)))
            rows.append((name, study.title, *counts, budget))
        print_table("", ("study", "", "rows", "tables", "seeds", "budget"), rows)


@dataclass
class Plan:
    """Print how many trainings studies take, and roughly how long: in this order, each with --reuse of those before it."""

    studies: Annotated[Positional[tuple[str, ...]], arg(metavar="STUDY ...", help_behavior_hint="")] = ()
    """Shipped studies (see list), or YAML files."""
    clips_per_second: float = 2400.0
    """Clips of the lab, of 33 x 128 x 128, that all processes together train with its base of 11 M parameters. The default is
    what one training has reached alone on one H200 with 128 clips in a step."""
    row_seconds: float = 60.0
    """Seconds that each row needs before its first step, mostly for compilation."""
    run_seconds: float = 20.0
    """Seconds that it takes to measure one run."""
    jobs: int = 8
    """Processes, as for study run; they compile and measure at the same time."""

    def run(self) -> None:
        from sightline.checks import number, whole_number
        from sightline.study.estimate import Pace, estimate_all

        if not self.studies:
            raise SightlineError("no study is given: expected the names of some, such as main components.")
        number("clips_per_second", self.clips_per_second, above=0.0)
        number("row_seconds", self.row_seconds, at_least=0.0)
        number("run_seconds", self.run_seconds, at_least=0.0)
        pace = Pace(self.clips_per_second, self.row_seconds, self.run_seconds, whole_number("jobs", self.jobs))
        estimates = estimate_all(self.studies, pace)
        rows = [
            (one.study, str(one.trials), str(one.runs), str(one.taken), f"{one.steps:,}", f"{one.seconds / 60:.0f}")
            for one in estimates
        ]
        total = sum(one.seconds for one in estimates)
        head = ("study", "trials", "runs", "taken from others", "steps", "minutes")
        print_table("", head, rows)
        print_line(f"{total / 60:.0f} minutes in all, if the device trains {self.clips_per_second:g} clips/s")


@dataclass
class Run:
    """Train and measure what is not done yet. Under torchrun, the processes divide the runs."""

    study: Annotated[Positional[str], arg(metavar="STUDY")]
    """A shipped study (see list), or a YAML file."""
    output: Annotated[Path | None, arg(aliases=["-o"], metavar="DIR", help_behavior_hint="")] = None
    """Folder of the study; default: outputs/study/STUDY. A folder of the same study is continued."""
    jobs: int = 1
    """Processes on this machine. They share its GPU, or take its GPUs in turn."""
    share: str = "1/1"
    """Only this part of the rows and seeds, such as 2/4; sightline study merge joins the folders of all parts."""
    rows: _Labels = ()
    """Only these rows; default: all."""
    tables: _Labels = ()
    """Only these tables; default: all."""
    seeds: Annotated[tuple[int, ...], arg(metavar="N ...", help_behavior_hint="")] = ()
    """Other seeds than the study's. A folder may get more of them later."""
    steps: OptionalInt = None
    """Another budget than the study's: this number of steps for every run."""
    seconds: OptionalFloat = None
    """Another budget: as many steps as the row can do in this time, alone on the device."""
    stop_after: OptionalFloat = None
    """Write checkpoints and stop this many seconds after the start; the same command continues."""
    reuse: Annotated[tuple[Path, ...], arg(metavar="DIR ...", help_behavior_hint="")] = ()
    """Folders of other studies. Runs that they have finished with the same settings, such as SCoPE's, are copied from them."""
    keep_models: bool = False
    """Export every trained model beside its result, as runs/ROW/SEED/model."""

    def run(self) -> None:
        from sightline.checks import number, whole_number
        from sightline.study.plan import Plan as StudyPlan
        from sightline.study.plan import Share
        from sightline.study.run import run_study, use_gpu
        from sightline.study.study_file import read_study

        study = read_study(self.study)
        if self.seeds:
            study = replace(study, seeds=self.seeds)
        if self.steps is not None or self.seconds is not None:
            timed = study.timed_batch_size if self.seconds is not None else None  # which has no meaning beside steps
            study = replace(study, steps=self.steps, seconds=self.seconds, timed_batch_size=timed)
        name = Path(self.study).stem
        output = self.output or Path("outputs/study") / name
        plan = StudyPlan(study, name, output, Share.parse(self.share), self.rows, self.tables)
        stop_after = None if self.stop_after is None else number("stop_after", self.stop_after, above=0.0)
        jobs = whole_number("jobs", self.jobs)
        one_progress_bar()
        rank, ranks = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
        if ranks > 1:
            if jobs > 1:
                raise SightlineError(f"jobs is {jobs} under a launcher of {ranks} processes: expected one of the two.")
            use_gpu(int(os.environ.get("LOCAL_RANK", "0")))
            for variable in _LAUNCHER:  # the processes divide the runs: none of them trains with another
                os.environ.pop(variable, None)
        left = run_study(plan, jobs, stop_after, self.keep_models, self.reuse, rank, ranks)
        if rank == 0:
            if left:
                print_line(f"trainings left: {len(left)}; the same command continues.")
            _show(output)


def _show(folder: Path) -> None:
    """Write the report of a study, and print its tables."""
    from sightline.study.plan import read_plan
    from sightline.study.report import PAGE
    from sightline.study.show import printed, report_folder

    sections = report_folder(read_plan(folder))
    for section in sections:
        for sheet in section.sheets:
            print_table(*printed(sheet), whole_words=True)
            for note in sheet.notes:
                print_line(note)
    if any(cell.bold for section in sections for sheet in section.sheets for row in sheet.rows for cell in row):
        print_line("* no other row is significantly better")
    print_line(f"wrote {folder / PAGE}" if sections else f"{folder} has no result yet")


@dataclass
class Show:
    """Write tables, plots and an HTML page of a study, with intervals and verdicts, and print the tables."""

    folder: _Folder
    """A folder that study run or study merge wrote."""

    def run(self) -> None:
        _show(self.folder)


@dataclass
class Claims:
    """Write a table and a plot of the paper's claims: which hold, do not hold, or are not shown by these studies."""

    folders: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR ...", help_behavior_hint="")] = ()
    """Folders that study run or study merge wrote."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="FILE")] = Path("outputs/study-claims.md")
    """File to write, in Markdown; the plot is written beside it, as .png."""
    of: Literal["paper", "project"] = "paper"
    """paper: the claims of the paper. project: this project's targets for Sweep, and its questions about longer training."""

    def run(self) -> None:
        from sightline.files import write_atomic
        from sightline.study.claims import SHIPPED, TARGETS, read_claims
        from sightline.study.claims_table import PLOT_CAPTION, claims_markdown, draw_claims, summary_of
        from sightline.study.show import judge_folders

        subject, file = ("the paper's claims", SHIPPED) if self.of == "paper" else ("this project's targets", TARGETS)
        judged = judge_folders(self.folders, read_claims(file))
        picture = self.output.with_suffix(".png")
        parts = [summary_of(judged, subject), claims_markdown(judged).rstrip()]
        if draw_claims(judged, picture):
            parts += [f"![{PLOT_CAPTION}]({picture.name})", PLOT_CAPTION]
        write_atomic(self.output, "\n\n".join(parts) + "\n")
        print_line(summary_of(judged, subject))
        print_line(f"wrote {self.output}")


@dataclass
class Merge:
    """Join the results of shares, or of more seeds, in one folder."""

    folders: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR ...", help_behavior_hint="")] = ()
    """Folders of the same study."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/study/merged")
    """Folder to write."""

    def run(self) -> None:
        from sightline.study.merge import merge_shares
        from sightline.study.plan import unfinished

        plan = merge_shares(self.folders, self.output)
        left = [task for task in unfinished(plan, plan.tasks()) if task.rate is None]
        print_line(f"wrote {self.output}" + (f"; {len(left)} runs are missing" if left else ""))
