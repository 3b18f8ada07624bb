"""Takes to write out: smooth pictures that move, and a camera that turns and travels in all directions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.cameras import lens, se3
from sightline.cameras.trajectory import Trajectory
from tests.data.layouts import Take

WIDTH, HEIGHT = 96, 54


def make_take(name: str = "take", frames: int = 9, seed: int = 0, width: int = WIDTH, height: int = HEIGHT) -> Take:
    """Every frame differs from every other, smoothly enough for a video codec."""
    generator = torch.Generator().manual_seed(seed)
    start, swing = torch.rand(2, 3, generator=generator, dtype=torch.float64)
    at = torch.linspace(0, 1, frames, dtype=torch.float64)
    turn = se3.axis_rotation("y", 0.7 * swing[0] + at * math.radians(25)) @ se3.axis_rotation("x", at * swing[1])
    poses = se3.from_parts(turn, start + at[:, None] * (swing + torch.tensor([0.2, -0.4, 1.0])))
    intrinsics = lens.intrinsics_matrix(
        *torch.tensor([0.8 * width, 0.8 * width, width / 2, height / 2], dtype=torch.float64)
    )
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    pictures = []
    for frame in range(frames):
        phase = frame / frames
        colour = [0.5 + 0.4 * np.sin(6 * (x + phase)), 0.5 + 0.4 * np.cos(5 * (y - phase)), 0.2 + 0.6 * phase + 0 * x]
        pictures.append(np.rint(255 * np.stack(colour, -1)).astype(np.uint8))
    return Take(np.stack(pictures), Trajectory(poses, intrinsics, width, height), name=name)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny TI2V-5B on disk."""
    folder = tmp_path_factory.mktemp("model")
    tiny_pipeline("ti2v-5b").save_pretrained(folder)
    return folder
