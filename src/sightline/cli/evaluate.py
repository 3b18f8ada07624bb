"""sightline evaluate: measure camera control, consistency and quality.

standard, beyond and revisit generate videos and write tables, plots and a page. The same command resumes a stopped run, also
under `accelerate launch -m sightline evaluate ...`. A SOURCE is KIND:PLACE?option=value, as for sightline data; the default is
procedural worlds that no training has seen. docs/evaluation.md explains every number.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.checks import number, whole_number
from sightline.cli._console import print_line
from sightline.cli._launch import clean_exit, launched
from sightline.cli._runs import Compare, VBench
from sightline.errors import SightlineError
from sightline.generation.job import Job
from sightline.generation.model import Model
from sightline.generation.model_options import ModelOptions
from sightline.option_types import OptionalFloat, OptionalInt, OptionalName, OptionalSize, OptionalText, check_options
from sightline.parsing import parse_size
from sightline.quiet import one_progress_bar

_Output = Annotated[
    Path, arg(aliases=["-o"], metavar="DIR", help="Folder to write; the folder of the same run is resumed.")
]


def main(arguments: Sequence[str]) -> None:
    """Parse and run one of the commands. Torch is loaded by `run`, not by the help."""
    commands: dict[str, Any] = {
        "standard": Standard, "beyond": Beyond, "revisit": Revisit, "efficiency": Efficiency, "compare": Compare,
        "vbench": VBench,
    }  # fmt: skip
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, prog="sightline evaluate", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    check_options(command)
    with clean_exit():
        command.run()


@dataclass
class _Generating:
    """The model, and how it generates."""

    options: Annotated[ModelOptions, arg(name="")] = field(default_factory=ModelOptions)
    protocol: Literal["own", "paper"] = "own"
    """paper sets everything that the paper fixes. Options given beside it hold, and are listed as deviations from the paper."""
    num_frames: OptionalInt = None
    """Frames of a video, 4 n + 1 for most models; default: the model's own number."""
    size: OptionalSize = None
    """Size of the video; default: the model's own."""
    num_inference_steps: OptionalInt = None
    """Denoising steps; default: the model's own number."""
    guidance_scale: OptionalFloat = None
    """Guidance on the text; default: the model's own."""
    camera_guidance_scale: float = 1.0
    """Guidance on the camera; the paper uses 1."""
    negative_prompt: OptionalText = None
    """What videos should not show; default: the empty prompt."""
    seed: int = 0
    """Seed of the first clip; each clip has the next."""
    label: OptionalText = None
    """Name of this model in tables; default: the name of its camera weights or of its folder."""


