"""The stages of a self-attention layer, and the base of every method that lets a camera touch some of them.

    input -> project -> normalise -> rotate -> inject -> attend -> output

A method overrides the stages it changes and no others; an attention processor calls them in this order. Projection and
normalisation stay the pretrained layer's own. What is not overridden is the pretrained layer itself, bit for bit.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from sightline.errors import SightlineError

STAGES = ("input", "rotate", "inject", "attend", "output")

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # query, key, value [B, N, H, D] -> [B, N, H, D]


class Layer(NamedTuple):
    """What a method's output stage may look back at."""

    hidden: Tensor  # [B, N, dim] as the layer received it
    query: Tensor  # [B, N, H, D] normalised, before RoPE
    key: Tensor  # [B, N, H, D] normalised, before RoPE
    value: Tensor  # [B, N, H, D]
    attend: Attend


class CameraLayer(nn.Module):
    """One layer's share of a camera method. `camera` is always the packed rows of CameraTokens, [B or 1, N, 23] float32.

    The stages run through `forward`, by name: sharding and offloading load a module's weights when it is called, and
    a plain method call would slip past them.
    """

    touches: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.touches = frozenset(stage for stage in STAGES if getattr(cls, stage) is not getattr(CameraLayer, stage))

    def forward(self, stage: str, *tensors: Any) -> Any:
        return getattr(self, stage)(*tensors)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        promote_scalars(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def input(self, hidden: Tensor, camera: Tensor) -> Tensor:  # [B, N, dim] -> [B, N, dim]
        """Before the projections."""
        raise NotImplementedError

    def rotate(self, query: Tensor, key: Tensor, value: Tensor, rotary: tuple[Tensor, Tensor], camera: Tensor) -> Any:
        """In place of RoPE; returns query, key, value, each [B, N, H, D]."""
        raise NotImplementedError

    def inject(self, query: Tensor, key: Tensor, value: Tensor, camera: Tensor) -> Any:
        """After RoPE; returns query, key, value, each [B, N, H, D]."""
        raise NotImplementedError

    def attend(self, query: Tensor, key: Tensor, value: Tensor, attend: Attend, camera: Tensor) -> Tensor:
        """Around the attention itself; returns [B, N, H, D]."""
        raise NotImplementedError

    def output(self, output: Tensor, layer: Layer, camera: Tensor) -> Tensor:  # [B, N, dim] -> [B, N, dim]
        """After the output projection."""
        raise NotImplementedError


def promote_scalars(state_dict: dict[str, Tensor], prefix: str = "") -> dict[str, Tensor]:
    """Give 0-dim tensors one dimension, in place: checkpoints of an earlier form hold their alphas as scalars."""
    for name, tensor in state_dict.items():
        if tensor.ndim == 0 and name.startswith(prefix):
            state_dict[name] = tensor.reshape(1)
    return state_dict


@dataclasses.dataclass(frozen=True)
class Encoding(ABC):
    """A camera method's settings. Plain values only, so that they live in a model's config.json and in a recipe."""

    name: ClassVar[str]
    starting_values: ClassVar[tuple[str, ...]] = ()  # settings that decide where training starts, and nothing after it

    @abstractmethod
    def layer(self, dim: int, heads: int) -> CameraLayer:
        """The module that one self-attention layer of this width gets."""

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
