"""evaluate: generate videos with a model, measure their cameras and their quality, and write a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sightline.backbones.stock import AnyWanPipeline
from sightline.cameras import moves
from sightline.checks import whole_number
from sightline.data.clip_spec import ClipSpec
from sightline.data.split import Part
from sightline.errors import SightlineError
from sightline.evaluation.cases import Cases, Selection, StandardCases, default_sources
from sightline.evaluation.estimators import Estimator
from sightline.evaluation.metrics.suite import DEFAULT_METRICS, Suite
from sightline.evaluation.report import write_report
from sightline.evaluation.results import RESULTS, RunResults, Sampling, read_result
from sightline.evaluation.revisit import RevisitCases
from sightline.evaluation.run import Run, check, prepare, work
from sightline.evaluation.scoring import Against
from sightline.generation.model import Model, ModelOptions
from sightline.generation.plan import Plan

if TYPE_CHECKING:
    from accelerate import PartialState

Protocol = Literal["standard", "beyond", "revisit"]


@dataclass(frozen=True)
class _Defaults:
    """cases: what the protocol generates. styles: of the procedural worlds it uses without a source."""

    cases: Callable[[Selection], Cases]
    styles: tuple[str, ...]
    clips: int


PROTOCOLS: dict[str, _Defaults] = {
    "standard": _Defaults(StandardCases, ("walkthrough",), 16),
    "beyond": _Defaults(StandardCases, ("panorama", "openworld"), 16),
    "revisit": _Defaults(RevisitCases, ("walkthrough",), 6),
}


def evaluate(
    model: Model | AnyWanPipeline | str | Path | None = None,
    camera: str | Path | None = None,
    *,
    protocol: Protocol = "standard",
    output: str | Path | None = None,
    label: str | None = None,
    sources: Sequence[str] = (),
    clips: int | None = None,
    part: Part = "held-out",
    held_out: float = 0.01,
    near_depth: bool = False,
    num_frames: int | None = None,
    width: int | None = None,
    height: int | None = None,
    num_inference_steps: int | None = None,
    guidance_scale: float | None = None,
    camera_guidance_scale: float = 1.0,
    seed: int = 0,
    blind: bool = False,
    estimator: str | Estimator = "direct",
    against: Against = "trajectory",
    metrics: Sequence[str] = (),
    weights: Mapping[str, str] | None = None,
    on_done: Callable[[str], None] = lambda line: None,
    state: PartialState | None = None,
) -> RunResults:
    """Run a protocol on a model, as `sightline evaluate PROTOCOL` does, and return its results.

    model: a pipeline, or the name or folder of one; None is the lab model. camera: its camera weights.
    protocol: "standard" follows the true trajectories of held-out clips; "beyond" does so on other sources; "revisit" follows
        closed loops and asks whether camera and view return.
    output: the folder to write, by default outputs/PROTOCOL: results.json, table.md, report.html, plots, and a folder for each
        clip. The folder of the same run is resumed.
    label: the name of this model in tables.
    sources: texts KIND:PLACE?option=value, as for `sightline data`; by default procedural worlds that no training has seen.
    clips: how many first frames, spaced evenly over the sources. part, held_out: which scenes of the sources.
    near_depth: divide positions by a clip's near depth where the source knows it, as in training.
    num_frames, width, height, num_inference_steps, guidance_scale: by default the model's own.
    seed: of the first clip; each clip has the next.
    blind: do not condition the model on the trajectory; for comparison, and for models without a camera.
    estimator: "direct", "colmap", "vipe" or "given", with options as in "vipe?folder=DIR", or an estimator.
    against: measure pose errors to the commanded "trajectory", or to the one estimated from the ground-truth "video".
    metrics: names or groups (offline, paper, all, none); by default PSNR, SSIM, and LPIPS if its package is installed.
    weights: files of the metrics' networks, by network.
    on_done: called with a line of text after each clip. state: accelerate's processes, which divide the clips.
    """
    if protocol not in get_args(Protocol):
        raise SightlineError(f"protocol is {protocol!r}: expected one of {', '.join(get_args(Protocol))}.")
    defaults = PROTOCOLS[protocol]
    loaded, name = _open_model(model, camera)
    if loaded.options.context_parallel != "none":
        raise SightlineError("context_parallel is given: expected none, since processes share out the clips here.")
    clips = whole_number("clips", defaults.clips if clips is None else clips)
    of_model = loaded.info.defaults
    sampling = Sampling(
        num_inference_steps=whole_number(
            "num_inference_steps", of_model.num_inference_steps if num_inference_steps is None else num_inference_steps
        ),
        guidance_scale=of_model.guidance_scale if guidance_scale is None else guidance_scale,
        camera_guidance_scale=camera_guidance_scale,
        seed=seed,
        blind=blind,
    )
    spec = ClipSpec(
        num_frames or of_model.num_frames,
        width=width or of_model.width,
        height=height or of_model.height,
        near_depth=near_depth,
    )
    loaded.info.require_num_frames(spec.num_frames)
    loaded.info.require_size(spec.width, spec.height)
    # The default worlds are held out as a whole, so they are not split.
    selection = Selection(
        tuple(sources) or default_sources(defaults.styles, clips), clips, part if sources else "all", held_out, spec
    )
    cases = defaults.cases(selection)
    suite = Suite(metrics or DEFAULT_METRICS, weights, loaded.device).open(leave_out=not metrics)
    still = moves.static(frames=spec.num_frames, width=spec.width, height=spec.height)
    plan = Plan(still, None, "", sampling.num_inference_steps, sampling.guidance_scale)
    loaded.require_memory(plan, camera_guidance=camera_guidance_scale != 1.0)
    folder = Path(output or f"outputs/{protocol}")
    run = Run(protocol, folder, cases, sampling, suite, estimator, against, name)
    label = (label or default_label(loaded.options, name)) + (", blind" if blind else "")
    return _execute(run, loaded, label, on_done, state)


def default_label(options: ModelOptions, name: str | None = None) -> str:
    """The file name of the camera weights or of the model."""
    named = options.camera or name or options.model
    return Path(named).stem if named not in (None, "lab") else "the lab model"


def _open_model(model: Any, camera: str | Path | None) -> tuple[Model, str | None]:
    """The model, and the name of a pipeline that was loaded elsewhere."""
    if isinstance(model, Model):
        return model, None
    if model is None or isinstance(model, str | Path):
        options = ModelOptions(None if model is None else str(model), None if camera is None else Path(camera))
        return Model(options), None
    if camera is not None:
        raise SightlineError("camera is given with a pipeline: expected attach_camera(pipeline, camera) before.")
    return Model.of(model), str(model.name_or_path or "a pipeline")


def _execute(
    run: Run, model: Model, label: str, on_done: Callable[[str], None], state: PartialState | None
) -> RunResults:
    rank, processes = (0, 1) if state is None else (state.process_index, state.num_processes)

    def wait() -> None:
        if state is not None:
            state.wait_for_everyone()

    check(run, model)
    if rank == 0:
        prepare(run, model)
    wait()
    work(run, model, rank=rank, processes=processes, on_done=on_done)
    wait()
    if rank == 0:
        write_report(run.output, run.cases.names, label)
    wait()
    return read_result(RunResults, run.output / RESULTS)
