"""Recipes: all settings of a training run, as dataclasses. A YAML file sets them and the command line may override them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
import yaml

from sightline.documents import read_yaml
from sightline.errors import SightlineError
from sightline.parsing import parse_shape
from sightline.settings import flatten, from_dict, to_builtin
from sightline.training.recipe_checks import check_recipe

TrainableSet = Literal["paper", "encoding", "self_attention", "all", "lora"]
TimestepSampling = Literal["shifted_uniform", "uniform", "logit_normal"]
Parallel = Literal["ddp", "fsdp2"]
OptimizerName = Literal["adamw", "muon"]
Decay = Literal["cosine", "linear"]

_SHIPPED = Path(__file__).parents[1] / "recipes"


@dataclass(frozen=True)
class ModelConfig:
    """The model and which of its parameters are trained."""

    base: str = "tiny:ti2v-5b"
    """A pipeline in diffusers' layout (a folder or a hub id), or an untrained miniature such as tiny:ti2v-5b."""
    component: Literal["transformer", "transformer_2"] = "transformer"
    """Which expert: transformer (high noise, or the only one) or transformer_2 (low noise)."""
    encoding: Annotated[dict[str, Any] | None, tyro.conf.Suppress] = None
    """The camera encoding, such as {name: scope}; none trains without a camera."""
    camera: str | None = None
    """Camera weights to start from, instead of the encoding's own initialization; lab is those that ship."""
    trainable: TrainableSet = "paper"
    """paper: encoding, self-attention, feed-forward and modulation. lora: encoding, and LoRA on the paper's layers."""
    lora_rank: int = 16
    gradient_checkpointing: bool = False
    compile: bool = False
    """Compile each block (regional compilation)."""
    fused: bool = False
    """Use the fused kernels (`sl.accelerate`) on CUDA. Results differ only by rounding."""


@dataclass(frozen=True)
class DataConfig:
    """The training data: a cache of latents, or sources whose clips are encoded during training."""

    cache: tuple[str, ...] = ()
    """Folders written by `sightline data cache`. Several are used as one."""
    subset: tuple[str, ...] = ()
    """Names of the sources of the caches that are used; without any, all of them."""
    validation_cache: tuple[str, ...] = ()
    """Caches to validate on, such as one of RealEstate10K's test split, instead of scenes held out of the training data."""
    sources: tuple[str, ...] = ()
    """Without a cache: sources as `sightline data` names them, such as worlds:walkthrough or re10k:/data/re10k."""
    source_weights: dict[str, float] = field(default_factory=dict)
    """How often each source is drawn, relative to the others, by its name; without weights, every clip is equally likely."""
    num_frames: int = 81
    width: int = 832
    height: int = 480
    stride: int = 1
    """Take every stride-th frame of a shot. A cache must have been made with this and the three settings above."""
    shapes: tuple[str, ...] = ()
    """Several shapes of clips instead of num_frames, width and height: FRAMESxWIDTHxHEIGHT, such as 33x128x128. Scenes are
    divided among the shapes, and every step has clips of one shape."""
    shape_weights: tuple[float, ...] = ()
    """How often each shape is drawn, and its part of the scenes, relative to the others; without it, all alike."""
    max_sequence_length: int = 512
    """Text tokens that prompts are padded to. Wan was trained with 512; a small model may need fewer."""
    near_depth: bool = False
    """Divide a clip's translation by its near depth, where that is known."""
    held_out_fraction: float = 0.01
    """Fraction of the scenes kept for validation, chosen by a hash of their names."""
    num_workers: int = 2
    """Threads that read and encode clips ahead of their use."""
    keep_in_memory: bool = False
    """Encode each clip of the sources once and keep its latents in memory; for small datasets."""

    @property
    def clip_shapes(self) -> list[tuple[int, int, int]]:
        """Frames, width and height of the clips, one entry per shape."""
        return [parse_shape(shape) for shape in self.shapes] or [(self.num_frames, self.width, self.height)]


