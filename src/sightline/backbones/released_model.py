"""What all released camera models on Wan share: files under Wan's own names, checked by name and shape before they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from sightline.backbones.families import WAN, family_of_config
from sightline.backbones.released_files import ReleasedWeights, expert_places, require_same_tensors
from sightline.backbones.stock import WanImageToVideoPipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.backbones.wan_names import Shapes, is_wan, wan_config
from sightline.documents import read_json
from sightline.encodings import Encoding
from sightline.errors import SightlineError

Self = TypeVar("Self", bound="ReleasedModel")


@dataclass(frozen=True)
class ReleasedModel(ABC):
    """A release whose files were found to be complete. weights and configs: of each expert, by diffusers' component."""

    source: Path
    weights: dict[str, ReleasedWeights]
    configs: dict[str, dict[str, Any]]

    family: ClassVar[str]  # as its authors call it
    marker: ClassVar[str]  # a tensor that this family has, and no other
    pipeline_class: ClassVar[type[WanImageToVideoPipeline]] = WanImageToVideoPipeline
    transformer_class: ClassVar[type[CameraWanTransformer3DModel]] = CameraWanTransformer3DModel

    @property
    @abstractmethod
    def base(self) -> str:
        """The hub id of a pipeline that has the other parts of this model: VAE, text encoder, image encoder."""

    @classmethod
    @abstractmethod
    def encoding(cls, source: Path, shapes: Shapes, config: Mapping[str, Any]) -> Encoding:
        """The camera encoding of these tensors; refuses channels that the family does not have."""

    @staticmethod
    @abstractmethod
    def target(name: str) -> str | None:
        """The parameter of CameraWanTransformer3DModel that a released tensor becomes; None for one it does not have."""

    @classmethod
    def target_shape(cls, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that a released tensor has in the model."""
        return shape

    @classmethod
    def convert(cls, name: str, tensor: Tensor) -> Tensor:
        """A released tensor as the model stores it."""
        return tensor

    @classmethod
    def read(cls: type[Self], source: Path) -> Self:
        """Check names and shapes of all tensors of a folder as released, or of one file. Reads no weights."""
        weights = open_experts(source)
        return cls(source, weights, {name: cls._config(opened, name) for name, opened in weights.items()})

    def require_base(self, model: str | Path, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse a pipeline whose other parts are not this model's. configs: as read_configs reads them."""
        pipeline, own = configs[""], self.configs["transformer"]
        if family_of_config(pipeline) is not WAN:
            raise SightlineError(
                f"model {str(model)!r} is a {pipeline['_class_name']} and the camera model {self.source} is a Wan transformer: "
                f"expected {self.base} as the model."
            )
        image_encoder = pipeline.get("image_encoder") or [None]
        found = {
            "experts": 2 if "transformer_2" in configs else 1,
            "latent channels": configs["vae"].get("z_dim"),
            "timesteps per token": bool(pipeline.get("expand_timesteps")),
            "text channels": configs["text_encoder"].get("d_model"),
            "an image encoder": image_encoder[0] is not None,
        }
        has_clip, two = own["image_dim"] is not None, len(self.configs) == 2
        needed = {
            "experts": len(self.configs),
            "latent channels": own["out_channels"],
            "timesteps per token": not has_clip and not two,
            "text channels": own["text_dim"],
            "an image encoder": has_clip or found["an image encoder"],  # an unused one does no harm
        }
        for what, expected in needed.items():
            if found[what] != expected:
                raise SightlineError(
                    f"model {str(model)!r} has {what} {found[what]} and the camera model {self.source} needs {expected}: "
                    f"expected {self.base} as the model."
                )

    def load(self, component: str, dtype: torch.dtype) -> CameraWanTransformer3DModel:
        """One expert with its weights, on the CPU."""
        model = self._empty(self.configs[component])
        state = {}
        for name, tensor in self.weights[component].tensors():
            target = self.target(name)
            assert target is not None
            is_float32 = any(part in target for part in model._keep_in_fp32_modules)
            state[target] = self.convert(name, tensor).to(torch.float32 if is_float32 else dtype)
        model.load_state_dict(state, assign=True)
        model.compute_buffers(model)
        return model.eval()

    @classmethod
    def _empty(cls, config: Mapping[str, Any]) -> CameraWanTransformer3DModel:
        with torch.device("meta"):
            return cls.transformer_class.from_config(dict(config))

    @classmethod
    def _config(cls, weights: ReleasedWeights, component: str) -> dict[str, Any]:
        """The model's configuration; refuses tensors that it would lack, miss or hold in another shape."""
        source, shapes = weights.source, weights.shapes
        if not is_wan(shapes):
            raise SightlineError(
                f"camera {source} holds no Wan transformer under Wan's own names (such as patch_embedding.weight): expected "
                f"the weights of {cls.family}."
            )
        if cls.marker not in shapes:
            raise SightlineError(
                f"camera {source} is a Wan transformer without {cls.marker}: expected the weights of {cls.family}."
            )
        config = wan_config(shapes, _num_heads(source, shapes))
        config |= {"encoding": cls.encoding(source, shapes, config).to_config(), "component": component}
        cls._require_fitting(source, shapes, config)
        return config

    @classmethod
    def _require_fitting(cls, source: Path, shapes: Shapes, config: dict[str, Any]) -> None:
        expected = {name: tuple(tensor.shape) for name, tensor in cls._empty(config).state_dict().items()}
        found = {name: (cls.target(name), cls.target_shape(name, shape)) for name, shape in shapes.items()}
        require_same_tensors(source, found, expected, cls.family)


def open_experts(source: Path) -> dict[str, ReleasedWeights]:
    """The headers of one transformer, or of both experts of a release, by diffusers' component."""
    places = expert_places(source)
    if missing := [place for place in places.values() if not place.exists()]:
        raise SightlineError(f"camera {source} lacks {missing[0].name}, the other expert: expected both experts.")
    places = places or {"transformer": source}
    return {name: ReleasedWeights.open(place) for name, place in places.items()}


def _num_heads(source: Path, shapes: Shapes) -> int | None:
    """As config.json states it, which must be that of these weights; None for a single file, which has none beside it."""
    if source.is_file():
        return None
    config = read_json(source / "config.json", "that of a released camera model")
    dim = shapes["patch_embedding.weight"][0]
    heads = config.get("num_heads")
    if config.get("dim") != dim or not isinstance(heads, int) or heads < 1 or dim % heads:
        raise SightlineError(
            f"{source / 'config.json'} has dim {config.get('dim')} and num_heads {heads}: expected dim {dim}, that of the "
            "weights beside it, and a number of heads that divides it."
        )
    return heads
