"""Cameras and references shared by the tests of encodings, written out slowly in float64 and without the package's help."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from tests.conftest import random_poses, random_trajectory

GRID = (2, 2, 3)  # latent frames, rows, columns
TOKENS = 12
DIM, HEADS, HEAD = 48, 2, 24
WIDTH, HEIGHT = 48, 32


def trajectory(seed: int = 0, **fields: Any) -> Trajectory:
    """Five raw frames with arbitrary poses and a lens of their own each."""
    return random_trajectory(5, seed, width=WIDTH, height=HEIGHT, **fields)


def moved(trajectory: Trajectory, motion: Tensor) -> Trajectory:
    """The whole world, cameras included, moved rigidly."""
    return Trajectory(
        motion @ trajectory.camera_to_world, trajectory.intrinsics, trajectory.width, trajectory.height, trajectory.xi
    )


def motions() -> list[Tensor]:
    return list(random_poses(3, seed=9))


def upright_motion() -> Tensor:
    """A turn about the vertical and a shift: what leaves up where it was."""
    motion = torch.eye(4, dtype=torch.float64)
    motion[0, 0] = motion[2, 2] = math.cos(0.8)
    motion[0, 2], motion[2, 0] = math.sin(0.8), -math.sin(0.8)
    motion[:3, 3] = torch.tensor([0.3, -1.0, 2.0])
    return motion


def raw_frames(latent: int) -> list[int]:
    return [0, 0, 0, 0] if latent == 0 else [4 * latent - 3, 4 * latent - 2, 4 * latent - 1, 4 * latent]


def lens_of(trajectory: Trajectory, frame: int) -> list[float]:
    k = trajectory.intrinsics[frame]
    return [
        float(k[0, 0]) / trajectory.width,
        float(k[1, 1]) / trajectory.height,
        float(k[0, 2]) / trajectory.width - 0.5,
        float(k[1, 2]) / trajectory.height - 0.5,
    ]


def world_to_camera(trajectory: Trajectory, frame: int) -> Tensor:  # [4, 4]
    return torch.linalg.inv(trajectory.camera_to_world[frame])


def ray_through(trajectory: Trajectory, frame: int, x: float, y: float) -> tuple[Tensor, Tensor]:
    """Direction and moment, in the world, of the ray through a pixel; pinhole or unified camera."""
    k, pose, xi = trajectory.intrinsics[frame], trajectory.camera_to_world[frame], trajectory.xi
    a, b = (x - float(k[0, 2])) / float(k[0, 0]), (y - float(k[1, 2])) / float(k[1, 1])
    rr = a * a + b * b
    eta = (xi + math.sqrt(1 + (1 - xi * xi) * rr)) / (1 + rr)
    direction = pose[:3, :3] @ torch.tensor([eta * a, eta * b, eta - xi], dtype=torch.float64)
    return direction, torch.linalg.cross(pose[:3, 3], direction)


def place(token: int) -> tuple[int, int, int]:
    """Latent frame, row and column of a token."""
    return token // (GRID[1] * GRID[2]), token // GRID[2] % GRID[1], token % GRID[2]


def rows(trajectory: Trajectory) -> Tensor:  # -> [1, 12, 90] float64
    """The packed rows of a trajectory, in its own world, token by token."""
    packed = []
    for token in range(TOKENS):
        latent, row, column = place(token)
        frame = 4 * latent
        direction, moment = ray_through(
            trajectory, frame, (column + 0.5) * WIDTH / GRID[2], (row + 0.5) * HEIGHT / GRID[1]
        )
        values = [*direction, *moment, *world_to_camera(trajectory, frame)[:3].flatten(), *lens_of(trajectory, frame)]
        values += [0.0, trajectory.xi, row, column]
        for raw in raw_frames(latent):
            values += [*world_to_camera(trajectory, raw)[:3].flatten(), *lens_of(trajectory, raw)]
        packed.append([float(value) for value in values])
    return torch.tensor(packed, dtype=torch.float64)[None]


def lifted(lens: list[float]) -> Tensor:  # -> [4, 4]
    fx, fy, cx, cy = lens
    return torch.tensor([[fx, 0, cx, 0], [0, fy, cy, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.float64)


def turn(angle: float) -> Tensor:  # [2, 2]
    return torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)


def softmax_attention(query: Tensor, key: Tensor, value: Tensor, scale: float | None = None) -> Tensor:
    """[B, N, H, D] x3, entry by entry; what a layer is handed as `attend`."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    weight = torch.softmax(torch.einsum("bnhd,bmhd->bhnm", query, key) * scale, dim=-1)
    return torch.einsum("bhnm,bmhd->bnhd", weight, value)


def logits(query: Tensor, key: Tensor) -> Tensor:  # [B, N, H, D] x2 -> [B, H, N, N]
    return torch.einsum("bnhd,bmhd->bhnm", query, key)


def content(seed: int = 0, count: int = 3, width: int = HEAD, heads: int = HEADS) -> list[Tensor]:
    """Random query, key and value (or more), [1, N, H, D] float64."""
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, 1, TOKENS, heads, width, generator=generator, dtype=torch.float64).unbind(0))


def trained(encoding: Any, seed: int = 0, dim: int = DIM, heads: int = HEADS) -> Any:
    """A layer with weights as after training, in float64."""
    torch.manual_seed(seed)
    layer = encoding.layer(dim, heads).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


def gradcheck_layer(layer: Any, call: Any, *inputs: Tensor) -> bool:
    """Gradcheck of call(layer, *inputs) in every parameter of the layer and every input."""
    names = [name for name, _ in layer.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in layer.parameters()]
    inputs = tuple(value.detach().clone().requires_grad_() for value in inputs)

    def function(*everything: Tensor) -> Any:
        parameters, tensors = everything[: len(names)], everything[len(names) :]

        def stage(name: str, *args: Any) -> Any:
            return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (name, *args))

        return call(stage, *tensors)

    return torch.autograd.gradcheck(function, (*values, *inputs), fast_mode=True)
