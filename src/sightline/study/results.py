"""The result of one run of a study: what result.json holds, per clip, so that rows can be compared clip by clip.

    DIR/runs/ROW/SEED/result.json     one RunResult; written when the run is finished, complete or absent

A metric belongs to a group of METRICS, and the metrics of a group have one value for each clip of `clips[group]`, in that
order: `loss` (held-out clips), `video` (generated along their true trajectories) and `revisit` (generated along closed loops).
All rows and seeds of a study have the same clips in the same order. A value is None where it could not be measured, such as a
pose that the estimator did not find. A metric that was not measured at all, such as LPIPS without its weights, is absent.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.files import write_atomic
from sightline.settings import from_dict

RESULT = "result.json"
POSES = "poses"  # in RunResult.clips: the clips of `video` whose cameras are estimated
Group = Literal["loss", "video", "revisit"]


@dataclass(frozen=True)
class Metric:
    """title: of a table's column. unit: empty for a number without one. better: the direction of better models."""

    title: str
    unit: str
    better: Literal["lower", "higher"]
    group: Group

    @property
    def arrow(self) -> str:
        return "↑" if self.better == "higher" else "↓"


METRICS: dict[str, Metric] = {
    "loss": Metric("held-out loss", "", "lower", "loss"),
    "loss_another_camera": Metric("loss, another clip's camera", "", "higher", "loss"),
    "psnr_moved": Metric("PSNR where the view has moved", "dB", "higher", "video"),
    "rot_err": Metric("RotErr", "rad", "lower", "video"),
    "trans_err": Metric("TransErr", "m", "lower", "video"),
    "cam_mc": Metric("CamMC", "", "lower", "video"),
    "ate": Metric("ATE", "m", "lower", "video"),
    "trans_err_rescaled": Metric("TransErr rescaled", "", "lower", "video"),
    "cam_mc_rescaled": Metric("CamMC rescaled", "", "lower", "video"),
    "ate_rescaled": Metric("ATE rescaled", "", "lower", "video"),
    "return_ratio": Metric("Return Trans. Ratio", "", "lower", "revisit"),
    "return_rotation": Metric("Return Rot.", "deg", "lower", "revisit"),
    "normalised_ate": Metric("Norm. ATE", "", "lower", "revisit"),
    "return_lpips": Metric("Return LPIPS", "", "lower", "revisit"),
    "lpips_recovery": Metric("LPIPS Recovery", "", "higher", "revisit"),
    "return_dino": Metric("Return DINOv2", "", "higher", "revisit"),
    # Stand-ins for LPIPS and DINOv2 that need no network: small pictures of textured rooms are compared well by SSIM.
    "return_ssim": Metric("Return SSIM", "", "higher", "revisit"),
    "ssim_recovery": Metric("SSIM Recovery", "", "higher", "revisit"),
}

POSE_METRICS = ("rot_err", "trans_err", "cam_mc", "ate", "trans_err_rescaled", "cam_mc_rescaled", "ate_rescaled")
CAMERA_METRICS = (*POSE_METRICS, "return_ratio", "return_rotation", "normalised_ate")  # without a camera, no value

COST: dict[str, str] = {  # name: title
    "new_parameters": "new parameters",
    "step_seconds": "step (s)",
    "denoise_seconds": "denoising step (s)",
    "train_seconds": "training (s)",
    "steps": "steps",
    "peak_gib": "peak memory (GiB)",
}


@dataclass(frozen=True)
class RunResult:
    """One row of a study, trained with one seed.

    row: the label of the row; unique in its table. table: of the study, which may have several (such as one per unit).
    clips: names by group (see METRICS); those of `revisit` are SCENE/LOOP, and clips of one SCENE are not independent. Under
        `poses`, those of `video` whose cameras were estimated: the others have no pose errors because none were asked for.
    metrics: one value per clip, by name of METRICS. cost: by name of COST; peak_gib only on a GPU, denoise_seconds (one step
        of as many clips as a training step has at a time) only where the study measures times.
    learning_rate: the one that was trained with, the best of the row's sweep where there was one.
    history: values over training as (step, value), such as train_loss, loss, alpha_q/3 (layer 3) and gate_at_1/3.
    facts: other numbers of the run: reciprocal_share/3 (of layer 3) and reciprocal_share (mean over layers), the share of the
        reciprocal product in M = E_q^T E_k, from 0 to 1; alpha and gate_span, where the scalars of SCoPE have come to
        (history.development); encoding_lr_scale, of the learning rate; sweep/RATE, the held-out loss of each trial of the row's
        sweep, as sweep/0.001x20 for learning_rate x encoding_lr_scale; jobs, the runs that shared the device.
    base: the digest of the weights that it started from (backbones.weights_digest).
    failure: one sentence on why the row could not run; clips, metrics, cost and history are then empty.
    """

    study: str
    row: str
    seed: int
    table: str
    clips: dict[str, list[str]] = field(default_factory=dict)
    metrics: dict[str, list[float | None]] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    learning_rate: float = 0.0
    history: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    base: str = ""

    def __post_init__(self) -> None:
        for name, values in self.metrics.items():
            if name not in METRICS:
                raise SightlineError(f"metrics has {name!r}: expected some of {', '.join(METRICS)}.")
            clips = self.clips.get(METRICS[name].group, [])
            if len(values) != len(clips):
                raise SightlineError(f"metrics.{name} has {len(values)} values: expected {len(clips)}, one per clip.")

    def asked(self, metric: str) -> list[str]:
        """The clips that a metric was to be measured on."""
        if metric in POSE_METRICS and POSES in self.clips:
            return self.clips[POSES]
        return self.clips.get(METRICS[metric].group, [])

    def mean(self, metric: str) -> float | None:
        """The mean over the clips that could be measured; None without any."""
        values = [value for value in self.metrics.get(metric, []) if value is not None]
        return sum(values) / len(values) if values else None

    def write(self, folder: Path) -> Path:
        """Write result.json into the folder of the run; it is complete or absent."""
        content = dataclasses.asdict(self)
        content["history"] = {name: [list(point) for point in points] for name, points in self.history.items()}
        write_atomic(folder / RESULT, json.dumps(content, indent=1, allow_nan=False) + "\n")
        return folder / RESULT


def read_result(file: Path) -> RunResult:
    """Read one result.json."""
    content = read_json(file, "the result of a run of sightline study")
    result: RunResult = from_dict(RunResult, content, f"{file}: ")
    return result


def read_results(folder: Path) -> list[RunResult]:
    """All finished runs of a study's folder, in the order of their files' names."""
    return [read_result(file) for file in sorted(folder.glob(f"runs/*/*/{RESULT}"))]


def finite(value: float | None) -> float | None:
    """The value, or None for one that is nan or infinite and would spoil every mean."""
    return value if value is not None and math.isfinite(value) else None


def scene_of(clip: str) -> str:
    """The scene of a clip's name. Clips of one scene (the loops of revisit) share a first frame and are resampled together."""
    return clip.partition("/")[0]