@dataclass(frozen=True)
class ObjectiveConfig:
    """Flow matching: x_t = (1 - sigma) x0 + sigma noise, target noise - x0, mean squared error in float32."""

    timestep_sampling: TimestepSampling = "shifted_uniform"
    """shifted_uniform: sigma = shift u / (1 + (shift - 1) u) with uniform u, Wan's own sampling schedule, unweighted."""
    shift: float = 5.0
    sigma_min: float = 0.0
    sigma_max: float = 1.0
    """The range of noise levels that this expert sees. A14B splits it at 0.9 (I2V) or 0.875 (T2V)."""
    image_to_video_prob: float = 1.0
    """Fraction of clips whose first latent frame is given: clean, at time 0, and excluded from the loss."""
    text_dropout: float = 0.1
    """Fraction of clips with the empty prompt, for guidance on text."""
    camera_dropout: float = 0.0
    """Fraction of clips without their camera, for guidance on the camera."""
    log_scale_prob: float = 0.3
    """Fraction of clips whose log-scale is augmented by a uniform offset from log_scale_min to log_scale_max."""
    log_scale_min: float = -1.2
    log_scale_max: float = 1.6


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer, with linear warm-up and a decay of the learning rate."""

    name: OptimizerName = "adamw"
    """muon: Muon for the matrices of the blocks, at AdamW's learning rate and weight decay, and AdamW for the rest."""
    max_steps: int = 20_000
    max_seconds: float | None = None
    """Train for this long, or for max_steps if those are done earlier. The learning rate then follows the clock, so such
    a run cannot be repeated bit for bit. The time before a run was resumed counts."""
    batch_size: int = 8
    """Clips per step, over all processes and accumulated micro-batches."""
    micro_batch_size: int = 1
    """Clips per process and backward pass."""
    learning_rate: float = 2e-5
    encoding_lr_scale: float = 1.0
    """The encoding's own parameters are trained at this multiple of the learning rate."""
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    weight_decay: float = 1e-2
    warmup_steps: int = 0
    decay: Decay = "cosine"
    """The form of the decay after the warm-up."""
    decay_fraction: float = 1.0
    """The last fraction of the run, in which the learning rate decays; 0 keeps it constant, for a run to be continued."""
    min_lr_ratio: float = 0.1
    """The decay ends at this fraction of the learning rate."""
    max_grad_norm: float = 1.0
    ema_decay: float | None = None
    """Decay of the exponential moving average of the weights that is validated and exported; none keeps no average."""


@dataclass(frozen=True)
class ValidationConfig:
    """Loss and generated videos on held-out clips."""

    every_steps: int = 5_000
    num_clips: int = 16
    """Held-out clips whose loss is measured."""
    num_videos: int = 2
    """Held-out clips that are also generated, beside the ground-truth videos."""
    num_inference_steps: int = 50
    guidance_scale: float = 5.0


@dataclass(frozen=True)
class Recipe:
    """All settings of one training run."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    output: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "outputs/training"
    """The run's folder: recipe, logs, samples, checkpoints."""
    seed: int = 0
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """bfloat16: autocast over float32 master weights."""
    parallel: Parallel = "ddp"
    """On several processes: a copy of the model in each (ddp), or sharded weights (fsdp2)."""
    checkpointing_steps: int = 1_000
    checkpoints_total_limit: int = 3
    """How many checkpoints are kept; older ones are deleted."""
    report_to: Literal["tensorboard", "wandb", "none"] = "tensorboard"

    def __post_init__(self) -> None:
        check_recipe(self)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Recipe:
        """Read a recipe. A setting that does not exist is refused in a sentence that names it and the possible ones."""
        file = find_recipe(path)
        return from_dict(cls, read_yaml(file, "a recipe in YAML"), f"{file}: ")

    def with_encoding(self, encoding: dict[str, Any] | None) -> Recipe:
        """This recipe with another camera encoding, or with none."""
        return dataclasses.replace(self, model=dataclasses.replace(self.model, encoding=encoding))

    def changes_from(self, earlier: Recipe) -> list[str]:
        """Settings in which this recipe differs from an earlier one, as `section.name: old -> new`."""
        new, old = flatten(dataclasses.asdict(self)), flatten(dataclasses.asdict(earlier))
        names = [name for name in old | new if old.get(name) != new.get(name)]
        return [f"{name}: {old.get(name)} -> {new.get(name)}" for name in names]

    def to_yaml(self) -> str:
        return yaml.safe_dump(to_builtin(dataclasses.asdict(self)), sort_keys=False)


def shipped_recipes() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(file.stem for file in _SHIPPED.glob("*.yaml"))


def find_recipe(name: str | Path) -> Path:
    """The file of that path, or the shipped recipe of that name."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = _SHIPPED / f"{path}.yaml"
    if shipped.is_file():
        return shipped
    raise SightlineError(
        f"{str(name)!r} is neither a file nor a shipped recipe: expected a YAML file or one of {', '.join(shipped_recipes())}."
    )
