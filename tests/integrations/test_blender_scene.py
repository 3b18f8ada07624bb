"""The Blender add-on inside Blender (the module bpy), without a window and without sightline beside it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sightline import moves
from sightline.cameras.trajectory import Trajectory
from tests.integrations.test_blender_files import blender_lens

# bpy needs an environment of its own (numpy below 2): SIGHTLINE_BLENDER_PYTHON names its interpreter.
PYTHON = os.environ.get("SIGHTLINE_BLENDER_PYTHON") or (sys.executable if importlib.util.find_spec("bpy") else None)

pytestmark = pytest.mark.skipif(
    PYTHON is None,
    reason="needs bpy: set SIGHTLINE_BLENDER_PYTHON to the Python of an environment with `pip install bpy`",
)


def paths() -> dict[str, Trajectory]:
    orbit = moves.orbit(degrees=40, target_depth=3.0, frames=9, width=832, height=480).replace(fps=23.976)
    zoom = moves.zoom(from_mm=24, to_mm=60, frames=6, width=480, height=832)
    shifted = orbit.replace(
        intrinsics=torch.tensor([[900.0, 0, 400], [0, 700.0, 260], [0, 0, 1]], dtype=torch.float64),
        unit="metre",
        near_depth=0.75,
    )
    return {"orbit": orbit, "zoom": zoom, "shifted": shifted}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blender")
    for name, trajectory in paths().items():
        trajectory.save(folder / f"{name}.path.json")
    script = Path(__file__).with_name("blender_session.py")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [PYTHON, script, folder], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def report(folder):
    return json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("name", ["orbit", "zoom", "shifted"])
def test_a_path_survives_blender(folder, name):
    before, after = paths()[name], Trajectory.load(folder / f"{name}.sightline.json")
    assert (after.width, after.height, after.unit, after.near_depth) == (
        before.width,
        before.height,
        before.unit,
        before.near_depth,
    )
    assert (after.camera_to_world - before.camera_to_world).abs().max() < 1e-6
    assert (after.intrinsics - before.intrinsics).abs().max() / before.width < 1e-6
    assert after.fps == pytest.approx(before.fps, rel=1e-6)


@pytest.mark.parametrize("name", ["orbit", "zoom"])
def test_a_path_survives_blender_as_camera_path(folder, name):
    before, after = paths()[name], Trajectory.load(folder / f"{name}.nerfstudio-path.json")
    assert (after.camera_to_world - before.camera_to_world).abs().max() < 1e-6
    assert (after.intrinsics - before.intrinsics).abs().max() / before.width < 1e-6
    frames = json.loads((folder / f"{name}.nerfstudio-path.json").read_text())["camera_path"]
    assert {frame["aspect"] for frame in frames} == {before.width / before.height}


def test_a_scene_made_by_hand(folder, report):
    """Every second of 9 frames at 30 / 1.001 fps; half of 321 x 203 pixels, rounded down as Blender does; half metres."""
    trajectory = Trajectory.load(folder / "by_hand.json")
    assert (len(trajectory), trajectory.width, trajectory.height, trajectory.unit) == (5, 160, 101, "metre")
    assert report["centres"]["size"] == [160, 101]
    assert trajectory.fps == pytest.approx(30 / 1.001 / 2)
    image = blender_lens.BlenderImage(160, 101, 1.0, 1.3)
    lens = blender_lens.BlenderLens(48.0, 0.08, -0.05, "VERTICAL", sensor_height=20.0)
    expected = torch.tensor(blender_lens.intrinsics_from_lens(lens, image), dtype=torch.float64)
    assert torch.allclose(trajectory.intrinsics[-1], expected, rtol=1e-6)
    assert report["frame_after_export"] == 5
    in_scene_units = Trajectory.load(
        folder / "by_hand_path.json"
    )  # camera_path.json has no unit: the scene's numbers stay
    assert torch.allclose(in_scene_units.positions, 2 * trajectory.positions, atol=1e-6)


def test_a_rendered_frame_agrees_with_the_lens_model(folder, report):
    """Markers that Cycles renders in frame 5 are where the exported path projects them."""
    trajectory = Trajectory.load(folder / "by_hand.json")
    world = torch.tensor([[-0.6, 0.5, 0.4], [0.7, 1.0, -0.3], [0.1, -0.4, 0.1]], dtype=torch.float64)
    pose, lens = trajectory.world_to_camera[2], trajectory.intrinsics[2]
    metres = 0.5 * world  # the scene's unit is half a metre
    seen = metres @ pose[:3, :3].T + pose[:3, 3]
    pixels = seen @ lens.T
    pixels = pixels[:, :2] / pixels[:, 2:]
    rendered = torch.tensor([report["centres"][name] for name in ("red", "green", "blue")], dtype=torch.float64)
    assert ((rendered > 10) & (rendered < torch.tensor([150, 91]))).all()
    assert (pixels - rendered).abs().max() < 0.1, (pixels, rendered)


def test_a_path_can_start_at_the_active_camera(report):
    assert report["start_error"] < 1e-6


def test_what_cannot_be_exported_is_refused_in_one_sentence(folder, report):
    orthographic, missing = report["errors"]
    assert "has the type ORTHO in frame 1: expected PERSP, a perspective camera." in orthographic
    assert "has no active camera: expected one" in missing
    assert not (folder / "refused.json").exists()
