"""The stages of a self-attention layer, and the base of every method that lets a camera touch some of them.

    (embed ->) input -> project -> normalise -> rotate -> inject -> attend -> output

A method overrides the stages it changes and no others; an attention processor calls them in this order. Projection and
normalisation stay the pretrained layer's own. What is not overridden is the pretrained layer itself, bit for bit.
`embed` comes once per call, before the first block, and only the first layer is asked for it.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.errors import SightlineError

STAGES = ("embed", "input", "rotate", "inject", "attend", "output")


class Attend(Protocol):
    """The backbone's attention, with its backend and its context parallelism: the only one a method may use."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None = None) -> Tensor:
        """[B, N, H, D] x3 -> [B, N, H, D]; scale None is 1 / sqrt(D)."""


class Layer(NamedTuple):
    """What a method's output stage may look back at."""

    hidden: Tensor  # [B, N, dim] as the layer received it
    query: Tensor  # [B, N, H, D] normalised, before RoPE
    key: Tensor  # [B, N, H, D] normalised, before RoPE
    value: Tensor  # [B, N, H, D]
    attend: Attend


class EncodingLayer(nn.Module):
    """One layer's share of a camera method. `camera` is always the packed rows of CameraTokens, [B or 1, N, 90] float32.

    The stages run through `forward`, by name: sharding and offloading load a module's weights when it is called, and
    a plain method call would slip past them. For the same reason every weight is a parameter of the layer itself.
    touches: the stages that are called. All that a class overrides, unless an instance's settings leave some out.
    fuses: whether `fused` can stand for normalise, rotate and inject in one.
    looks_back: whether the output stage looks at the query and key before RoPE, which a fused path never has.
    """

    touches: frozenset[str] = frozenset()
    fuses: bool = False
    looks_back: bool = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.touches = frozenset(stage for stage in STAGES if getattr(cls, stage) is not getattr(EncodingLayer, stage))

    def forward(self, stage: str, *tensors: Any) -> Any:
        return getattr(self, stage)(*tensors)

    def add_parameter(self, name: str, *shape: int) -> None:
        """A new, unfilled parameter: float32 whatever the default dtype is, and never a scalar, which sharding refuses."""
        self.register_parameter(name, nn.Parameter(torch.empty(shape, dtype=torch.float32)))

    def add_linear(self, name: str, outputs: int, inputs: int) -> None:
        """The weight and bias of a linear layer, `name_weight` and `name_bias`."""
        self.add_parameter(f"{name}_weight", outputs, inputs)
        self.add_parameter(f"{name}_bias", outputs)

    def reset_parameters(self) -> None:
        """Give every parameter its starting value. On the meta device there is nothing to fill: a loader does it later."""
        if not any(parameter.is_meta for parameter in self.parameters()):
            with torch.no_grad():
                self.start()

    def start(self) -> None:
        """Fill the parameters."""

    def figures(self) -> dict[str, float]:
        """What is worth watching during training, by name. Called as a stage, so that sharded weights are whole."""
        return {}

    def embed(self, camera_rows: Tensor, grid: tuple[int, int, int]) -> tuple[Tensor | None, Tensor]:
        """Before the first block; returns what is added to the embedded tokens [B, N, dim] (or None), and the rows that
        travel on to the layers: the camera's, and whatever the method appends to them."""
        raise NotImplementedError

    def input(self, hidden: Tensor, camera_rows: Tensor) -> Tensor:  # [B, N, dim] -> [B, N, dim]
        """Before the projections."""
        raise NotImplementedError

    def rotate(
        self, query: Tensor, key: Tensor, value: Tensor, rotary: tuple[Tensor, Tensor], camera_rows: Tensor
    ) -> Any:
        """In place of RoPE; returns query, key, value, each [B, N, H, D]."""
        raise NotImplementedError

    def inject(self, query: Tensor, key: Tensor, value: Tensor, camera_rows: Tensor) -> Any:
        """After RoPE; returns query, key, value, each [B, N, H, D]."""
        raise NotImplementedError

    def fused(
        self,
        query: Tensor,  # [B, N, dim] as projected
        key: Tensor,  # [B, N, dim]
        norms: tuple[Tensor, Tensor],  # 2 x [dim], QKNorm's weights
        eps: float,  # QKNorm's
        rotary: tuple[Tensor, Tensor],  # 2 x [1, N, 1, D]
        camera_rows: Tensor,
    ) -> tuple[Tensor, Tensor]:  # 2 x [B, N, dim]
        """Normalise, rotate and inject in one kernel, where the layer `fuses`; equal to the stages up to rounding."""
        raise NotImplementedError

    def attend(self, query: Tensor, key: Tensor, value: Tensor, attend: Attend, camera_rows: Tensor) -> Tensor:
        """Around the attention itself; returns [B, N, H, D]."""
        raise NotImplementedError

    def output(self, output: Tensor, layer: Layer, camera_rows: Tensor) -> Tensor:  # [B, N, dim] -> [B, N, dim]
        """After the output projection."""
        raise NotImplementedError


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b. Weights follow the activations: a model cast to bf16 as a whole still computes its rays in float32."""
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def start_linear(weight: Tensor, bias: Tensor) -> None:
    """torch's own start of a Linear or convolution."""
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
    bound = 1 / math.sqrt(weight[0].numel())
    nn.init.uniform_(bias, -bound, bound)


@dataclasses.dataclass(frozen=True)
class Encoding(ABC):
    """A camera method's settings. Plain values only, so that they live in a model's config.json and in a recipe."""

    name: ClassVar[str]
    starting_values: ClassVar[tuple[str, ...]] = ()  # settings that decide where training starts, and nothing after it

    @abstractmethod
    def layer(self, dim: int, heads: int) -> EncodingLayer:
        """The module that one self-attention layer of this width gets."""

    def layers(self, dim: int, heads: int, count: int) -> list[EncodingLayer]:
        """The modules of all self-attention layers, first to last."""
        return [self.layer(dim, heads) for _ in range(count)]

    def to_config(self) -> dict[str, Any]:
        return {"name": self.name, **dataclasses.asdict(self)}

    def computes_as(self, other: Encoding) -> bool:
        """Whether weights trained for one fit the other: equal up to starting values."""
        mine, theirs = ({**one.to_config(), **dict.fromkeys(one.starting_values)} for one in (self, other))
        return mine == theirs

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Encoding:
        """The settings back from `to_config`; a setting this version does not know is refused by name."""
        settings = {key: value for key, value in config.items() if key != "name"}
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(settings) - known)
        if unknown:
            raise SightlineError(
                f"encoding {cls.name!r} has the unknown setting {unknown[0]!r}: expected {sorted(known)}."
            )
        return cls(**settings)
