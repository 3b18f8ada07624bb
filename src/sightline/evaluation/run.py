"""A run: from a model to a folder of scored clips. A stopped run resumes, and several processes divide the clips."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from sightline import __version__
from sightline.errors import SightlineError
from sightline.evaluation.cases import Case, Cases
from sightline.evaluation.estimators import open_estimator
from sightline.evaluation.gather import GENERATED_FEATURES, REAL_FEATURES
from sightline.evaluation.metrics.suite import Suite
from sightline.evaluation.results import (
    NOT_GENERATED,
    SCORES_FILE,
    SCORING,
    SETTINGS,
    ClipResult,
    Failure,
    PaperRecord,
    RunSettings,
    Sampling,
    read_result,
    write_result,
)
from sightline.evaluation.scoring import SCORERS, Against, ClipScorer
from sightline.evaluation.units import drawn_with
from sightline.figures import draw_trajectories, picture_or_warning
from sightline.files import atomic_folder, failure
from sightline.generation.generate import generate
from sightline.generation.model import Model
from sightline.run_folder import is_empty
from sightline.video import can_write_mp4, save_video

_log = logging.getLogger("sightline")


@dataclass(frozen=True, eq=False)
class Run:
    """One protocol over one model. estimator: a name for `open_estimator`, or an estimator itself.

    against: what pose errors are measured to, the commanded "trajectory" or the estimate from the ground-truth "video" (as
    in the paper). model_name: for a model that was not loaded by its name. paper: for a run by the paper's protocol.
    """

    protocol: str
    output: Path
    cases: Cases
    sampling: Sampling
    suite: Suite
    estimator: Any = "direct"
    against: Against = "trajectory"
    model_name: str | None = None
    paper: PaperRecord | None = None

    def folder(self, name: str) -> Path:
        return self.output / "clips" / name

    def settings(self, model: Model) -> RunSettings:
        """Everything that decides the numbers."""
        options = model.options
        return RunSettings(
            protocol=self.protocol,
            model=self.model_name or options.model or "the lab model",
            camera=None if options.camera is None else str(options.camera),
            dtype=str(model.dtype).removeprefix("torch."),
            sampling=self.sampling,
            cases=self.cases.settings(),
            estimator=self.estimator if isinstance(self.estimator, str) else type(self.estimator).__name__,
            against=self.against,
            metrics=list(self.suite.names),
            left_out=self.suite.left_out,
            weights=self.suite.weights,
            sightline=__version__,
            paper=self.paper,
            model_files=model.files,
            speed=options.speed,
        )

    def has_finished_clips(self) -> bool:
        return any(self.output.glob(f"clips/*/{SCORES_FILE}"))

    def pending(self) -> list[int]:
        """The clips that are still to be generated or scored."""
        return [index for index, name in enumerate(self.cases.names) if not self._is_finished(self.folder(name))]

    def _is_finished(self, folder: Path) -> bool:
        if not (folder / SCORES_FILE).is_file():
            return False
        try:
            failures = read_result(ClipResult, folder / SCORES_FILE).failures
        except SightlineError:
            return False  # a damaged file: the clip is scored again
        # Where poses are read from files, a clip without a pose waits for its file.
        waits = str(self.estimator).startswith(("given", "vipe"))
        return not any(
            failure.stage in (*NOT_GENERATED, SCORING) or (waits and failure.stage.startswith("pose"))
            for failure in failures
        )


def prepare(run: Run, model: Model) -> None:
    """Write the settings of the run, or refuse a folder that holds another run. A run without a finished clip is replaced."""
    settings, file = run.settings(model), run.output / SETTINGS
    if file.is_file():
        existing, wanted = read_result(RunSettings, file).flat(), settings.flat()  # refuses those of a cache or a video
        for name in wanted if run.has_finished_clips() else ():
            if existing[name] != wanted[name]:
                raise SightlineError(
                    f"{run.output} holds a run with {name} {existing[name]!r}: expected {wanted[name]!r}, or another -o."
                )
        if run.has_finished_clips():
            return
    elif run.output.exists() and (not run.output.is_dir() or not is_empty(run.output)):
        raise SightlineError(f"{run.output} is something else: expected a new folder, or that of a run to continue.")
    write_result(file, settings)


def withdraw(run: Run) -> None:
    """Remove the settings of a run that stopped before its first clip was finished, so that another may take its folder."""
    if not run.has_finished_clips():
        (run.output / SETTINGS).unlink(missing_ok=True)
        for folder in (run.output / "clips", run.output):
            with suppress(OSError):  # it does not exist, or holds something else
                folder.rmdir()


def refuse_run_folder(output: Path) -> None:
    """Refuse to write a summary of runs into the folder of a run."""
    if (output / SETTINGS).is_file():
        raise SightlineError(f"{output} holds a run: expected another -o.")


def work(
    run: Run, model: Model, *, rank: int = 0, processes: int = 1, on_done: Callable[[str], None] = lambda line: None
) -> None:
    """Generate and score this process's shard of the pending clips."""
    shard = [index for index in run.pending() if index % processes == rank]
    if not shard:
        on_done("every clip is finished: nothing is generated, and the report is written from the existing files")
        return
    # All videos of this process, including the finished ones, so that a resumed run computes in the same way.
    model.num_videos = max(1, len(run.cases.names) // processes)
    _ = model.pipe  # load it here: a model that cannot be loaded is not a failure of a clip
    _require_same_weights(run, model)
    estimator = open_estimator(run.estimator)
    if not can_write_mp4():
        on_done("av is not installed: the videos are scored but not kept")
    on_done(f"{run.protocol}: {len(shard)} of {len(run.cases.names)} clips to generate and score")
    started = time.monotonic()
    for done, index in enumerate(shard, 1):
        name = run.cases.names[index]
        with atomic_folder(run.folder(name), overwrite=True) as folder:
            failures = _process_clip(run, model, estimator, index, folder, strict=index == shard[0])
        outcome = "; ".join(f"{failure.stage}: {failure.message}" for failure in failures) or "scored"
        left = (time.monotonic() - started) / done * (len(shard) - done)
        on_done(f"{done} of {len(shard)}{f' (about {_duration(left)} left)' if left else ''}, {name}: {outcome}")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def _require_same_weights(run: Run, model: Model) -> None:
    """Refuse to continue a run with another model under the same name."""
    for name in run.cases.names:
        if (run.folder(name) / SCORES_FILE).is_file():
            weights = read_result(ClipResult, run.folder(name) / SCORES_FILE).weights
            if weights and weights != model.digests:
                raise SightlineError(
                    f"{run.output} holds clips of other weights: expected those of this model, or another -o."
                )


class _NotGenerated(SightlineError):
    """The model could not give a video."""


def _process_clip(run: Run, model: Model, estimator: Any, index: int, folder: Path, strict: bool) -> list[Failure]:
    """Generate and score one clip, and write its folder; returns its failures."""
    name, videos = run.cases.names[index], []

    def generate_once() -> np.ndarray:
        videos.append(_generate(run.sampling, model, case, index))
        return videos[0]

    stage = "source"
    try:
        case = run.cases.load(index)
        stage, scorer = "generation", ClipScorer(case, strict)
        SCORERS[run.protocol](scorer, generate_once, estimator, run.suite, run.against)
    except Exception as error:  # whatever is wrong with one clip, the others are still generated and scored
        if strict and stage != "source" and isinstance(error, SightlineError) and not isinstance(error, _NotGenerated):
            raise  # an estimator that refuses to work at all
        if not videos:
            failed = ClipResult(name, name, failures=[Failure(stage, failure(error))])
            write_result(folder / SCORES_FILE, failed)
            return failed.failures
        scorer.fail(SCORING, failure(error))
    scorer.drop_non_finite()
    scorer.result.seed, scorer.result.weights = run.sampling.seed + index, dict(model.digests)
    _write_clip(folder, videos[0], scorer)
    return scorer.result.failures


def _generate(sampling: Sampling, model: Model, case: Case, index: int) -> np.ndarray:  # -> [T, H, W, 3] uint8
    try:
        return generate(
            model.pipe, Image.fromarray(case.clip.frames[0]), case.clip.caption, case.trajectory,
            num_inference_steps=sampling.num_inference_steps, guidance_scale=sampling.guidance_scale,
            camera_guidance_scale=sampling.camera_guidance_scale, negative_prompt=sampling.negative_prompt,
            blind=sampling.blind, seed=sampling.seed + index,
        )  # fmt: skip
    except torch.OutOfMemoryError:
        raise _NotGenerated("the GPU's memory is full: expected --offload model, or a smaller --size.") from None
    except SightlineError as error:
        raise _NotGenerated(str(error)) from None


def _write_clip(folder: Path, video: np.ndarray, scorer: ClipScorer) -> None:
    case = scorer.case
    if can_write_mp4():
        save_video(video, folder / "generated.mp4", fps=case.trajectory.fps)
    if can_write_mp4() and case.ground_truth is not None:
        save_video(case.ground_truth, folder / "true.mp4", fps=case.trajectory.fps)
    for name, trajectory in scorer.trajectories.items():
        trajectory.save(folder / f"{name.replace(' ', '-')}.json")
    with picture_or_warning(f"{case.name}/trajectories.png"):
        estimated = {name: one for name, one in scorer.trajectories.items() if name != "commanded"}
        shown = {"commanded": case.trajectory, **drawn_with(case.trajectory, estimated)}
        shown = {name: trajectory for name, trajectory in shown.items() if len(trajectory) > 1}
        draw_trajectories(list(shown.values()), folder / "trajectories.png", case.name, [*shown])
    for file, features in ((GENERATED_FEATURES, scorer.generated_features), (REAL_FEATURES, scorer.real_features)):
        if features:
            np.savez_compressed(folder / file, **features)  # type: ignore[arg-type]  # any name is an array's
    write_result(folder / SCORES_FILE, scorer.result)
