"""From a model to a folder of judged clips. A stopped run goes on where it was; processes share the clips out."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from sightline import __version__
from sightline.cameras.drawing import draw_trajectories
from sightline.errors import SightlineError
from sightline.evaluation.cases import Case, Cases
from sightline.evaluation.metrics.suite import Suite
from sightline.evaluation.scoring import SCORERS, Scored
from sightline.files import atomic_folder, read_json, write_atomic
from sightline.generation.generate import generate
from sightline.generation.model import Model
from sightline.parsing import parse_query, parse_scalar
from sightline.video import save_video

SETTINGS, SCORES, FEATURES = "settings.json", "scores.json", "features.npz"
UNFINISHED = ("source", "film")  # a clip that failed here is tried again
_log = logging.getLogger("sightline")


@dataclass(frozen=True)
class Sampling:
    """How every clip is filmed. The seed of clip i is seed + i. blind: the model is not told the path."""

    steps: int
    cfg: float
    camera_cfg: float = 1.0
    seed: int = 0
    blind: bool = False


@dataclass(frozen=True, eq=False)
class Run:
    """One protocol over one model. estimator: a name for get_estimator, or an estimator itself.

    against: what pose errors are measured to, the commanded "path" or the estimate of the true "video" (as in the paper).
    """

    protocol: str
    output: Path
    cases: Cases
    sampling: Sampling
    suite: Suite
    estimator: Any = "direct"
    against: str = "path"

    def folder(self, name: str) -> Path:
        return self.output / "clips" / name

    def settings(self, model: Model) -> dict[str, Any]:
        """Everything that decides the numbers, as json gives it back."""
        options = model.options
        found = {
            "protocol": self.protocol,
            "model": options.model or "the lab model",
            "camera": None if options.camera is None else str(options.camera),
            "dtype": str(model.dtype).removeprefix("torch."),
            **asdict(self.sampling),
            **self.cases.settings(),
            "estimator": self.estimator if isinstance(self.estimator, str) else type(self.estimator).__name__,
            "against": self.against,
            "metrics": list(self.suite.names),
            "left_out": self.suite.absent,
            "weights": self.suite.weights,
            "sightline": __version__,
        }
        return json.loads(json.dumps(found))

    def pending(self) -> list[int]:
        return [index for index, name in enumerate(self.cases.names) if not self._is_finished(self.folder(name))]

    def _is_finished(self, folder: Path) -> bool:
        if not (folder / SCORES).is_file():
            return False
        try:
            stages = [one["stage"] for one in read_json(folder / SCORES, "a file of sightline evaluate")["failures"]]
        except (SightlineError, KeyError):
            return False  # damaged: judged again
        # Where poses come from files, a clip without one waits for somebody to put it there.
        waits = str(self.estimator).startswith(("given", "vipe"))
        return not any(stage in UNFINISHED or (waits and stage.startswith("pose")) for stage in stages)


def prepare(run: Run, model: Model) -> None:
    """Write what the run is, or refuse a folder that holds another one."""
    wanted, file = run.settings(model), run.output / SETTINGS
    if file.is_file():
        found = read_json(file, "a file of sightline evaluate")
        for name in wanted:
            if found.get(name) != wanted[name]:
                raise SightlineError(
                    f"{run.output} holds a run with {name} {found.get(name)!r}: expected {wanted[name]!r}, or another -o."
                )
        return
    if run.output.exists() and (not run.output.is_dir() or any(run.output.iterdir())):
        raise SightlineError(f"{run.output} is something else: expected a new folder, or that of a run to go on with.")
    write_atomic(file, json.dumps(wanted, indent=2) + "\n")


def refuse_run_folder(output: Path) -> None:
    """What summarises runs must not be written over one."""
    if (output / SETTINGS).is_file():
        raise SightlineError(f"{output} holds a run: expected another -o.")


def work(
    run: Run, model: Model, *, rank: int = 0, processes: int = 1, on_done: Callable[[str], None] = lambda line: None
) -> None:
    """Film and judge this process's share of the clips; those that are finished are left alone."""
    mine = [index for index in run.pending() if index % processes == rank]
    if not mine:
        on_done("every clip is finished: nothing is filmed, the report is written from what is there")
        return
    if not run.sampling.blind:
        model.require_camera(instead=", or --blind")
    _ = model.pipe  # a model that cannot be loaded is no failure of a clip
    _require_same_weights(run, model)
    estimator = open_estimator(run.estimator)
    on_done(f"{run.protocol}: {len(mine)} of {len(run.cases.names)} clips to film and to judge")
    started = time.monotonic()
    for done, index in enumerate(mine, 1):
        name = run.cases.names[index]
        with atomic_folder(run.folder(name), overwrite=True) as folder:
            failures = _judge(run, model, estimator, index, folder, strict=index == mine[0])
        told = "; ".join(f"{one['stage']}: {one['sentence']}" for one in failures)
        left = (time.monotonic() - started) / done * (len(mine) - done)
        on_done(f"{done} of {len(mine)}{f' (about {_spoken(left)} left)' if left else ''}, {name}: {told or 'scored'}")


