"""Sightline: camera control for video diffusion transformers.

import sightline as sl

pipe = sl.load_pipeline("Wan-AI/Wan2.2-TI2V-5B-Diffusers", camera="path/to/scope")
trajectory = sl.moves.orbit(degrees=30, target_depth=2.0, frames=81)
video = sl.generate(pipe, "first.png", "a quiet kitchen", trajectory)
sl.save_video(video, "out.mp4")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sightline.errors import SightlineError

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sightline import encodings, evaluation, figures
    from sightline.backbones import inspect
    from sightline.backbones.accelerate import accelerate
    from sightline.backbones.attach import attach_camera, save_pipeline_camera
    from sightline.backbones.camera_weights import load_camera, save_camera
    from sightline.backbones.models import add_camera
    from sightline.backbones.pipelines import load_pipeline
    from sightline.backbones.speed import set_speed
    from sightline.backbones.wan import CameraWanTransformer3DModel
    from sightline.cameras import lens, moves, plucker, se3
    from sightline.cameras.tokens import CameraTokens
    from sightline.cameras.trajectory import Trajectory
    from sightline.encodings import Scope
    from sightline.evaluation.evaluate import evaluate
    from sightline.generation.first_frame import FIRST_FRAME
    from sightline.generation.generate import camera_tokens, generate
    from sightline.video import save_video

# The module of each public name. It is imported on first use, so that `sightline --help` and `sl.moves` need no diffusers.
_MODULES = {
    "encodings": "sightline.encodings",
    "evaluation": "sightline.evaluation",
    "figures": "sightline.figures",
    "inspect": "sightline.backbones.inspect",
    "lens": "sightline.cameras.lens",
    "moves": "sightline.cameras.moves",
    "plucker": "sightline.cameras.plucker",
    "se3": "sightline.cameras.se3",
}
_NAMES = {
    "accelerate": "sightline.backbones.accelerate",
    "add_camera": "sightline.backbones.models",
    "load_camera": "sightline.backbones.camera_weights",
    "save_camera": "sightline.backbones.camera_weights",
    "CameraWanTransformer3DModel": "sightline.backbones.wan",
    "CameraTokens": "sightline.cameras.tokens",
    "Trajectory": "sightline.cameras.trajectory",
    "Scope": "sightline.encodings",
    "camera_tokens": "sightline.generation.generate",
    "evaluate": "sightline.evaluation.evaluate",
    "generate": "sightline.generation.generate",
    "FIRST_FRAME": "sightline.generation.first_frame",
    "attach_camera": "sightline.backbones.attach",
    "load_pipeline": "sightline.backbones.pipelines",
    "save_pipeline_camera": "sightline.backbones.attach",
    "set_speed": "sightline.backbones.speed",
    "save_video": "sightline.video",
}

__all__ = [
    "FIRST_FRAME",
    "CameraTokens",
    "CameraWanTransformer3DModel",
    "Scope",
    "SightlineError",
    "Trajectory",
    "accelerate",
    "add_camera",
    "attach_camera",
    "camera_tokens",
    "encodings",
    "evaluate",
    "evaluation",
    "figures",
    "generate",
    "inspect",
    "lens",
    "load_camera",
    "load_pipeline",
    "moves",
    "plucker",
    "save_camera",
    "save_pipeline_camera",
    "save_video",
    "se3",
    "set_speed",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    else:
        raise AttributeError(f"module 'sightline' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
