"""A recipe: everything a training run is, as typed settings. A YAML file fills it, the command line may override it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
import yaml

from sightline.checks import number, whole_number
from sightline.errors import SightlineError
from sightline.training.settings import filled, flat, plain

TrainableSet = Literal["paper", "encoding", "self_attention", "all", "lora"]
Timesteps = Literal["shifted_uniform", "uniform", "logit_normal"]
Parallel = Literal["ddp", "fsdp2"]

_SHIPPED = Path(__file__).parents[1] / "recipes"


@dataclass(frozen=True)
class Model:
    """What is trained."""

    base: str = "tiny:ti2v-5b"
    """A pipeline in diffusers' layout (a folder or a hub id); or tiny:ti2v-5b and its like, untrained miniatures."""
    component: Literal["transformer", "transformer_2"] = "transformer"
    """Which expert: transformer (high noise, or the only one) or transformer_2 (low noise)."""
    encoding: Annotated[dict[str, Any] | None, tyro.conf.Suppress] = None
    """The camera method, such as {name: scope}; none for camera-free training."""
    camera: str | None = None
    """Camera weights to start from, instead of the encoding's own start."""
    train: TrainableSet = "paper"
    """paper: encoding, self-attention, feed-forward and modulation. lora: encoding, and LoRA on the paper's layers."""
    lora_rank: int = 16
    gradient_checkpointing: bool = False
    compile: bool = False
    """Compile each block (regional compilation)."""
    fused: bool = False
    """Fused kernels (`sl.accelerate`), on CUDA: equal but for rounding."""


@dataclass(frozen=True)
class Data:
    """What it is trained on: a cache of latents, or sources whose clips are encoded as they come."""

    cache: str | None = None
    """A folder written by `sightline data cache`."""
    sources: tuple[str, ...] = ()
    """Without a cache: sources as `sightline data` names them, such as worlds:walkthrough or re10k:/data/re10k."""
    weights: tuple[float, ...] = ()
    """How often each source is drawn; equal unless given."""
    frames: int = 81
    width: int = 832
    height: int = 480
    text_tokens: int = 512
    """What prompts are padded to. Wan was trained with 512; a small model of one's own may do with fewer."""
    near_depth: bool = False
    """Divide a clip's translation by its near depth, where that is known."""
    held_out: float = 0.01
    """Share of the scenes kept for validation, chosen by a hash of their names."""
    workers: int = 2
    keep_in_memory: bool = False
    """Encode each clip of the sources once and keep it; for small sets."""


@dataclass(frozen=True)
class Objective:
    """Flow matching: x_t = (1 - sigma) x0 + sigma noise, target noise - x0, mean squared error in float32."""

    timesteps: Timesteps = "shifted_uniform"
    """shifted_uniform: sigma = shift u / (1 + (shift - 1) u), u uniform: Wan's own sampling schedule, unweighted."""
    shift: float = 5.0
    sigma_low: float = 0.0
    sigma_high: float = 1.0
    """The part of the noise scale that this expert sees; A14B splits it at 0.9 (I2V) or 0.875 (T2V)."""
    image_to_video: float = 1.0
    """Share of clips whose first latent frame is given: pasted clean, at time 0, and out of the loss."""
    text_dropout: float = 0.1
    """Share of clips with the empty prompt, for guidance on text."""
    camera_dropout: float = 0.0
    """Share of clips without their camera, for guidance on the camera."""
    log_scale_probability: float = 0.3
    log_scale_low: float = -1.2
    log_scale_high: float = 1.6


@dataclass(frozen=True)
class Optimiser:
    """AdamW with warm-up and a cosine to a share of the starting rate."""

    steps: int = 20_000
    seconds: float | None = None
    """Train for this long, or for `steps` where those are done earlier. The rate then follows the clock, so that such a run
    cannot be repeated bit for bit; resumed, it has all its time again."""
    batch: int = 8
    """Clips per step, over all processes and accumulated micro-batches."""
    micro_batch: int = 1
    """Clips per process and backward pass."""
    rate: float = 2e-5
    new_rate: float = 1.0
    """Multiple of the rate for the encoding's own parameters."""
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 1e-2
    warmup: int = 0
    final: float = 0.1
    clip: float = 1.0
    ema: float | None = None
    """Decay of the moving average that is validated and exported; none keeps none."""


@dataclass(frozen=True)
class Validation:
    every: int = 5_000
    clips: int = 16
    videos: int = 2
    """Clips that are also generated, beside the true ones."""
    sampling_steps: int = 50
    guidance: float = 5.0


_AT_LEAST_1 = {
    "optimiser": ("steps", "batch", "micro_batch"),
    "data": ("frames", "width", "height", "text_tokens"),
    "model": ("lora_rank",),
    "validation": ("every", "clips", "sampling_steps"),
}


