"""The stages of a self-attention layer, and the base classes of every camera encoding.

    (embed ->) input -> project -> normalise -> rotate -> inject -> attend -> output

An encoding overrides the stages it changes. The attention processor calls them in this order; a stage that is not overridden
is the pretrained layer's own, bit for bit. Projection and normalisation always are the pretrained layer's. `embed` runs once
per call of the model, before the first block, and only the first layer's `embed` is called.

An encoding has two classes: an `Encoding` with its settings, which live in a model's config and in recipes, and an
`EncodingLayer` with the parameters of one self-attention layer. `registry.py` says how to add one from outside the package.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.errors import SightlineError
from sightline.settings import convert

STAGES = ("embed", "input", "rotate", "inject", "attend", "output")


class Attend(Protocol):
    """The backbone's attention, with its backend and its context parallelism. An encoding may use no other attention."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None = None) -> Tensor:
        """[B, N, H, D] x3 -> [B, N, H, D]. The scale is 1 / sqrt(D) where None."""


class AttentionState(NamedTuple):
    """The tensors of the self-attention layer that an encoding's output stage may use."""

    hidden: Tensor  # [B, N, dim], the layer's input
    query: Tensor  # [B, N, H, D], normalised, before RoPE
    key: Tensor  # [B, N, H, D], normalised, before RoPE
    value: Tensor  # [B, N, H, D]
    attend: Attend


