"""evaluate: generate videos with a model, measure their cameras and their quality, and write a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sightline.backbones.stock import AnyPipeline
from sightline.backbones.wan_configs import Defaults
from sightline.cameras import moves
from sightline.checks import number, whole_number
from sightline.data.clip_spec import ClipSpec
from sightline.data.split import Part
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.evaluation.cases import Cases, Selection, StandardCases, default_sources
from sightline.evaluation.choose import choose_estimator, choose_reference
from sightline.evaluation.estimators import Estimator
from sightline.evaluation.metrics.suite import DEFAULT_METRICS, WINDOW, Suite
from sightline.evaluation.paper import PAPER, PaperProtocol, paper_record
from sightline.evaluation.report import write_report
from sightline.evaluation.results import RESULTS, CaseSettings, RunResults, Sampling, read_result
from sightline.evaluation.revisit import RevisitCases
from sightline.evaluation.run import Run, prepare, withdraw, work
from sightline.evaluation.scoring import Against
from sightline.generation.model import Model
from sightline.generation.model_options import ModelOptions
from sightline.generation.plan import Plan
from sightline.generation.prompts import note_unused_negative_prompt
from sightline.parsing import parse_query
from sightline.run_folder import locked

if TYPE_CHECKING:
    import torch
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
    model: Model | AnyPipeline | str | Path | None = None,
    camera: str | Path | None = None,
    *,
    protocol: Protocol = "standard",
    paper: bool = False,
    output: str | Path | None = None,
    label: str | None = None,
    sources: Sequence[str] = (),
    clips: int | None = None,
    part: Part | None = None,
    held_out: float = 0.01,
    near_depth: bool | None = None,
    num_frames: int | None = None,
    stride: int | None = None,
    width: int | None = None,
    height: int | None = None,
    num_inference_steps: int | None = None,
    guidance_scale: float | None = None,
    camera_guidance_scale: float = 1.0,
    negative_prompt: str | None = None,
    seed: int = 0,
    blind: bool = False,
    cache: str | Path | None = None,
    estimator: str | Estimator | None = None,
    against: Against | None = None,
    metrics: Sequence[str] = (),
    weights: Mapping[str, str] | None = None,
    on_done: Callable[[str], None] = lambda line: None,
    state: PartialState | None = None,
) -> RunResults:
    """Run a protocol on a model, as `sightline evaluate PROTOCOL` does, and return its results.

    model: a pipeline, or the name or folder of one; None is the lab model. camera: its camera weights.
    protocol: "standard" follows the true trajectories of held-out clips; "beyond" does so on other sources; "revisit" follows
        closed loops and asks whether camera and view return.
    paper: set everything that the paper fixes: estimator, reference, sampling, frames, size and metrics. What is given still
        holds; the results list it as a deviation.
    output: the folder to write, by default outputs/PROTOCOL: results.json, table.md, report.html, plots, and a folder for each
        clip. The folder of the same run is resumed.
    label: the name of this model in tables.
    sources: texts KIND:PLACE?option=value, as for `sightline data`; by default procedural worlds that no training has seen.
    clips: how many first frames, spaced evenly over the sources.
    part, held_out: which scenes of the sources. By default all of a source with split=test, and the held-out ones of others.
    near_depth: divide positions by a clip's near depth where the source knows it, as in training.
    num_frames, width, height, num_inference_steps, guidance_scale: by default the model's own.
    stride: take every stride-th frame of a shot.
    cache: the folder of the cache that the model was trained on. Its num_frames, stride, size and near_depth are used, and
        others are refused.
    seed: of the first clip; each clip has the next.
    blind: do not condition the model on the trajectory; for comparison, and for models without a camera.
    estimator: "direct", "colmap", "vipe" or "given", with options as in "vipe?folder=DIR", or an estimator. By default direct
        where the sources know the depth of frame 0, otherwise vipe or colmap, whichever is installed.
    against: measure pose errors to the commanded "trajectory", or to the one estimated from the ground-truth "video". By default
        the trajectory, and the video where an estimator's metres cannot be compared with the unit of the trajectories.
    metrics: names or groups (offline, paper, all, none); by default PSNR, SSIM, and LPIPS if its package is installed.
    weights: files of the metrics' networks, by network.
    on_done: called with a line of text after each clip. state: accelerate's processes, which divide the clips.
    """
    if protocol not in get_args(Protocol):
        raise SightlineError(f"protocol is {protocol!r}: expected one of {', '.join(get_args(Protocol))}.")
    folder = Path(output or f"outputs/{protocol}")
    with locked(folder):
        pass  # a second command for the folder is refused before anything is read; the run itself locks it again
    defaults, wanted = PROTOCOLS[protocol], PAPER[protocol] if paper else None
    if wanted is not None and not sources and wanted.source_kinds:
        raise SightlineError(
            f"no source is given: the paper's protocol expects one of the kind {' or '.join(wanted.source_kinds)}, such as "
            f"{wanted.source_kinds[0]}:FOLDER."
        )
    loaded, name = _open_model(model, camera)
    if loaded.options.context_parallel != "none":
        raise SightlineError("context_parallel is given: expected none, since processes share out the clips here.")
    of_model = loaded.info.defaults
    clips = whole_number("clips", _first(clips, wanted and wanted.clips, defaults.clips))
    sampling = Sampling(
        num_inference_steps=whole_number(
            "num_inference_steps",
            _first(num_inference_steps, wanted and wanted.num_inference_steps, of_model.num_inference_steps),
        ),
        guidance_scale=number(
            "guidance_scale",
            _first(guidance_scale, wanted and wanted.guidance_scale, of_model.guidance_scale),
            at_least=0.0,
        ),
        camera_guidance_scale=camera_guidance_scale,
        seed=seed,
        blind=blind,
        negative_prompt=negative_prompt,
    )
    note_unused_negative_prompt(negative_prompt, sampling.guidance_scale)
    given = {"num_frames": num_frames, "stride": stride, "width": width, "height": height, "near_depth": near_depth}
    spec = _clip_spec(given, cache, wanted, of_model)
    loaded.info.require_num_frames(spec.num_frames)
    loaded.info.require_size(spec.width, spec.height)
    # The default worlds are held out as a whole, so they are not split.
    part = _default_part(sources, part) if sources else "all"
    chosen = tuple(sources) or default_sources(defaults.styles, clips)
    cases = defaults.cases(Selection(chosen, clips, part, held_out, spec))
    facts = cases.facts()
    estimator = choose_estimator(_first(estimator, wanted and wanted.estimator), facts)
    if protocol != "revisit":  # which compares shapes alone
        against = choose_reference(_first(against, wanted and wanted.against), estimator, facts)
    loaded.info.require_sampling(sampling.num_inference_steps, sampling.guidance_scale)
    loaded.info.require_conditioning(blind=blind, camera_guidance_scale=camera_guidance_scale)
    if not blind:
        loaded.require_camera(instead=", or --blind")
    settings = cases.settings()
    suite = _open_suite(metrics, wanted, weights, loaded.device, settings)
    still = moves.static(frames=spec.num_frames, width=spec.width, height=spec.height)
    plan = Plan(still, None, "", sampling.num_inference_steps, sampling.guidance_scale)
    loaded.require_memory(plan, camera_guidance=camera_guidance_scale != 1.0)
    against = against or "trajectory"
    estimator_name = estimator if isinstance(estimator, str) else estimator.name
    record = paper_record(
        protocol, loaded.info, settings, sampling, estimator_name, against, suite.names, clips
    ) if wanted else None  # fmt: skip
    run = Run(protocol, folder, cases, sampling, suite, estimator, against, name, record)
    label = (label or default_label(loaded.options, name)) + (", blind" if blind else "")
    with locked(folder, ("clips", "plots")):
        return _execute(run, loaded, label, on_done, state)


def _open_suite(
    metrics: Sequence[str],
    paper: PaperProtocol | None,
    weights: Mapping[str, str] | None,
    device: torch.device,
    cases: CaseSettings,
) -> Suite:
    """The metrics that these clips allow. One that was asked for, by name or by the paper, must have its weights."""
    suite = Suite(metrics or (paper.metrics if paper else DEFAULT_METRICS), weights, device)
    if not cases.with_caption:
        suite.leave_out(["clip_text"], "no clip has a caption.")
    if cases.num_frames < WINDOW:
        suite.leave_out(["fvd_16", "fvd_c_16"], f"a clip has {cases.num_frames} frames, fewer than {WINDOW}.")
    return suite.open(leave_out=not metrics and paper is None)


def _default_part(sources: Sequence[str], part: Part | None) -> Part:
    """The part that is given; else all of test splits, which are held out as a whole."""
    are_test = all(parse_query("the source", source)[1].get("split") == "test" for source in sources)
    return part or ("all" if are_test else "held-out")


def _first(*values: Any) -> Any:
    """The first value that is given."""
    return next((value for value in values if value is not None), None)


def _clip_spec(
    given: Mapping[str, Any], cache: str | Path | None, paper: PaperProtocol | None, of_model: Defaults
) -> ClipSpec:
    """What is given, else what the cache of the training records, else what the paper fixes, else the model's own."""
    if cache is not None:
        recorded = ClipSpec.from_settings(
            read_json(Path(cache) / "settings.json", "the settings of a cache"), str(cache)
        )
        recorded.require({name: value for name, value in given.items() if value is not None}, str(cache))
        return recorded
    fallback = paper or of_model
    return ClipSpec(
        _first(given["num_frames"], fallback.num_frames),
        _first(given["stride"], 1),
        width=_first(given["width"], fallback.width),
        height=_first(given["height"], fallback.height),
        near_depth=bool(given["near_depth"]),
    )


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

    if rank == 0:
        prepare(run, model)
    wait()
    try:
        work(run, model, rank=rank, processes=processes, on_done=on_done)
    except BaseException:
        if rank == 0:
            withdraw(run)
        raise
    wait()
    if rank == 0:
        write_report(run.output, run.cases.names, label)
    wait()
    return read_result(RunResults, run.output / RESULTS)
