"""What is unlikely in a file is said, in one sentence; ordinary shots say nothing."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import moves, se3
from sightline.cameras.options import MoveOptions
from sightline.cameras.plausibility import implausible
from sightline.cameras.trajectory import Trajectory
from tests.cameras.formats.format_samples import random_trajectory

FLIP = torch.diag(torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64))
AWAY = se3.from_parts(torch.eye(3, dtype=torch.float64), torch.tensor([8.0, 1.0, -3.0], dtype=torch.float64))
Z_UP = se3.from_parts(  # camera right, down, forward = world x, -z, y
    torch.tensor([[1, 0, 0], [0, 0, 1], [0, -1, 0]], dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
)


def elsewhere(trajectory: Trajectory) -> Trajectory:
    """In a world whose origin is 8 units beside the camera, as most reconstructions have it."""
    return trajectory.replace(camera_to_world=AWAY @ trajectory.camera_to_world)


def load_with_warnings(path: Path, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Trajectory.load(path, **options)  # type: ignore[arg-type]
    sentences = [str(one.message) for one in caught]
    assert all(one.startswith(f"{path}: ") and "\n" not in one for one in sentences)
    return sentences


def only(sentences: list[str], expected: str) -> None:
    assert len(sentences) == 1 and expected in sentences[0], sentences


@pytest.mark.parametrize("shot", ["pan:40", "pan:40+truck:0.2", "dolly:1+tilt:15, pan:30"])
def test_world_to_camera_matrices(shot: str, tmp_path: Path) -> None:
    path = tmp_path / "poses.npy"
    trajectory = elsewhere(moves.parse(shot, frames=33))
    np.save(path, trajectory.world_to_camera.numpy())
    only(load_with_warnings(path), "are they world-to-camera")
    assert load_with_warnings(path, direction="world-to-camera") == []
    again = Trajectory.load(path, direction="world-to-camera")
    torch.testing.assert_close(again.camera_to_world, trajectory.camera_to_world)


def test_options_of_plain_matrices_are_advised_only_where_they_can_be_used(tmp_path: Path) -> None:
    """A TUM file has quaternions, and nerfstudio's json more than matrices: `--format matrices` cannot read either."""
    wrong = moves.parse("dolly:2+pan:30+handheld:2", frames=33, fps=4)
    wrong = wrong.replace(camera_to_world=wrong.world_to_camera)
    for name, format, is_advised in (("a.kitti", None, True), ("a.tum", None, False), ("a.json", "nerfstudio", False)):
        wrong.save(tmp_path / name, format=format)
        (found,) = load_with_warnings(tmp_path / name)
        assert "are they world-to-camera" in found and ("--direction" in found) == is_advised


def test_quaternions_of_a_tum_file_with_w_first(tmp_path: Path) -> None:
    path = tmp_path / "poses.tum"
    moves.parse("dolly:2+pan:60", frames=33).save(path)
    assert load_with_warnings(path) == []
    rows = [line.split() for line in path.read_text().splitlines()[1:]]
    path.write_text("".join(" ".join([*row[:4], row[7], *row[4:7]]) + "\n" for row in rows))
    assert any("is w written first? TUM's order is x y z w" in sentence for sentence in load_with_warnings(path))


FILMED = ["dolly:2+pan:30+handheld:2", "dolly:-2+pan:30+handheld:2", "truck:2+pan:30+handheld:2", "orbit:40+handheld:2"]


@pytest.mark.parametrize("shot", FILMED)
def test_world_to_camera_matrices_of_a_filmed_path(shot: str, tmp_path: Path) -> None:
    """A hand that shakes the viewing direction shakes the path of the inverse matrices, at any origin of the world."""
    path = tmp_path / "poses.npy"
    for seed in range(5):
        trajectory = moves.parse(f"{shot}:seed={seed}", frames=33, fps=4)
        for one in (trajectory, elsewhere(trajectory)):
            np.save(path, one.world_to_camera.numpy())
            only(load_with_warnings(path), "(`--format matrices --direction world-to-camera`)?")
            assert load_with_warnings(path, direction="world-to-camera") == []
            np.save(path, one.camera_to_world.numpy())
            assert load_with_warnings(path) == []
            only(load_with_warnings(path, direction="world-to-camera"), "--direction camera-to-world`)?")


