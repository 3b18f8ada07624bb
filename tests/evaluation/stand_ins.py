"""Plain twins of pose_errors and Hints, used only where the real ones are not installed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch


@dataclass
class Hints:
    lens: Any = None
    depth: Any = None
    name: str | None = None


def pose_errors(estimated: Any, reference: Any, alignment: str = "raw") -> Any:
    """By the definitions, frame by frame."""
    one, other = estimated.anchored().camera_to_world, reference.anchored().camera_to_world
    largest = [path[:, :3, 3].norm(dim=-1).max().clamp_min(1e-12) for path in (one, other)]
    sizes = {"raw": (1.0, 1.0), "rescaled": tuple(largest), "gt_scaled": (largest[1], largest[1])}[alignment]
    apart = one[:, :3, 3] / sizes[0] - other[:, :3, 3] / sizes[1]
    turn = one[:, :3, :3].mT @ other[:, :3, :3]
    angle = ((turn.diagonal(dim1=-2, dim2=-1).sum(-1) - 1) / 2).clamp(-1, 1).acos()
    distance = apart.norm(dim=-1)
    both = torch.sqrt(8 * torch.sin(angle / 2) ** 2 + distance**2)
    means = {"rot_err": angle.mean(), "trans_err": distance.mean(), "cam_mc": both.mean()}
    return SimpleNamespace(**means, ate=distance.square().mean().sqrt(), rotation=angle, translation=distance)


def install() -> None:
    for name, content in (("pose_errors", {"pose_errors": pose_errors}), ("estimators", {"Hints": Hints})):
        full = f"sightline.evaluation.{name}"
        if full not in sys.modules and find_spec(full) is None:
            module = ModuleType(full)
            module.__dict__.update(content)
            sys.modules[full] = module
