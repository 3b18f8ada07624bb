"""The names a user may rely on. A change here is a change of the contract: say so in the CHANGELOG."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import sightline as sl

SURFACE = [
    "CameraTokens",
    "CameraWanTransformer3DModel",
    "FIRST_FRAME",
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


def test_the_public_surface_is_frozen():
    assert sorted(sl.__all__) == SURFACE
    assert set(SURFACE) <= set(dir(sl))
    for name in SURFACE:
        assert getattr(sl, name) is not None


def test_the_version_is_the_package_s():
    assert sl.__version__ == version("sightline")


def test_the_camera_room_needs_no_diffusion_library():
    code = (
        "import sys, sightline as sl; sl.moves.orbit(degrees=40, frames=9); "
        "assert not {'diffusers', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
