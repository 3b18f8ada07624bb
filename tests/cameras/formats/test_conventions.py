"""Tiny files written by hand. Each test fails when its format's axes, direction, order or units are dropped.

The camera of frame 1 stands at (1, 2, 3) and looks along world x: right (0, 0, -1), down (0, 1, 0), forward (1, 0, 0).
That is a turn by 90 degrees about y. Frame 0 is the identity.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline.cameras import moves
from sightline.cameras.formats import detect, load, save
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

HALF = math.sqrt(0.5)
IDENTITY = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
CAMERA_TO_WORLD = [[0, 0, 1, 1], [0, 1, 0, 2], [-1, 0, 0, 3], [0, 0, 0, 1]]
WORLD_TO_CAMERA = [[0, 0, -1, 3], [0, 1, 0, -2], [1, 0, 0, -1], [0, 0, 0, 1]]
OPENGL_IDENTITY = [[1, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 0], [0, 0, 0, 1]]
OPENGL = [[0, 0, -1, 1], [0, -1, 0, 2], [-1, 0, 0, 3], [0, 0, 0, 1]]


def flat(matrix: list[list[float]], rows: int = 3) -> list[float]:
    return [number for row in matrix[:rows] for number in row]


def line(*numbers: float) -> str:
    return " ".join(map(str, numbers)) + "\n"


def check(trajectory: Trajectory, lens: tuple[float, float, float, float] | None = None) -> None:
    expected = torch.tensor([IDENTITY, CAMERA_TO_WORLD], dtype=torch.float64)
    torch.testing.assert_close(trajectory.camera_to_world, expected, rtol=0, atol=1e-12)
    if lens is not None:
        k = trajectory.intrinsics[-1]
        assert (float(k[0, 0]), float(k[1, 1]), float(k[0, 2]), float(k[1, 2])) == pytest.approx(lens)


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_re10k(tmp_path: Path) -> None:
    rows = [line(t, 0.5, 0.9, 0.4, 0.6, 0, 0, *flat(m)) for t, m in ((0, IDENTITY), (40_000, WORLD_TO_CAMERA))]
    path = write(tmp_path / "clip.txt", "https://www.youtube.com/watch?v=x\n" + "".join(rows))
    trajectory = load(path)
    check(trajectory, (640, 648, 512, 432))
    assert (trajectory.width, trajectory.height, trajectory.fps) == (1280, 720, 25.0)
    check(load(path, width=100, height=10), (50, 9, 40, 6))
    check(load(write(tmp_path / "no_url.txt", "".join(rows))))


def test_re10k_timestamps_that_stand_still(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.txt", "url\n" + line(7, 0.5, 0.9, 0.5, 0.5, 0, 0, *flat(IDENTITY)) * 3)
    assert load(path).fps == 16.0


def test_nerfstudio(tmp_path: Path) -> None:
    lens = {"fl_x": 700, "fl_y": 710, "cx": 400, "cy": 250, "w": 832, "h": 480}
    frames = [
        {"file_path": "images/frame_10.png", "transform_matrix": OPENGL},
        {"file_path": "images/frame_2.png", "transform_matrix": OPENGL_IDENTITY},
    ]
    applied = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, -1, 5]]
    path = write(tmp_path / "transforms.json", {**lens, "applied_transform": applied, "frames": frames})
    check(load(path), (700, 710, 400, 250))

    per_frame = [{**frames[0], **lens, "fl_x": 900}, {**frames[1], **lens}]
    trajectory = load(write(tmp_path / "per_frame.json", {"frames": per_frame}))
    check(trajectory, (900, 710, 400, 250))
    assert float(trajectory.intrinsics[0, 0, 0]) == 700


def test_nerf_synthetic(tmp_path: Path) -> None:
    frames = [{"transform_matrix": OPENGL_IDENTITY}, {"transform_matrix": OPENGL[:3]}]
    path = write(tmp_path / "transforms.json", {"camera_angle_x": math.pi / 2, "frames": frames})
    check(load(path, width=800, height=600), (400, 400, 400, 300))


def test_nerfstudio_distortion_is_said_aloud(tmp_path: Path) -> None:
    document = {"fl_x": 9, "w": 8, "h": 8, "k1": 0.1, "frames": [{"transform_matrix": OPENGL}]}
    with pytest.warns(UserWarning, match="distortion is ignored"):
        load(write(tmp_path / "transforms.json", document))


def test_nerfstudio_path(tmp_path: Path) -> None:
    frames = [{"camera_to_world": flat(m, 4), "fov": 90, "aspect": 2} for m in (OPENGL_IDENTITY, OPENGL)]
    document = {"render_width": 832, "render_height": 480, "seconds": 0.25, "camera_path": frames}
    trajectory = load(write(tmp_path / "camera_path.json", document))
    check(trajectory, (240, 240, 416, 240))  # the 90 degrees span the height
    assert trajectory.fps == 8.0
    assert load(write(tmp_path / "fps.json", {**document, "fps": 30})).fps == 30.0


IMAGES = (
    "# Image list with two lines of data per image:\n"
    f"7 {HALF} 0 {-HALF} 0 3 -2 -1 5 frame 10.png\n1.5 2.5 -1 3.5 4.5 77\n"
    "9 1 0 0 0 0 0 0 5 frame 2.png\n\n"
)


@pytest.mark.parametrize(
    "camera, lens",
    [
        ("PINHOLE 832 480 700 710 400 250", (700, 710, 400, 250)),
        ("SIMPLE_PINHOLE 832 480 700 400 250", (700, 700, 400, 250)),
        ("SIMPLE_RADIAL 832 480 700 400 250 0", (700, 700, 400, 250)),
        ("OPENCV 832 480 700 710 400 250 0 0 0 0", (700, 710, 400, 250)),
    ],
)
def test_colmap_text(tmp_path: Path, camera: str, lens: tuple[float, float, float, float]) -> None:
    write(tmp_path / "cameras.txt", f"# CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]\n5 {camera}\n")
    images = write(tmp_path / "images.txt", IMAGES)
    check(load(tmp_path), lens)
    check(load(images), lens)


def test_colmap_distortion_is_said_aloud(tmp_path: Path) -> None:
    write(tmp_path / "cameras.txt", "5 SIMPLE_RADIAL 832 480 700 400 250 0.01\n")
    write(tmp_path / "images.txt", IMAGES)
    with pytest.warns(UserWarning, match="distortion is ignored"):
        check(load(tmp_path))


def test_colmap_binary(tmp_path: Path) -> None:
    (tmp_path / "cameras.bin").write_bytes(struct.pack("<QIiQQ4d", 1, 5, 1, 832, 480, 700, 710, 400, 250))
    images = struct.pack("<Q", 2)
    images += struct.pack("<I7dI", 7, HALF, 0, -HALF, 0, 3, -2, -1, 5) + b"b.png\0"
    images += struct.pack("<QddqddQ", 2, 1.5, 2.5, -1, 3.5, 4.5, 77)
    images += struct.pack("<I7dI", 9, 1, 0, 0, 0, 0, 0, 0, 5) + b"a.png\0" + struct.pack("<Q", 0)
    (tmp_path / "images.bin").write_bytes(images)
    check(load(tmp_path), (700, 710, 400, 250))
    check(load(tmp_path / "images.bin"))


def test_tum(tmp_path: Path) -> None:
    content = "# a comment\n" + line(1.5, 0, 0, 0, 0, 0, 0, 1) + "\n" + line(1.75, 1, 2, 3, 0, HALF, 0, HALF)
    trajectory = load(write(tmp_path / "traj.txt", content))
    focal = 28 / 36 * 832
    check(trajectory, (focal, focal, 416, 240))
    assert trajectory.fps == 4.0


def test_kitti(tmp_path: Path) -> None:
    path = write(tmp_path / "poses.txt", line(*flat(IDENTITY)) + line(*flat(CAMERA_TO_WORLD)))
    check(load(path, width=360, height=100, focal_mm=50, fps=10), (500, 500, 180, 50))
    check(load(path, intrinsics=[[7, 0, 5], [0, 8, 6], [0, 0, 1]]), (7, 8, 5, 6))
    assert load(path, fps=10).fps == 10.0


def test_panshot(tmp_path: Path) -> None:
    path = tmp_path / "clip_7.npy"
    np.save(path, np.array([IDENTITY, CAMERA_TO_WORLD], dtype=np.float32)[:, :3])
    check(load(path, x_fov=90, width=832, height=480), (416, 416, 416, 240))
    wide = load(path, x_fov=90, xi=1, width=832, height=480)
    focal = 416 * (1 + HALF) / HALF
    check(wide, (focal, focal, 416, 240))
    assert wide.xi == 1.0
    check(load(path, focal_mm=18, width=832, height=480), (416, 416, 416, 240))
    for other in ({"x_fov": 90}, {"xi": 1}):
        with pytest.raises(SightlineError, match="option focal_mm beside x_fov or xi"):
            load(path, focal_mm=18, **other)


def test_panshot_near_depth(tmp_path: Path) -> None:
    """Lines as in UCPE's near_plane_depth-test.jsonl, and names as in its pose-test folder: the key is video_id-clip_id."""
    entries = [{"video_id": "aQVLCO-OOqM", "clip_name": "Clip-005", "clip_id": i, "near_depth": i / 2} for i in (6, 11)]
    depths = write(tmp_path / "depths.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))
    path = tmp_path / "aQVLCO-OOqM-11-1-no_rot_aug_0.npy"
    np.save(path, np.array([IDENTITY, CAMERA_TO_WORLD], dtype=np.float32)[:, :3])
    trajectory = load(path, near_depth_file=depths)
    assert trajectory.near_depth == 5.5
    for name in (path.name, "aQVLCO-OOqM-12-0-yaw_aug_0.npy", "clip.npy"):  # writing replaces the line of a panorama
        save(trajectory.replace(near_depth=2.5), tmp_path / name, format="panshot", near_depth_file=depths)
        assert load(tmp_path / name, near_depth_file=depths).near_depth == 2.5
    assert len(depths.read_text().splitlines()) == 4
    np.save(tmp_path / "other-1-0-x.npy", np.array([IDENTITY])[:, :3])
    with pytest.raises(SightlineError, match="'other-1-0-x', expected other-1 or other-1-0-x or other-1-0-x-0"):
        load(tmp_path / "other-1-0-x.npy", near_depth_file=depths)


def test_omniworld(tmp_path: Path) -> None:
    document = {
        "focals": [600, 700],
        "cx": 416,
        "cy": 240,
        "quats": [[1, 0, 0, 0], [HALF, 0, -HALF, 0]],
        "trans": [[0, 0, 0], [3, -2, -1]],
    }
    trajectory = load(write(tmp_path / "split_0.json", document))
    check(trajectory, (700, 700, 416, 240))
    assert float(trajectory.intrinsics[0, 0, 0]) == 600
    assert (trajectory.width, trajectory.height) == (832, 480)
    assert load(tmp_path / "split_0.json", width=900, height=500).width == 900


def test_motionctrl(tmp_path: Path) -> None:
    check(load(write(tmp_path / "poses.json", [flat(IDENTITY), flat(WORLD_TO_CAMERA)])))


def test_recammaster(tmp_path: Path) -> None:
    # Unreal: x forward, y right, z up, centimetres, rows. The first camera looks along Unreal x from (10, 0, 2) m.
    frames = {
        "frame1": {"cam01": "[1 2 3]", "cam02": "[0 1 0 0] [-1 0 0 0] [0 0 1 0] [1300 100 0 1] "},
        "frame0": {"cam01": "[1 2 3]", "cam02": "[1 0 0 0] [0 1 0 0] [0 0 1 0] [1000 0 200 1] "},
    }
    trajectory = load(write(tmp_path / "camera_extrinsics.json", frames), camera="cam02")
    check(trajectory)
    assert trajectory.unit == "metre"


def test_worldplay(tmp_path: Path) -> None:
    k = [[700, 0, 960], [0, 710, 540], [0, 0, 1]]
    document = {"10": {"extrinsic": CAMERA_TO_WORLD, "K": k}, "2": {"extrinsic": IDENTITY, "K": k}}
    trajectory = load(write(tmp_path / "pose.json", document))
    check(trajectory, (700, 710, 960, 540))
    assert (trajectory.width, trajectory.height) == (1920, 1080)


def save_vipe(folder: Path, indices: list[int]) -> Path:
    for name, data in (("pose", [IDENTITY, CAMERA_TO_WORLD]), ("intrinsics", [[600, 610, 416, 240]] * 2)):
        (folder / name).mkdir()
        np.savez(folder / name / "clip.npz", data=np.array(data, dtype=np.float32), inds=np.array(indices))
    return folder / "pose" / "clip.npz"


def test_vipe(tmp_path: Path) -> None:
    trajectory = load(save_vipe(tmp_path, [0, 1]))
    check(trajectory, (600, 610, 416, 240))
    assert (trajectory.width, trajectory.height) == (832, 480)


def test_vipe_missing_frames(tmp_path: Path) -> None:
    path = save_vipe(tmp_path, [1, 3])
    with pytest.raises(ValueError, match=r"found 2 of 4 frames, expected all \(the option missing='fill'"):
        load(path)
    filled = load(path, missing="fill")
    check(filled.replace(camera_to_world=filled.camera_to_world[[1, 3]], intrinsics=filled.intrinsics[0]))
    assert torch.equal(filled.camera_to_world[0], filled.camera_to_world[1])
    torch.testing.assert_close(filled.positions[2], torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64))
    assert float(filled.rotations[2, 0, 0]) == pytest.approx(HALF)  # half of 90 degrees


