"""An encoding defined outside the package: a learned projection of the token's ray, added to the input of self-attention.
In other processes `SIGHTLINE_PLUGINS=examples/06_add_an_encoding.py sightline train debug --model.encoding.name ray_input`."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
import tyro
from torch import Tensor

import sightline as sl
from sightline.backbones.tiny import tiny_transformer
from sightline.cameras.tokens import RAY


@sl.encodings.register
@dataclass(frozen=True)
class RayInput(sl.encodings.Encoding):
    name: ClassVar[str] = "ray_input"
    scale: float = 1.0  # a setting, which recipes and the command line can change

    def layer(self, dim: int, heads: int) -> sl.encodings.EncodingLayer:
        return RayInputLayer(self.scale, dim)


class RayInputLayer(sl.encodings.EncodingLayer):
    weight: Tensor  # [dim, 6]

    def __init__(self, scale: float, dim: int) -> None:
        super().__init__()
        self.scale = scale
        self.add_parameter("weight", dim, 6)
        self.reset_parameters()

    def init_weights(self) -> None:
        self.weight.zero_()  # the model starts as its base

    def input(self, hidden: Tensor, camera_rows: Tensor) -> Tensor:  # one of the stages of encodings/protocol.py
        return (hidden + self.scale * sl.encodings.linear(camera_rows[..., RAY], self.weight)).to(hidden.dtype)


def main(output: Path = Path("outputs/own_encoding"), steps: int = 2) -> None:
    base, (latents, target) = tiny_transformer("ti2v-5b"), torch.randn(2, 1, 48, 3, 8, 8)
    inputs = {"hidden_states": latents, "timestep": torch.tensor([500]), "encoder_hidden_states": torch.randn(1, 7, 32)}
    tokens = sl.CameraTokens.from_trajectory(sl.moves.truck(0.5, frames=9, width=128, height=128), grid=(3, 4, 4))
    model = sl.CameraWanTransformer3DModel.from_transformer(base, RayInput(scale=0.5))
    optimizer = torch.optim.SGD(model.camera_parameters(), lr=10.0)
    for _ in range(steps):
        predicted = model(**inputs, attention_kwargs={"camera": tokens}).sample
        print("the same as the base model:", torch.equal(predicted, base(**inputs).sample))
        optimizer.zero_grad()
        (predicted - target).square().mean().backward()
        optimizer.step()
    sl.save_camera(model, output / "camera.safetensors")
    print("saved and loaded", sl.load_camera(base, output / "camera.safetensors").encoding)


if __name__ == "__main__":
    tyro.cli(main)
