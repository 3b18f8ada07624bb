"""What can be known of a model from its configuration files, before any weight is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.backbones.stock import EXPERTS, AnyWanPipeline
from sightline.checks import nearest_frames, nearest_size
from sightline.errors import SightlineError
from sightline.files import read_json, reason

Configs = Mapping[str, Mapping[str, Any]]  # by component; "" is the pipeline's own

_COMPONENTS = (*EXPERTS, "vae", "text_encoder")
_LAB_WIDTH = 1024  # narrower transformers are the lab's


@dataclass(frozen=True)
class Defaults:
    """The shot a model is made for, and how it is sampled."""

    frames: int
    width: int
    height: int
    steps: int
    cfg: float


LAB = Defaults(33, 128, 128, 12, 1.0)  # more steps or guidance: no nearer to the true views (docs/lab.md)
TI2V_5B = Defaults(81, 832, 480, 50, 5.0)
I2V_A14B = Defaults(81, 832, 480, 40, 3.5)
T2V_A14B = Defaults(81, 832, 480, 40, 4.0)


@dataclass(frozen=True)
class ModelInfo:
    """How pixels become tokens, what the model takes, and what it is made for."""

    temporal: int  # frames of a latent frame
    stride_x: int  # pixels of a token
    stride_y: int
    takes_image: bool
    takes_text_alone: bool
    has_camera: bool
    defaults: Defaults

    @classmethod
    def from_configs(cls, configs: Configs) -> ModelInfo:
        try:
            return cls._from_configs(configs)
        except (KeyError, TypeError, IndexError) as error:
            raise SightlineError(
                f"the model's configuration lacks what it must say ({error!r}): expected Wan's."
            ) from None

    @classmethod
    def _from_configs(cls, configs: Configs) -> ModelInfo:
        pipeline, transformer, vae = configs[""], configs["transformer"], configs["vae"]
        patch, spatial = transformer["patch_size"], vae.get("scale_factor_spatial") or 8
        both = bool(pipeline.get("expand_timesteps"))  # TI2V-5B
        image_channels = transformer["in_channels"] > vae["z_dim"]
        defaults = TI2V_5B if both else I2V_A14B if image_channels else T2V_A14B
        if transformer["num_attention_heads"] * transformer["attention_head_dim"] < _LAB_WIDTH:
            defaults = LAB
        return cls(
            temporal=(vae.get("scale_factor_temporal") or 4) * patch[0],
            stride_x=spatial * patch[2],
            stride_y=spatial * patch[1],
            takes_image=both or image_channels,
            takes_text_alone=both or not image_channels,
            has_camera=all("encoding" in configs[name] for name in EXPERTS if name in configs),
            defaults=defaults,
        )

    @classmethod
    def of(cls, pipe: AnyWanPipeline) -> ModelInfo:
        """Of a pipeline that is loaded."""
        parts = {name: part.config for name in (*EXPERTS, "vae") if (part := getattr(pipe, name, None)) is not None}
        return cls.from_configs({"": pipe.config, **parts})

    def tokens(self, frames: int, width: int, height: int) -> int:
        return ((frames - 1) // self.temporal + 1) * (width // self.stride_x) * (height // self.stride_y)

    def require_size(self, width: int, height: int) -> None:
        wide, high = nearest_size(width, height, self.stride_x, self.stride_y)
        if (wide, high) != (width, height):
            raise SightlineError(
                f"size is {width}x{height}: expected multiples of {self.stride_x}x{self.stride_y}, "
                f"the nearest is {wide}x{high}."
            )

    def require_frames(self, frames: int) -> None:
        if (nearest := nearest_frames(frames, self.temporal)) != frames:
            raise SightlineError(
                f"frames is {frames}: expected {self.temporal} n + 1 for this model, the nearest is {nearest}."
            )


def read_configs(model: str) -> Configs:
    """The configuration files of a folder in the hub's layout, or of a hub id (a few small files, kept in its cache)."""
    configs: dict[str, Mapping[str, Any]] = {"": _read(model, "model_index.json")}
    name = configs[""].get("_class_name")
    if name not in ("WanPipeline", "WanImageToVideoPipeline"):
        raise SightlineError(f"model {model!r} is a {name}: expected a Wan pipeline.")
    for component in _COMPONENTS:
        if (configs[""].get(component) or [None])[0] is not None:
            configs[component] = _read(model, f"{component}/config.json")
    for component in ("transformer", "vae"):
        if component not in configs:
            raise SightlineError(f"model {model!r} has no {component}: expected a whole Wan pipeline.")
    return configs


def _read(model: str, name: str) -> Mapping[str, Any]:
    from huggingface_hub import hf_hub_download

    try:
        file = Path(model) / name if Path(model).is_dir() else Path(hf_hub_download(model, name))
        file.stat()  # a missing file is refused in the same words as a missing model
    except (OSError, ValueError) as error:  # no such folder or id, or no network
        raise SightlineError(
            f"model {model!r} cannot be loaded ({name}: {reason(error)}): expected a folder or hub id of a Wan pipeline."
        ) from None
    return read_json(file, "a configuration of a Wan pipeline")