def test_sightline(tmp_path: Path) -> None:
    document = {
        "schema": "sightline-trajectory",
        "version": 1,
        "width": 832,
        "height": 480,
        "fps": 24,
        "xi": 0,
        "unit": "metre",
        "near_depth": None,
        "intrinsics": [[700, 0, 400], [0, 710, 250], [0, 0, 1]],
        "camera_to_world": [IDENTITY, CAMERA_TO_WORLD],
    }
    check(load(write(tmp_path / "path.json", document)), (700, 710, 400, 250))


def test_content_decides_not_the_ending(tmp_path: Path) -> None:
    assert detect(write(tmp_path / "a.json", line(*flat(IDENTITY)))) == "kitti"
    assert detect(write(tmp_path / "b.txt", [flat(IDENTITY)])) == "motionctrl"
    assert detect(write(tmp_path / "c.npy", line(0, 0, 0, 0, 0, 0, 0, 1))) == "tum"
    spoiled = "https://x\n" + line(*range(18)) + line(*range(19))
    assert detect(write(tmp_path / "d.txt", spoiled)) == "re10k"


# -- plain matrices ----------------------------------------------------------------------------------------------------

MEANINGS = {
    ("opencv", "camera-to-world"): [IDENTITY, CAMERA_TO_WORLD],
    ("opencv", "world-to-camera"): [IDENTITY, WORLD_TO_CAMERA],
    ("opengl", "camera-to-world"): [OPENGL_IDENTITY, OPENGL],
    ("opengl", "world-to-camera"): [np.linalg.inv(one).tolist() for one in (OPENGL_IDENTITY, OPENGL)],
}


