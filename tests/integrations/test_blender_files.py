"""The parts of the Blender add-on that need no Blender: its files are those of the package, its lens is Blender's."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

from sightline.cameras import defaults
from sightline.cameras.formats import sightline_json
from sightline.cameras.trajectory import Trajectory
from tests.conftest import random_trajectory

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "integrations/blender"))
camera_path = importlib.import_module("sightline_camera.camera_path")
blender_lens = importlib.import_module("sightline_camera.lens")
path_files = importlib.import_module("sightline_camera.path_files")


def as_path(trajectory: Trajectory):
    return camera_path.CameraPath(
        trajectory.camera_to_world.tolist(),
        trajectory.intrinsics.tolist(),
        trajectory.width,
        trajectory.height,
        trajectory.fps,
        trajectory.unit,
        trajectory.near_depth,
    )


@pytest.fixture
def trajectory():
    return random_trajectory(5).replace(unit="metre", near_depth=0.5, fps=23.976)


@pytest.mark.filterwarnings("ignore:.*square pixels")
@pytest.mark.parametrize("zoom", [False, True])
@pytest.mark.parametrize("format", ["sightline", "nerfstudio-path"])
def test_a_file_is_byte_for_byte_that_of_the_package(tmp_path, trajectory, format, zoom):
    if zoom:
        factor = torch.linspace(1, 2, len(trajectory), dtype=torch.float64)[:, None, None]
        lens = trajectory.intrinsics.clone()
        lens[:, :2, :2] *= factor
        trajectory = trajectory.replace(intrinsics=lens)
    trajectory.save(tmp_path / "package.json", format=format)
    path_files.write(as_path(trajectory), tmp_path / "add_on.json", format)
    assert (tmp_path / "add_on.json").read_bytes() == (tmp_path / "package.json").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["add_on.json", "package.json"]


@pytest.mark.filterwarnings("ignore:.*square pixels")
@pytest.mark.parametrize("format", ["sightline", "nerfstudio-path"])
def test_a_file_of_the_package_is_read(tmp_path, trajectory, format):
    trajectory.save(tmp_path / "path.json", format=format)
    expected, path = Trajectory.load(tmp_path / "path.json"), path_files.read(tmp_path / "path.json")
    assert torch.equal(torch.tensor(path.camera_to_world, dtype=torch.float64), expected.camera_to_world)
    assert torch.equal(torch.tensor(path.intrinsics, dtype=torch.float64), expected.intrinsics)
    assert (path.width, path.height, path.fps, path.unit, path.near_depth) == (
        expected.width,
        expected.height,
        expected.fps,
        expected.unit,
        expected.near_depth,
    )


def test_the_constants_are_those_of_the_package():
    assert path_files.CONVENTIONS == sightline_json._CONVENTIONS
    assert (path_files.SCHEMA, path_files.VERSION) == (sightline_json.SCHEMA, sightline_json.VERSION)
    assert path_files.DEFAULT_FPS == defaults.FPS


def test_the_lens_of_blenders_manual():
    """50 mm on 36 mm, 1920 x 1080: fx = 1920 * 50 / 36. AUTO fits an upright picture by its height."""
    lens = blender_lens.BlenderLens(50.0, sensor_fit="AUTO")
    wide = blender_lens.intrinsics_from_lens(lens, blender_lens.BlenderImage(1920, 1080))
    assert wide == [[1920 * 50 / 36, 0, 960], [0, 1920 * 50 / 36, 540], [0, 0, 1]]
    upright = blender_lens.intrinsics_from_lens(lens, blender_lens.BlenderImage(1080, 1920))
    assert upright == [[1920 * 50 / 36, 0, 540], [0, 1920 * 50 / 36, 960], [0, 0, 1]]


@pytest.mark.parametrize("aspect", [(1.0, 1.0), (1.5, 1.0), (1.0, 1.25)])
@pytest.mark.parametrize("size", [(1280, 720), (480, 832)])
def test_a_lens_survives_the_way_through_blender(size, aspect):
    width, height = size
    fx, fy = 700.0 * aspect[1], 700.0 * aspect[0]
    intrinsics = [[fx, 0.0, width / 2 + 30], [0.0, fy, height / 2 - 20], [0.0, 0.0, 1.0]]
    image = blender_lens.image_from_intrinsics([intrinsics], width, height)
    assert (image.pixel_aspect_x, image.pixel_aspect_y) == pytest.approx(aspect)
    back = blender_lens.intrinsics_from_lens(blender_lens.lens_from_intrinsics(intrinsics, image), image)
    assert [value for row in back for value in row] == pytest.approx([value for row in intrinsics for value in row])


def test_what_camera_path_json_cannot_carry_is_named(trajectory):
    lens = torch.tensor([[200.0, 0, 70], [0, 100.0, 50], [0, 0, 1]])
    path = as_path(trajectory.replace(intrinsics=lens, width=128, height=96))
    expected = "camera_path.json cannot carry the pixel aspect and the lens shift, which is left out."
    assert path_files.lost_in_nerfstudio(path) == expected


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"xi": 0.5}, "found xi = 0.5, expected 0, because Blender's perspective camera is a pinhole."),
        ({"version": 2}, "found version 2, expected 1."),
        ({"fps": 0.0}, "fps is 0.0: expected a number above 0."),
        ({"fps": 10**400}, "as fps, expected a finite number."),
        ({"width": 12.5}, "found 12.5 as width, expected a whole number from 1 to 65536."),
        ({"unit": 3}, "found 3 as unit, expected a word."),
        ({"camera_to_world": []}, "found [] as camera_to_world, expected a list of frames."),
        (
            {"camera_to_world": [[[2.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]] * 5},
            "is not a rigid motion",
        ),
        ({"camera_to_world": [[[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]]}, "has 1 poses and 5 lenses"),
        ({"intrinsics": [[0.0, 0, 1], [0, 1, 1], [0, 0, 1]]}, "have focal lengths (0, 1): expected positive pixels."),
        ({"schema": "other"}, "found neither kind of path, expected sightline json or nerfstudio's camera_path.json."),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_name(tmp_path, trajectory, change, sentence):
    file = tmp_path / "path.json"
    trajectory.save(file)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(camera_path.CameraPathError) as caught:
        path_files.read(file)
    assert str(caught.value).startswith(f"{file}: ") and sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, None])
def test_what_is_no_json_is_refused(tmp_path, content):
    file = tmp_path / "path.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(camera_path.CameraPathError, match=r"expected (a )?JSON"):
        path_files.read(file)


def test_a_lens_that_blender_cannot_have_is_refused():
    image = blender_lens.BlenderImage(832, 480)
    with pytest.raises(camera_path.CameraPathError, match="expected at least 1 mm, the shortest that Blender has"):
        blender_lens.lens_from_intrinsics([[10.0, 0, 416], [0, 10.0, 240], [0, 0, 1]], image)
    lenses = [[[focal, 0, 416], [0, 700.0, 240], [0, 0, 1]] for focal in (700.0, 710.0)]
    with pytest.raises(camera_path.CameraPathError, match="one pixel aspect for the whole scene"):
        blender_lens.image_from_intrinsics(lenses, 832, 480)
