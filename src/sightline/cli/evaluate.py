"""sightline evaluate: did the video go where it was told?

standard, beyond and revisit go from a model to tables, plots and a page; the same command goes on where it was stopped, also
under `accelerate launch -m sightline evaluate ...`. A SOURCE is KIND:PLACE?option=value, as for sightline data; without one,
procedural worlds that no training has seen. docs/evaluation.md says how each number is made.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.checks import parsed_size, whole_number
from sightline.cli._console import print_line
from sightline.cli._launch import launched, one_progress_bar, tidy_when_ended
from sightline.cli._runs import Compare, Text, VBench
from sightline.errors import SightlineError
from sightline.generation.job import Job
from sightline.generation.model import Model, ModelOptions

_Whole = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
_Number = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]
_GOES_ON = "Folder to write; that of the same run goes on where it was stopped."
_Output = Annotated[Path, arg(aliases=["-o"], metavar="DIR", help=_GOES_ON)]


def main(arguments: Sequence[str]) -> None:
    """Torch is loaded by `run`, not by the help."""
    commands: dict[str, Any] = {
        "standard": Standard, "beyond": Beyond, "revisit": Revisit, "efficiency": Efficiency, "compare": Compare,
        "vbench": VBench,
    }  # fmt: skip
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, prog="sightline evaluate", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    with tidy_when_ended():
        command.run()


@dataclass
class _Filming:
    """The model, and how it films."""

    options: Annotated[ModelOptions, arg(name="")] = field(default_factory=ModelOptions)
    frames: _Whole = None
    """Frames of a clip, 4 n + 1; without it, what the model is made for."""
    size: Annotated[str | None, arg(metavar="WIDTHxHEIGHT", help_behavior_hint="")] = None
    """Size of the picture; without it, what the model is made for."""
    steps: _Whole = None
    """Denoising steps; without it, the model's own number."""
    cfg: _Number = None
    """Guidance of the text; without it, the model's own."""
    camera_cfg: float = 1.0
    """Guidance of the camera: 1 is the paper's."""
    seed: int = 0
    """Of the noise of the first clip; each clip has the next."""
    label: Text = None
    """What tables call this model; without it, the name of its camera file or folder."""

    def sampling(self, model: Model) -> Any:
        from sightline.evaluation.run import Sampling

        defaults = model.info.defaults
        steps = whole_number("steps", defaults.num_inference_steps if self.steps is None else self.steps)
        return Sampling(steps, defaults.guidance_scale if self.cfg is None else self.cfg, self.camera_cfg, self.seed)

    def title(self) -> str:
        named = self.options.camera or self.options.model
        return self.label or (Path(named).stem if named not in (None, "lab") else "the lab model")