@pytest.mark.parametrize("axes, direction", MEANINGS)
@pytest.mark.parametrize("rows", [3, 4])
@pytest.mark.parametrize("is_flat", [False, True])
def test_matrices(axes: str, direction: str, rows: int, is_flat: bool, tmp_path: Path) -> None:
    array = np.array(MEANINGS[axes, direction], dtype=np.float64)[:, :rows]
    array = array.reshape(2, -1) if is_flat else array
    np.save(tmp_path / "poses.npy", array)
    (tmp_path / "list.json").write_text(json.dumps(array.tolist()))
    (tmp_path / "object.json").write_text(json.dumps({"fps": 24, "poses": array.tolist()}))
    text = "\n".join(", ".join(map(str, row)) for row in array.reshape(2, -1).tolist())
    (tmp_path / "bare.csv").write_text(text)
    (tmp_path / "named.csv").write_text(",".join(f"m{i}" for i in range(4 * rows)) + "\n" + text.replace(",", ";"))
    for name in ("poses.npy", "list.json", "object.json", "bare.csv", "named.csv"):
        check(load(tmp_path / name, format="matrices", axes=axes, direction=direction))
        # [T, 3, 4] is PanShot's npy, and a list of 12 numbers per frame MotionCtrl's json
        if (rows, is_flat, name) not in ((3, False, "poses.npy"), (3, True, "list.json")):
            assert detect(tmp_path / name) == "matrices"