@pytest.mark.parametrize(
    "trajectory, expected",
    [
        (moves.orbit(40, frames=33), "look backward, along -z"),
        (moves.dolly(2, frames=33), "look backward, along -z"),
        (
            moves.dolly(2, frames=33).replace(camera_to_world=Z_UP @ moves.dolly(2, frames=33).camera_to_world),
            "z points up",
        ),
    ],
)
def test_opengl_axes(trajectory: Trajectory, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "poses.csv"
    np.savetxt(path, (trajectory.camera_to_world @ FLIP).flatten(1).numpy(), delimiter=",")
    only(load_with_warnings(path), expected)
    assert load_with_warnings(path, axes="opengl") == []
    torch.testing.assert_close(Trajectory.load(path, axes="opengl").camera_to_world, trajectory.camera_to_world)


def test_opengl_axes_of_a_camera_that_looks_sideways(tmp_path: Path) -> None:
    path = tmp_path / "poses.npy"
    for degrees in (60, 90, -120):
        start = moves.pan(degrees, frames=2).camera_to_world[1]
        poses = start @ moves.dolly(2, frames=33).camera_to_world
        np.save(path, (poses @ FLIP).numpy())
        only(load_with_warnings(path), "upside down and move backward: are its camera axes OpenGL's")
        assert load_with_warnings(path, axes="opengl") == []


def test_a_world_with_y_up_is_plausible_where_its_axes_are_named(tmp_path: Path) -> None:
    """Its cameras stand upright, although they are upside down to those of OpenCV."""
    path = tmp_path / "poses.npy"
    np.save(path, moves.dolly(2, frames=33).camera_to_world.numpy())  # OpenGL's: the camera moves along its own +z
    assert load_with_warnings(path, axes="opengl") == []
    np.save(path, (Z_UP @ moves.pan(20, frames=33).camera_to_world).numpy())
    only(load_with_warnings(path, axes="opengl"), "are its camera axes OpenCV's (`--format matrices --axes opencv`)?")


def test_opengl_axes_relative_to_the_first_camera(tmp_path: Path) -> None:
    path = tmp_path / "poses.json"
    orbit = moves.orbit(40, frames=33).camera_to_world
    path.write_text(json.dumps((FLIP @ orbit @ FLIP).tolist()))
    only(load_with_warnings(path), "circle a point that lies behind all of them")


def test_a_field_of_view_in_radians(tmp_path: Path) -> None:
    path = tmp_path / "camera_path.json"
    moves.dolly(frames=5).save(path, format="nerfstudio-path")
    document = json.loads(path.read_text())
    for frame in document["camera_path"]:
        frame["fov"] = np.deg2rad(frame["fov"])
    path.write_text(json.dumps(document))
    only(load_with_warnings(path), "is its angle in radians")


def test_normalised_intrinsics(tmp_path: Path) -> None:
    path, trajectory = tmp_path / "pose.json", moves.dolly(frames=5)
    moves.dolly(frames=5).save(path, format="worldplay")
    document = json.loads(path.read_text())
    for entry in document.values():
        for row, size in ((0, trajectory.width), (1, trajectory.height)):
            entry["K"][row] = [value / size for value in entry["K"][row]]
    path.write_text(json.dumps(document))
    only(load_with_warnings(path, width=832, height=480), "are the intrinsics fractions of the image")
    document = {key: {**entry, "K": [[0.8, 0, 0.5], [0, 1.4, 0.5], [0, 0, 1]]} for key, entry in document.items()}
    path.write_text(json.dumps(document))
    only(load_with_warnings(path), "the picture has 1x1 pixels")  # the size is twice the principal point


def test_pixels_where_fractions_belong(tmp_path: Path) -> None:
    path = tmp_path / "clip.txt"
    moves.dolly(frames=5).save(path, format="re10k")
    address, *rows = path.read_text().strip().split("\n")
    pixels = [" ".join([*row.split()[:1], "600", "600", "416", "240", *row.split()[5:]]) for row in rows]
    path.write_text("\n".join([address, *pixels]))
    sentences = load_with_warnings(path)
    assert len(sentences) == 2 and "read as fractions of the image" in sentences[0]
    assert "the principal point of frame 0 is (3.461e+05, 1.152e+05), outside the picture of 832x480" in sentences[1]


def test_a_principal_point_outside_the_picture() -> None:
    trajectory = moves.dolly(frames=5)
    lens = trajectory.intrinsics.clone()
    lens[3, 0, 2] = -20.0
    only(implausible(trajectory.replace(intrinsics=lens)), "the principal point of frame 3 is (-20, 240), outside")
    lens[:, :2, 2] = 0.0  # as where a file counts from the middle
    only(implausible(trajectory.replace(intrinsics=lens)), "the principal point of frame 0 is (0, 0), at the edge of")


def test_jumps() -> None:
    two = moves.parse("truck:1, truck:1", frames=33)
    poses = two.camera_to_world.clone()
    poses[17:, :3, 3] += torch.tensor([0.0, 0.0, 5.0])
    only(implausible(two.replace(camera_to_world=poses)), "jumps 5 units between frames 16 and 17")
    poses = two.camera_to_world.clone()
    poses[17:] = poses[17:] @ moves.pan(60, frames=2).camera_to_world[1]
    only(implausible(two.replace(camera_to_world=poses)), "turns 60 degrees between frames 16 and 17")


def test_hundreds_of_metres() -> None:
    only(implausible(moves.truck(250, frames=9)), "moves 250 units from where it starts")


@pytest.mark.parametrize(
    "line, expected",
    [
        ("pan 2700", "the camera turns 84.38 degrees from one frame to the next: expected at most 30"),
        ("dolly in 1000", "the camera moves 1000 units from where it starts: expected less than 100"),
        ("truck:60, truck:60", "the camera moves 120 units"),
        ("zoom:28>2000", "the lens sees 1 degrees across: expected a focal length of less than 720 mm"),
    ],
)
def test_amounts_of_moves(line: str, expected: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MoveOptions().make(moves.MoveLine.read(line), 33, 832, 480)
    only([str(one.message) for one in caught], expected)
    assert str(caught[0].message).startswith(f"move '{moves.MoveLine.read(line)}': ")


@pytest.mark.parametrize("line", ["dolly in 90", "zoom:20>700", "orbit:360", "crane up 10"])
def test_usual_amounts_of_moves(line: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MoveOptions().make(moves.MoveLine.read(line), 33, 832, 480)


ORDINARY = [
    "pan:60",
    "truck:1+pan:30",
    "truck:1+pan:-30",
    "static",
    "pan:10, static, tilt:9",
    "handheld",
    "orbit:180",
    "arc:60:30",
    "spiral:720",
    "crane:2",
    "dolly:-5",
    "roll:30",
    "zoom:20>200",
    "loop_orbit",
    "truck:-2+tilt:20",
    "dolly:3, pan:90",
]


@pytest.mark.parametrize("shot", ORDINARY)
def test_ordinary_shots_are_plausible(shot: str) -> None:
    trajectory = moves.parse(shot, frames=49)
    for one in (
        trajectory,
        elsewhere(trajectory),
        trajectory.replace(camera_to_world=Z_UP @ trajectory.camera_to_world),
    ):
        assert implausible(one) == []


def test_an_orbit_of_the_origin_is_plausible() -> None:
    """Its inverse matrices have a constant translation, but the cameras look at what they circle."""
    trajectory = moves.orbit(120, 3, frames=33)
    centre = se3.from_parts(torch.eye(3, dtype=torch.float64), torch.tensor([0.0, 0, -3], dtype=torch.float64))
    assert implausible(trajectory.replace(camera_to_world=centre @ trajectory.camera_to_world)) == []


def test_one_frame_is_plausible() -> None:
    assert implausible(moves.static(frames=1)) == []


@given(seed=st.integers(0, 2**32 - 1), frames=st.integers(1, 12), scale=st.sampled_from([1e-9, 1.0, 1e8]))
def test_any_trajectory_can_be_judged(seed: int, frames: int, scale: float) -> None:
    assert all(isinstance(one, str) for one in implausible(random_trajectory(seed, frames).scaled(scale)))


def re10k_rows(path: Path, stamps: list[int], lens: str) -> Path:
    poses = [f"{stamp} {lens} 0 0 1 0 0 0 0 1 0 0 0 0 1 {-0.1 * index}" for index, stamp in enumerate(stamps)]
    path.write_text("\n".join(["https://youtu.be/x", *poses]) + "\n")
    return path


def test_pixels_that_are_not_square(tmp_path: Path) -> None:
    frames = [33_333 * index for index in range(9)]
    path = re10k_rows(tmp_path / "clip.txt", frames, "0.5 0.889 0.5 0.5")
    assert load_with_warnings(path) == []
    only(
        load_with_warnings(path, width=512, height=512),
        "its pixels are 1.78 times as wide as high: are width and height",
    )
    re10k_rows(path, frames, "0.889 0.5 0.5 0.5")  # fy fx, or a picture higher than wide
    only(load_with_warnings(path), "its pixels are 0.316 times as wide as high")
    assert load_with_warnings(path, width=720, height=1280) == []


def test_times_in_another_unit(tmp_path: Path) -> None:
    lens = "0.5 0.889 0.5 0.5"
    milliseconds = re10k_rows(tmp_path / "clip.txt", [33 * index for index in range(9)], lens)
    only(load_with_warnings(milliseconds), "it has 3.03e+04 frames per second: are its times in another unit?")
    poses = [f"{33.3 * index} {0.1 * index} 0 0 0 0 0 1" for index in range(9)]
    (tmp_path / "poses.tum").write_text("\n".join(poses) + "\n")
    only(load_with_warnings(tmp_path / "poses.tum"), "it has 0.03003 frames per second")