def _spoken(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def open_estimator(estimator: Any) -> Any:
    """NAME or NAME?option=value&option=value, as sources are named; numbers are read as such."""
    if not isinstance(estimator, str):
        return estimator
    from sightline.evaluation.estimators import get_estimator

    name, options = parse_query("the estimator", estimator)
    return get_estimator(name, **{option: parse_scalar(value) for option, value in options.items()})


def _require_same_weights(run: Run, model: Model) -> None:
    """Half a run by one model and half by another, under one name, is no run."""
    for name in run.cases.names:
        if (run.folder(name) / SCORES).is_file():
            found = read_json(run.folder(name) / SCORES, "a file of sightline evaluate").get("weights")
            if found not in (None, model.digests):
                raise SightlineError(
                    f"{run.output} holds clips of other weights: expected those of this model, or another -o."
                )


class _NotFilmed(Exception):
    """A clip that the model, or its source, could not give."""


def _judge(run: Run, model: Model, estimator: Any, index: int, folder: Path, strict: bool) -> list[dict[str, str]]:
    """Write a clip's folder; returns what failed."""
    name, films = run.cases.names[index], []

    def film() -> np.ndarray:
        films.append(_filmed(run.sampling, model, case, index))
        return films[0]

    stage = "source"
    try:
        try:
            case = run.cases.load(index)
        except SightlineError as error:
            raise _NotFilmed(str(error)) from None
        stage, scored = "film", Scored(case, strict)
        SCORERS[run.protocol](scored, case, film, estimator, run.suite, run.against)
    except _NotFilmed as error:
        failures = [{"stage": stage, "sentence": str(error)}]
        write_atomic(folder / SCORES, json.dumps({"clip": name, "failures": failures}, indent=1))
        return failures
    scored.drop_what_is_no_number()
    scored.record |= {"seed": run.sampling.seed + index, "weights": model.digests}
    _write(folder, case, films[0], scored)
    return scored.record["failures"]


def _filmed(sampling: Sampling, model: Model, case: Case, index: int) -> np.ndarray:  # -> [T, H, W, 3] uint8
    try:
        return generate(
            model.pipe, Image.fromarray(case.first), case.caption, case.trajectory, steps=sampling.steps,
            guidance=sampling.cfg, camera_guidance=sampling.camera_cfg, blind=sampling.blind,
            seed=sampling.seed + index,
        )  # fmt: skip
    except torch.OutOfMemoryError:
        raise _NotFilmed("the GPU's memory is full: expected --offload model, or a smaller --size.") from None
    except SightlineError as error:
        raise _NotFilmed(str(error)) from None


def _write(folder: Path, case: Case, video: np.ndarray, scored: Scored) -> None:
    fps = case.trajectory.fps
    save_video(video, folder / "generated.mp4", fps=fps)
    if case.truth is not None:
        save_video(case.truth, folder / "true.mp4", fps=fps)
    for name, path in scored.paths.items():
        path.save(folder / f"{name.replace(' ', '-')}.json")
    shown = {name: path for name, path in scored.paths.items() if len(path) > 1}
    draw_trajectories(list(shown.values()), folder / "paths.png", case.name, [*shown])
    if scored.features:
        np.savez_compressed(folder / FEATURES, **scored.features)  # type: ignore[arg-type]  # any name is an array's
    write_atomic(folder / SCORES, json.dumps(scored.record, indent=1) + "\n")