@pytest.mark.parametrize("axes, direction", MEANINGS)
@pytest.mark.parametrize("name", ["poses.npy", "poses.json", "poses.csv"])
def test_matrices_are_written_as_asked(axes: str, direction: str, name: str, tmp_path: Path) -> None:
    poses = torch.tensor([IDENTITY, CAMERA_TO_WORLD], dtype=torch.float64)
    trajectory = moves.static(frames=2).replace(camera_to_world=poses)
    save(trajectory, tmp_path / name, format="matrices", axes=axes, direction=direction)
    check(load(tmp_path / name, format="matrices", axes=axes, direction=direction))
    if name == "poses.npy":
        assert np.allclose(np.load(tmp_path / name), MEANINGS[axes, direction])


@pytest.mark.parametrize(
    "text, message",
    [
        ("1,2,3\n", "content of no known format"),
        (",".join("1" * 16) + "\n" + ",".join("1" * 15), "line 2: found 15 numbers, expected 16"),
        (",".join(map(str, np.transpose(CAMERA_TO_WORLD).flatten())), "found a last row that is not 0 0 0 1"),
        (json.dumps({"a": [IDENTITY], "b": [IDENTITY]}), "content of no known format"),
    ],
)
def test_matrices_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "poses.csv").write_text(text)
    with pytest.raises(SightlineError, match=message):
        load(tmp_path / "poses.csv")


def test_an_unknown_meaning_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "poses.npy", np.array([IDENTITY]))
    with pytest.raises(SightlineError, match="axes is 'blender': expected opencv or opengl"):
        load(tmp_path / "poses.npy", axes="blender")
    with pytest.raises(SightlineError, match="direction is 'c2w': expected camera-to-world or world-to-camera"):
        load(tmp_path / "poses.npy", direction="c2w")