class EncodingLayer(nn.Module):
    """An encoding's module in one self-attention layer. `camera_rows` are those of CameraTokens, [B or 1, N, 90] float32.

    Stages are called through `forward`, by name: sharding and offloading load a module's weights when the module is called,
    which a direct call of a method would bypass. For the same reason every weight is a parameter of the layer itself.

    stages: the stages that the processor calls. By default all that the class overrides; an instance may leave some out.
    has_fused: whether `fused` replaces normalise, rotate and inject.
    reads_query_key: whether the output stage reads `AttentionState.query` and `.key`, which do not exist in the fused path.
    """

    stages: frozenset[str] = frozenset()
    has_fused: bool = False
    reads_query_key: bool = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.stages = frozenset(stage for stage in STAGES if getattr(cls, stage) is not getattr(EncodingLayer, stage))

    def forward(self, stage: str, *arguments: Any) -> Any:
        return getattr(self, stage)(*arguments)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        promote_scalars(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def add_parameter(self, name: str, *shape: int) -> None:
        """Add an uninitialised float32 parameter. It needs at least one dimension, because sharding refuses scalars."""
        self.register_parameter(name, nn.Parameter(torch.empty(shape, dtype=torch.float32)))

    def add_linear(self, name: str, outputs: int, inputs: int) -> None:
        """Add the weight [outputs, inputs] and bias [outputs] of a linear layer as `name_weight` and `name_bias`."""
        self.add_parameter(f"{name}_weight", outputs, inputs)
        self.add_parameter(f"{name}_bias", outputs)

    def reset_parameters(self) -> None:
        """Initialise every parameter, except on the meta device, where a loader fills them later."""
        if not any(parameter.is_meta for parameter in self.parameters()):
            with torch.no_grad():
                self.init_weights()

    def init_weights(self) -> None:
        """Set the initial value of every parameter, in place."""

    def encode(self, camera_rows: Tensor) -> tuple[Tensor, ...]:
        """What an additive encoding adds to query and key, [B, N, H, D] each, in float32. Other encodings have no such thing."""
        raise NotImplementedError

    @property
    def is_additive(self) -> bool:
        """Whether the encoding adds something to query and key, so that attention scores split into four terms."""
        return type(self).encode is not EncodingLayer.encode

    def metrics(self) -> dict[str, float]:
        """Values to log during training, by name. Called like a stage, so that sharded weights are complete."""
        return {}

    def embed(self, camera_rows: Tensor, grid: tuple[int, int, int]) -> tuple[Tensor | None, Tensor]:
        """Before the first block. grid: latent frames, token rows, token columns.

        Returns what is added to the embedded tokens, [B, N, dim] or None, and the rows for the layers' stages: the camera
        rows, to which the encoding may append columns.
        """
        raise NotImplementedError

    def input(self, hidden: Tensor, camera_rows: Tensor) -> Tensor:  # [B, N, dim] -> [B, N, dim]
        """Before the projections."""
        raise NotImplementedError

    def rotate(
        self,
        query: Tensor,  # [B, N, H, D]
        key: Tensor,  # [B, N, H, D]
        value: Tensor,  # [B, N, H, D]
        rotary: tuple[Tensor, Tensor],  # cos and sin, [1, N, 1, D] each
        camera_rows: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """In place of RoPE. Returns query, key and value."""
        raise NotImplementedError

    def inject(self, query: Tensor, key: Tensor, value: Tensor, camera_rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """After RoPE. Takes and returns query, key and value, each [B, N, H, D]."""
        raise NotImplementedError

    def fused(
        self,
        query: Tensor,  # [B, N, dim] as projected
        key: Tensor,  # [B, N, dim] as projected
        norms: tuple[Tensor, Tensor],  # the weights of QKNorm, [dim] each
        eps: float,  # of QKNorm
        rotary: tuple[Tensor, Tensor],  # cos and sin, [1, N, 1, D] each
        camera_rows: Tensor,
    ) -> tuple[Tensor, Tensor]:  # [B, N, dim] x2
        """Normalise, rotate and inject in one kernel, where `has_fused`. Equal to the stages up to rounding."""
        raise NotImplementedError

    def attend(self, query: Tensor, key: Tensor, value: Tensor, attend: Attend, camera_rows: Tensor) -> Tensor:
        """In place of the attention. Query, key, value and the result are [B, N, H, D]."""
        raise NotImplementedError

    def output(self, output: Tensor, state: AttentionState, camera_rows: Tensor) -> Tensor:
        """After the output projection. Takes and returns [B, N, dim]."""
        raise NotImplementedError


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b in the dtype of x, so that a model cast to bfloat16 still computes its rays in float32."""
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def init_linear(weight: Tensor, bias: Tensor) -> None:
    """torch's own initialisation of a linear layer or convolution, in place."""
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
    bound = 1 / math.sqrt(weight[0].numel())
    nn.init.uniform_(bias, -bound, bound)


def promote_scalars(state_dict: dict[str, Tensor], prefix: str = "") -> dict[str, Tensor]:
    """Reshape 0-dim tensors to shape (1,), in place. Other implementations of SCoPE store their alphas as scalars."""
    for name, tensor in state_dict.items():
        if tensor.ndim == 0 and name.startswith(prefix):
            state_dict[name] = tensor.reshape(1)
    return state_dict


@dataclasses.dataclass(frozen=True)
class Encoding(ABC):
    """The settings of a camera encoding: a frozen dataclass of plain values, which go into config.json and recipes.

    name: by which recipes, configs and the bench know the encoding.
    initial_settings: the settings that only decide where training starts. Weights may be loaded where these differ.
    """

    name: ClassVar[str]
    initial_settings: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def layer(self, dim: int, heads: int) -> EncodingLayer:
        """The module for one self-attention layer of width `dim`."""

    def layers(self, dim: int, heads: int, count: int) -> list[EncodingLayer]:
        """The modules of all self-attention layers, first to last."""
        return [self.layer(dim, heads) for _ in range(count)]

    def to_config(self) -> dict[str, Any]:
        """The name and all settings, as json takes them."""
        return {"name": self.name, **dataclasses.asdict(self)}

    def computes_as(self, other: Encoding) -> bool:
        """Whether weights trained for one fit the other: all settings are equal, except the initial ones."""
        mine, theirs = (
            {**encoding.to_config(), **dict.fromkeys(encoding.initial_settings)} for encoding in (self, other)
        )
        return mine == theirs

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Encoding:
        """The inverse of `to_config`. Omitted settings take their default; unknown ones are refused by name."""
        settings = {key: value for key, value in config.items() if key != "name"}
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(settings) - known)
        if unknown:
            raise SightlineError(
                f"encoding {cls.name!r} has the unknown setting {unknown[0]!r}: expected {sorted(known)}."
            )
        hints = typing.get_type_hints(cls)
        settings = {key: convert(hints[key], value, key) for key, value in settings.items()}
        for key, value in settings.items():
            if isinstance(value, float) and abs(value) > torch.finfo(torch.float32).max:
                raise SightlineError(f"{key} is {value:g}: expected a number that float32 can hold.")
        return cls(**settings)
