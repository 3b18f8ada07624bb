"""The results of a run as dataclasses, and their json files."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sightline.checks import check_seed, number, shown, whole_number
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.evaluation.metrics.frechet import FrechetDistance
from sightline.evaluation.scores import POSE_SCORE
from sightline.files import write_atomic
from sightline.names import require_plain_name
from sightline.settings import from_dict

SETTINGS, SCORES_FILE, RESULTS = "settings.json", "scores.json", "results.json"
EXPECTED = "a file of sightline evaluate"
NOT_GENERATED = ("source", "generation")  # stages: a clip that failed there has no video, and is tried again
SCORING = "scoring"  # the stage of a clip that has its video, but whose scores could not be computed; it is tried again
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Sampling:
    """How every video is generated. The seed of clip i is seed + i. blind: the model is not conditioned on the trajectory.
    negative_prompt: None is the pipeline's own, the empty one."""

    num_inference_steps: int
    guidance_scale: float
    camera_guidance_scale: float = 1.0
    seed: int = 0
    blind: bool = False
    negative_prompt: str | None = None

    def __post_init__(self) -> None:
        checked = {
            "num_inference_steps": whole_number("num_inference_steps", self.num_inference_steps),
            "guidance_scale": number("guidance_scale", self.guidance_scale),
            "camera_guidance_scale": number("camera_guidance_scale", self.camera_guidance_scale),
            "seed": check_seed(self.seed),
        }
        for name, value in checked.items():  # NumPy's numbers, which JSON cannot hold, become Python's
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class LoopSettings:
    """The loops of the revisit protocol: their names, their size as a fraction of the depth, and the angle of the orbit."""

    names: list[str]
    depth_fraction: float
    degrees: float


@dataclass(frozen=True)
class CaseSettings:
    """What decides which clips a run has. names_digest: of the clips' names, in order. stride: of the frames in their shot.

    default_caption: the prompt of the clips whose source has no caption; with_caption: the number of the others.
    """

    sources: list[dict[str, Any]]
    clips: int
    names_digest: str
    part: str
    held_out: float | None
    num_frames: int
    stride: int
    width: int
    height: int
    near_depth: bool
    with_caption: int
    default_caption: str
    unreadable_shots: int
    loops: LoopSettings | None = None


@dataclass(frozen=True)
class PaperRecord:
    """How a run relates to the paper: what it fixes, where the run differs, and what it leaves open. One sentence each."""

    fixed: list[str]
    deviations: list[str]
    left_open: list[str]


@dataclass(frozen=True)
class RunSettings:
    """Everything that decides the numbers of a run. left_out: why a metric is missing, by metric. paper: for a run that follows
    the paper's protocol.

    weights: of the metrics' networks. model_files: digests of the files of the model and of its camera weights.
    """

    protocol: str
    model: str
    camera: str | None
    dtype: str
    sampling: Sampling
    cases: CaseSettings
    estimator: str
    against: str
    metrics: list[str]
    left_out: dict[str, str]
    weights: dict[str, str]
    sightline: str
    paper: PaperRecord | None = None
    model_files: dict[str, str] = field(default_factory=dict)
    speed: str = "exact"

    def __post_init__(self) -> None:
        _require_protocol(self.protocol)

    def flat(self) -> dict[str, Any]:
        """All settings by name, those of `sampling` and `cases` included, as json holds them."""
        settings = to_json(self)
        return {**settings.pop("sampling"), **settings.pop("cases"), **settings}


@dataclass(frozen=True)
class Failure:
    """stage: what could not be done, such as "pose of the generated video". message: why, in one sentence."""

    stage: str
    message: str