@dataclass
class _Protocol(_Filming):
    sources: Annotated[Positional[tuple[str, ...]], arg(metavar="SOURCE ...", help_behavior_hint="")] = ()
    """Where clips come from; without one, held-out procedural worlds."""
    clips: int = 16
    """How many first frames, spaced evenly over the sources."""
    part: Literal["held-out", "all"] = "held-out"
    """Which scenes of the given sources: the split goes by a hash of their names."""
    held_out: float = 0.01
    """Share of the scenes that are held out."""
    near_depth: bool = False
    """Divide positions by a clip's near depth, where the source knows it, as in training."""
    estimator: Annotated[str, arg(metavar="NAME")] = "direct"
    """How paths are read from videos: direct (small pictures, known depth of frame 0), colmap, vipe or given, with options as
    in "vipe?folder=DIR"."""
    metrics: Annotated[tuple[str, ...], arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Picture metrics, or a group of them: offline, paper, all, none. Without it, those of offline whose weights are here."""
    weights: Annotated[tuple[str, ...], arg(metavar="NAME=PATH ...", help_behavior_hint="")] = ()
    """Where networks lie: lpips, efflite0, inception, i3d, clip and dino; otherwise from their packages or the hub."""
    blind: bool = False
    """Do not tell the model the path, as a mark for those that are told; also for models without a camera (--model lab)."""
    output: _Output = Path("outputs/standard")

    protocol: ClassVar[str] = "standard"
    styles: ClassVar[tuple[str, ...]] = ("walkthrough",)
    against = "path"

    def run(self) -> None:
        from sightline.evaluation.report import PAGE, write_report
        from sightline.evaluation.run import open_estimator, prepare, work

        one_progress_bar()
        state = launched()
        rank, processes = (0, 1) if state is None else (state.process_index, state.num_processes)
        if rank:
            logging.getLogger("sightline").setLevel(logging.ERROR)  # one process speaks for all
        model = Model(self.options) if state is None else Model(self.options, state.device, processes)
        model.on_load = lambda pipe: pipe.set_progress_bar_config(
            desc="filming", leave=False, disable=rank > 0 or not sys.stderr.isatty()
        )
        run = self.opened(model)
        open_estimator(run.estimator)  # what is refused must not leave a folder of a run that never was
        if not self.blind:
            model.require_camera(instead=", or --blind")
        if not rank:
            prepare(run, model)
        if state is not None:
            state.wait_for_everyone()
        work(run, model, rank=rank, processes=processes, on_done=print_line)
        if state is not None:
            state.wait_for_everyone()
        if not rank:
            found = write_report(self.output, run.cases.names, self.title() + (", blind" if self.blind else ""))
            print_line((self.output / "table.md").read_text())
            print_line(
                f"wrote {self.output / PAGE}; {found['n']['failed']} of {found['n']['asked']} clips have no pose"
            )

    def opened(self, model: Model) -> Any:
        """The run: cases, metrics and settings, checked before any weight of the model is loaded."""
        from sightline.cameras import moves
        from sightline.data.clip_spec import ClipSpec
        from sightline.evaluation.cases import Selection, StandardCases, default_sources
        from sightline.evaluation.metrics.networks import read_weights
        from sightline.evaluation.metrics.suite import Suite
        from sightline.evaluation.revisit import RevisitCases
        from sightline.evaluation.run import Run
        from sightline.generation.plan import Plan

        whole_number("clips", self.clips)
        if self.options.context_parallel != "none":
            raise SightlineError("context_parallel is given: expected none, since processes share out the clips here.")
        defaults = model.info.defaults
        frames = self.frames or defaults.num_frames
        width, height = parsed_size(self.size) if self.size else (defaults.width, defaults.height)
        model.info.require_frames(frames)
        model.info.require_size(width, height)
        spec = ClipSpec(frames, width=width, height=height, near_depth=self.near_depth)
        sources = self.sources or default_sources(self.styles, self.clips)
        part: Any = self.part if self.sources else "all"  # the default worlds are held out as a whole
        selection = Selection(tuple(sources), self.clips, part, self.held_out, spec)
        cases = (RevisitCases if self.protocol == "revisit" else StandardCases)(selection)
        suite = Suite(self.metrics or ("offline",), read_weights(self.weights), model.device)
        suite.open(leave_out=not self.metrics)
        sampling = replace(self.sampling(model), blind=self.blind)
        shape = Plan(moves.static(frames=frames, width=width, height=height), None, "", sampling.steps, sampling.cfg)
        model.require_memory(shape, guided=self.camera_cfg != 1.0)
        return Run(self.protocol, self.output, cases, sampling, suite, self.estimator, self.against)


@dataclass
class Standard(_Protocol):
    """First frame and true trajectory of held-out clips: pose errors raw and rescaled, quality, distances."""

    against: Literal["path", "video"] = "path"
    """What pose errors are measured to: the commanded path, or what the estimator sees in the true video, as in the paper."""


@dataclass
class Beyond(Standard):
    """The standard protocol outside its domain: other sources, raw and rescaled in one cell. Default: worlds that stand in
    for PanShot and OmniWorld."""

    output: _Output = Path("outputs/beyond")

    protocol = "beyond"
    styles = ("panorama", "openworld")


@dataclass
class Revisit(_Protocol):
    """Four closed loops from each first frame: does the camera return, and is the view still there?"""

    clips: int = 6
    """How many first frames, spaced evenly over the sources; each is filmed four times."""
    output: _Output = Path("outputs/revisit")

    protocol = "revisit"


@dataclass
class Efficiency(_Filming):
    """Seconds of a denoising step and peak memory, of whole films of the shipped frame on an orbit."""

    runs: int = 1
    """Films that are measured."""
    no_warm_up: bool = False
    """Measure the very first film too."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/efficiency")
    """Folder to write."""

    def run(self) -> None:
        from sightline.evaluation.efficiency import measure_efficiency, write_efficiency
        from sightline.evaluation.run import refuse_run_folder

        refuse_run_folder(self.output)
        one_progress_bar()
        model = Model(self.options)
        model.on_load = lambda pipe: pipe.set_progress_bar_config(disable=True)
        job = Job(frames=self.frames, size=self.size)
        found = measure_efficiency(model, job, self.sampling(model), self.runs, warm_up=not self.no_warm_up)
        print_line(write_efficiency(found, self.output, self.title()))