@dataclass
class _Protocol(_Generating):
    sources: Annotated[Positional[tuple[str, ...]], arg(metavar="SOURCE ...", help_behavior_hint="")] = ()
    """Where clips come from; default: held-out procedural worlds."""
    clips: OptionalInt = None
    """Number of first frames, spaced evenly over the sources; default: 16, or 6 for revisit with four videos from each."""
    part: Annotated[Literal["held-out", "all"] | None, arg(metavar="{held-out,all}", help_behavior_hint="")] = None
    """Which scenes of the given sources; they are split by a hash of their names. Default: all of sources with split=test, the
    held-out ones of others."""
    held_out: float = 0.01
    """Fraction of the scenes that are held out."""
    stride: OptionalInt = None
    """Take every N-th frame of a shot; default: every frame. It must be that of the training."""
    near_depth: bool = False
    """Divide positions by a clip's near depth, where the source knows it, as in training."""
    cache: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """The cache that the model was trained on: its number of frames, stride, size and near depth are used, others refused."""
    estimator: OptionalName = None
    """How trajectories are estimated from videos: direct (small videos, needs the depth of frame 0), colmap, vipe or given, with
    options as in "vipe?folder=DIR". Default: direct where the depth is known, otherwise vipe or colmap."""
    metrics: Annotated[tuple[str, ...], arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Image and video metrics, or a group: offline (no download), paper, all, none. Default: offline, and lpips if its package is
    installed."""
    weights: Annotated[tuple[str, ...], arg(metavar="NAME=PATH ...", help_behavior_hint="")] = ()
    """Weights of the networks lpips, inception, i3d, clip and dino; default: from their packages or the hub."""
    blind: bool = False
    """Do not condition the model on the trajectory, as a baseline; also for models without a camera (--model lab)."""
    output: _Output = Path("outputs/standard")

    command: ClassVar[Any] = "standard"

    def run(self) -> None:
        from sightline.evaluation.evaluate import evaluate
        from sightline.evaluation.metrics.networks import read_weights
        from sightline.evaluation.report import PAGE, TABLE

        one_progress_bar()
        state = launched()
        is_main = state is None or state.is_main_process
        if not is_main:
            logging.getLogger("sightline").setLevel(logging.ERROR)  # the main process reports for all
        model = Model(self.options) if state is None else Model(self.options, state.device, state.num_processes)
        model.on_load = lambda pipe: pipe.set_progress_bar_config(
            desc="generating", leave=False, disable=not is_main or not sys.stderr.isatty()
        )
        width, height = parse_size(self.size) if self.size else (None, None)
        results = evaluate(
            model,
            protocol=self.command,
            paper=self.protocol == "paper",
            output=self.output,
            label=self.label,
            sources=self.sources,
            clips=self.clips,
            part=self.part,
            held_out=self.held_out,
            near_depth=self.near_depth or None,
            num_frames=self.num_frames,
            stride=self.stride,
            width=width,
            height=height,
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            camera_guidance_scale=self.camera_guidance_scale,
            negative_prompt=self.negative_prompt,
            seed=self.seed,
            blind=self.blind,
            cache=self.cache,
            estimator=self.estimator,
            against=getattr(self, "against", None),
            metrics=self.metrics,
            weights=read_weights(self.weights),
            on_done=print_line,
            state=state,
        )
        if is_main:
            print_line((self.output / TABLE).read_text())
            counts = results.counts
            print_line(f"wrote {self.output / PAGE}; {counts.failed} of {counts.asked} clips have no pose")
            if failed := results.failed_clips:
                raise SightlineError(
                    f"{len(failed)} of {counts.asked} clips were not generated or not scored, such as {failed[0]}: expected all; "
                    "the same command tries them again."
                )


@dataclass
class Standard(_Protocol):
    """First frames and true trajectories of held-out clips: pose errors raw and rescaled, quality, distances."""

    against: Annotated[
        Literal["trajectory", "video"] | None, arg(metavar="{trajectory,video}", help_behavior_hint="")
    ] = None
    """Measure pose errors to the commanded trajectory, or to the one estimated from the true video, as in the paper. Default: the
    trajectory, or the video for an estimator whose metres cannot be compared with the trajectories' unit."""


@dataclass
class Beyond(Standard):
    """The standard protocol on other sources, raw and rescaled errors in one cell. Default: worlds that stand in for PanShot and
    OmniWorld."""

    output: _Output = Path("outputs/beyond")

    command = "beyond"


@dataclass
class Revisit(_Protocol):
    """Four closed loops from each first frame: does the camera return, and is the view still the same?"""

    output: _Output = Path("outputs/revisit")

    command = "revisit"


@dataclass
class Efficiency(_Generating):
    """Seconds per denoising step and peak memory of one or several methods, of whole videos of the shipped frame on an orbit."""

    methods: Annotated[tuple[str, ...], arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Encodings, which are added untrained, with settings as in "ucpe?ratio=4"; files of camera weights; stock, without a camera.
    Default: the model with its own camera; for --protocol paper ucpe, prope and scope."""
    runs: int = 1
    """Number of videos to measure with each method."""
    no_warm_up: bool = False
    """Measure the very first video too."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/efficiency")
    """Folder to write."""

    def run(self) -> None:
        from sightline.evaluation.efficiency import PAPER_METHODS, measure_efficiency
        from sightline.evaluation.efficiency_tables import write_efficiency
        from sightline.evaluation.evaluate import default_label
        from sightline.evaluation.paper import PAPER
        from sightline.evaluation.results import RESULTS, Sampling
        from sightline.evaluation.run import refuse_run_folder
        from sightline.files import require_folder_name

        refuse_run_folder(require_folder_name(self.output))
        one_progress_bar()
        paper = PAPER["standard"] if self.protocol == "paper" else None
        wanted = paper or Model(self.options).info.defaults
        guidance = self.guidance_scale
        steps = wanted.num_inference_steps if self.num_inference_steps is None else self.num_inference_steps
        sampling = Sampling(
            whole_number("num_inference_steps", steps),
            number("guidance_scale", wanted.guidance_scale if guidance is None else guidance, at_least=0.0),
            self.camera_guidance_scale,
            self.seed,
            negative_prompt=self.negative_prompt,
        )
        size, num_frames = self.size, self.num_frames
        if paper is not None:
            size, num_frames = size or f"{paper.width}x{paper.height}", num_frames or paper.num_frames
        results = measure_efficiency(
            self.options,
            self.methods or (PAPER_METHODS if paper is not None else ()),
            Job(num_frames=num_frames, size=size),
            sampling,
            label=self.label or default_label(self.options),
            videos=self.runs,
            warm_up=not self.no_warm_up,
            paper=paper is not None,
            on_done=print_line,
        )
        print_line(write_efficiency(results, self.output))
        if failed := [one for one in results.methods if one.failure is not None]:
            raise SightlineError(
                f"{len(failed)} of {len(results.methods)} methods were not measured, such as {failed[0].label}: expected all; "
                f"{self.output / RESULTS} says why."
            )