@dataclass
class VideoScores:
    """What was measured on one video. scores: by name (see `scores.SCORES`). by_frame: for the plots.

    confidence, details: of the pose estimator, None where it did not run.
    unit, reference_unit: of the estimated trajectory and of the one it was compared with (see Trajectory.unit).
    """

    scores: dict[str, float] = field(default_factory=dict)
    by_frame: dict[str, list[float]] = field(default_factory=dict)
    confidence: float | None = None
    details: dict[str, Any] | None = None
    unit: str | None = None
    reference_unit: str | None = None


@dataclass
class ClipResult:
    """One clip. ground_truth: the ground-truth video judged as the generated one is; its pose errors are the estimator floor.

    group: clips of one group share a first frame, so they are not independent.
    weights: digests of the model's weights.
    """

    name: str
    group: str
    source: str = ""
    caption: str = ""
    num_frames: int = 0
    seed: int | None = None
    weights: dict[str, str] = field(default_factory=dict)
    generated: VideoScores = field(default_factory=VideoScores)
    ground_truth: VideoScores = field(default_factory=VideoScores)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_plain_name("the name of a clip", self.name)  # it is also that of a folder


@dataclass(frozen=True)
class MeanScore:
    """mean: over groups, each the mean of its clips. median: over clips. n: clips with this score.

    mean_of_sums: pose errors summed over frames instead of averaged. mean_without_first: with frame 0, which has no error,
    left out of the average. Both as some papers report them, and None for other scores.
    """

    mean: float
    median: float
    n: int
    groups: int
    better: str
    mean_of_sums: float | None = None
    mean_without_first: float | None = None


@dataclass(frozen=True)
class Counts:
    """Clips of a run: asked for, generated, with a pose score, without one, and with a pose score of the ground truth."""

    asked: int
    generated: int
    scored: int
    failed: int
    estimator_floor: int


@dataclass
class RunResults:
    """A whole run: what results.json holds.

    means, estimator_floor: means by score, of the generated and of the ground-truth videos. distances: by metric.
    """

    label: str
    protocol: str
    settings: RunSettings
    counts: Counts
    means: dict[str, MeanScore]
    estimator_floor: dict[str, MeanScore]
    distances: dict[str, FrechetDistance]
    clips: list[ClipResult]

    def __post_init__(self) -> None:
        _require_protocol(self.protocol)

    @property
    def failures(self) -> list[tuple[str, Failure]]:
        """Every failure with the name of its clip."""
        return [(clip.name, failure) for clip in self.clips for failure in clip.failures]

    @property
    def failed_clips(self) -> list[str]:
        """Clips without a video, or without all of their scores. A pose that cannot be estimated is a result, not a failure."""
        stages = (*NOT_GENERATED, SCORING)
        return list(dict.fromkeys(name for name, failure in self.failures if failure.stage in stages))


def _require_protocol(protocol: str) -> None:
    if protocol not in POSE_SCORE:
        raise SightlineError(f"protocol is {shown(protocol)}: expected one of {', '.join(POSE_SCORE)}.")


def to_json(value: Any) -> Any:
    """A dataclass as plain json values: dictionaries, lists, texts and numbers."""
    return json.loads(json.dumps(dataclasses.asdict(value), allow_nan=False))


def from_json(kind: type[Kind], content: Any, file: Path) -> Kind:
    """The dataclass that `to_json` wrote, or one sentence on what does not fit. file: where the content is from."""
    names = [item.name for item in dataclasses.fields(kind) if item.default is item.default_factory]  # type: ignore[arg-type]
    if isinstance(content, dict) and (missing := [name for name in names if name not in content]):
        raise SightlineError(f"{file} has no {missing[0]}: expected the results of sightline evaluate.")
    return from_dict(kind, content, f"{file}: ")


def write_result(file: Path, value: Any) -> None:
    """Write a dataclass as json."""
    write_atomic(file, json.dumps(to_json(value), indent=1) + "\n")


def read_result(kind: type[Kind], file: Path) -> Kind:
    """Read a dataclass that `write_result` wrote."""
    return from_json(kind, read_json(file, EXPECTED), file)