@dataclass(frozen=True)
class Recipe:
    """One run."""

    model: Model = field(default_factory=Model)
    data: Data = field(default_factory=Data)
    objective: Objective = field(default_factory=Objective)
    optimiser: Optimiser = field(default_factory=Optimiser)
    validation: Validation = field(default_factory=Validation)
    output: str = "outputs/training"
    """The run's folder: config, logs, samples, checkpoints."""
    seed: int = 0
    precision: Literal["bf16", "fp32"] = "bf16"
    """bf16: autocast over float32 master weights."""
    parallel: Parallel = "ddp"
    """How several processes share the work: whole copies (ddp) or sharded weights (fsdp2)."""
    checkpoint_every: int = 1_000
    keep: int = 3
    """Checkpoints kept, newest first."""
    log: Literal["tensorboard", "wandb", "none"] = "tensorboard"

    def __post_init__(self) -> None:
        o, d, j, v = self.optimiser, self.data, self.objective, self.validation
        for section, names in _AT_LEAST_1.items():
            for name in names:
                whole_number(f"{section}.{name}", getattr(getattr(self, section), name))
        whole_number("checkpoint_every", self.checkpoint_every)
        whole_number("keep", self.keep)
        for name, value in (("optimiser.rate", o.rate), ("optimiser.clip", o.clip), ("objective.shift", j.shift)):
            number(name, value, above=0.0)
        for name in ("new_rate", "epsilon", "decay", "warmup", "final"):
            number(f"optimiser.{name}", getattr(o, name), at_least=0.0)
        for name, value in (("data.workers", d.workers), ("validation.videos", v.videos), ("seed", self.seed)):
            number(name, value, at_least=0.0)
        number("validation.guidance", v.guidance)
        for name in ("image_to_video", "text_dropout", "camera_dropout", "log_scale_probability"):
            _share(f"objective.{name}", getattr(j, name))
        _share("data.held_out", d.held_out)
        for name, decay in (("beta_1", o.beta_1), ("beta_2", o.beta_2), ("ema", o.ema)):
            if decay is not None and not 0 <= decay < 1:
                raise SightlineError(f"optimiser.{name} is {decay}: expected a number from 0 to below 1.")
        if not (math.isfinite(j.log_scale_low) and j.log_scale_low <= j.log_scale_high < math.inf):
            raise SightlineError(
                f"objective.log_scale_low and log_scale_high are {j.log_scale_low} and {j.log_scale_high}: "
                "expected two numbers, low <= high."
            )
        if not self.output.strip():
            raise SightlineError("output is empty: expected a folder for the run.")
        if d.frames < 5 and j.image_to_video > 0:
            raise SightlineError(
                f"data.frames is {d.frames} with objective.image_to_video {j.image_to_video}: expected 5 or more, since the "
                "first latent frame is given and something must be left to predict."
            )
        if not 0 <= j.sigma_low < j.sigma_high <= 1:
            raise SightlineError(
                f"objective.sigma_low and sigma_high are {j.sigma_low} and {j.sigma_high}: expected 0 <= low < high <= 1."
            )
        if bool(d.cache) == bool(d.sources):
            raise SightlineError("data needs either a cache or sources: expected exactly one of the two.")
        if d.weights and (len(d.weights) != len(d.sources) or not all(w > 0 and math.isfinite(w) for w in d.weights)):
            raise SightlineError(f"data.weights are {list(d.weights)}: expected one number above 0 for each source.")
        if self.model.train == "encoding" and self.model.encoding is None:
            raise SightlineError("model.train is 'encoding' without model.encoding: there would be nothing to train.")

    @classmethod
    def from_yaml(cls, path: str | Path) -> Recipe:
        """Read a recipe; a setting that does not exist is refused with its place and the nearest names."""
        file = find_recipe(path)
        try:
            content = yaml.safe_load(file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise SightlineError(f"{file} cannot be read ({error}): expected a recipe in YAML.") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark else ""
            raise SightlineError(
                f"{file}{line} is not YAML ({getattr(error, 'problem', error)}): expected a recipe."
            ) from None
        return filled(cls, content or {}, f"{file}: ")

    def changes_from(self, other: Recipe) -> list[str]:
        """Settings in which this recipe differs, as `section.name: old -> new`."""
        mine, theirs = (flat(dataclasses.asdict(one)) for one in (self, other))
        return [f"{name}: {theirs.get(name)} -> {mine.get(name)}" for name in mine if mine[name] != theirs.get(name)]

    def to_yaml(self) -> str:
        return yaml.safe_dump(plain(dataclasses.asdict(self)), sort_keys=False)


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise SightlineError(f"{name} is {value}: expected a share from 0 to 1.")


def shipped_recipes() -> list[str]:
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def find_recipe(name: str | Path) -> Path:
    """The file itself, or the shipped recipe of that name."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = _SHIPPED / f"{path}.yaml"
    if shipped.is_file():
        return shipped
    raise SightlineError(
        f"{str(name)!r} is neither a file nor a shipped recipe: expected a YAML file or one of {', '.join(shipped_recipes())}."
    )
