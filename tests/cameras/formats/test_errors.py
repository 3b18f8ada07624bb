"""What a user reads when something is wrong with a file, an option or a place to write to."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.cameras.formats import FORMATS, _arrays, _files, detect, load, save
from sightline.errors import SightlineError

from .format_samples import FILE_NAMES, random_trajectory

POSE = "1 0 0 0 0 1 0 0 0 0 1 0"


def message(path: Any, **options: Any) -> str:
    with pytest.raises(SightlineError) as caught:
        load(path, **options)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


def test_the_model_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good = f"0 0.5 0.9 0.5 0.5 0 0 {POSE}\n"
    Path("clip.txt").write_text("https://x\n" + good * 5 + good.replace("0 0 1 0\n", "0 0 1\n"))
    expected = "clip.txt, line 7: found 18 numbers, expected 19 (timestamp, 4 intrinsics, 2 zeros, 3x4 pose)."
    assert message("clip.txt") == expected


@pytest.mark.parametrize("name", FORMATS)
def test_no_such_file(name: str, tmp_path: Path) -> None:
    for format in (None, name):
        assert "nowhere: found nothing there, expected a file." in message(tmp_path / "nowhere", format=format)


@pytest.mark.parametrize("name", FORMATS)
def test_folders_pipes_and_empty_files(name: str, tmp_path: Path) -> None:
    folder, pipe, empty = tmp_path / "folder", tmp_path / "pipe.bin", tmp_path / "empty.txt"
    folder.mkdir()
    os.mkfifo(pipe)
    empty.write_text(" \n\n")
    for format in (None, name):
        assert str(folder) in message(folder, format=format)
        assert str(tmp_path) in message(pipe, format=format)
        assert str(tmp_path) in message(empty, format=format)
    if name != "colmap":
        assert "found a folder, expected a file." in message(folder, format=name)
        assert "found an empty file" in message(empty, format=name)


def test_paths_that_are_none(tmp_path: Path) -> None:
    assert message(7) == "path is 7: expected a string or a Path."
    assert "cannot be read" in message("nul\0byte")
    (tmp_path / "two\nlines.txt").write_text("1 2 3\n")
    assert "two lines.txt: found content of no known format" in message(tmp_path / "two\nlines.txt")


def test_text_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "poses.txt"
    path.write_bytes(f"{POSE}\n{POSE}\n1 0 \xe9".encode("latin-1"))
    assert message(path) == f"{path}, line 3: found the byte 0xe9, expected UTF-8 text."
    path.write_text("# only a comment\n")
    assert "found 0 frames" in message(path, format="kitti")


@pytest.mark.parametrize(
    "content, fragment",
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"frames": ' * 50_000, "nested too deeply"),
        ('{"frames": [1, 2\n, 3,, 4]}', ", line 2: found text that cannot be read (it is not JSON"),
        ('{"frames": NaN}', "it has NaN at frames, which is no finite number"),
        ('{"frames": ' + "9" * 5000 + "}", "it has an integer of more than 64 bits at frames"),
        ('{"frames": []}', "found a list of 0 as frames, expected a list of frames."),
        ('{"frames": [3]}', "found 3 as frames[0], expected an object with 'transform_matrix'."),
        ('{"a": 1}', "found content of no known format, expected one of sightline, colmap"),
        ('[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "12"]]', "found '12' as frame 0, expected a finite number."),
        ("[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1e999]]", "it has 1e999 at [0][11], which is no finite number"),
        (f"[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, {10**400}]]", "it has an integer of more than 64 bits at [0][11]"),
        ('{"schema": "sightline-trajectory", "version": 2}', "found version 2, expected 1."),
        ('{"frame0": {"cam02": ""}}', "found no 'cam01' in frame0, expected one."),
    ],
)
def test_json_that_is_none(content: str, fragment: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    assert fragment in message(path)
    assert str(path) in message(path)


def test_binary_counts_that_lie(tmp_path: Path) -> None:
    save(random_trajectory(1, 2), tmp_path, format="colmap", binary=True)
    cameras, images = tmp_path / "cameras.bin", tmp_path / "images.bin"
    whole = images.read_bytes()
    images.write_bytes(struct.pack("<Q", 10**18) + whole[8:])
    assert message(tmp_path) == f"{images}: found {10**18} frames, expected from 1 to 1000000."
    images.write_bytes(struct.pack("<Q", 900_000) + whole[8:])
    assert "images.bin: found 0 bytes where 4 should follow" in message(tmp_path)
    images.write_bytes(whole[:-8] + struct.pack("<Q", 2**60))
    assert "images.bin: found 0 bytes where" in message(tmp_path)
    images.write_bytes(whole)
    cameras.write_bytes(struct.pack("<Q", 2**64 - 1) + cameras.read_bytes()[8:])
    assert "cameras.bin: found 0 bytes where" in message(tmp_path)
    cameras.write_bytes(struct.pack("<QIiQQ", 1, 1, 5, 8, 8))
    assert "cameras.bin: found the camera model 'number 5', expected one of SIMPLE_PINHOLE" in message(tmp_path)


def test_arrays_that_lie(tmp_path: Path) -> None:
    path = tmp_path / "clip.npy"
    np.save(path, np.zeros((2, 3, 4)))
    whole = path.read_bytes()
    for shape, size in ((b"(9, 3, 4), }", 864), (b"(9999999999, 3, 4), }", 959999999904)):
        path.write_bytes(whole.replace(b"(2, 3, 4), }".ljust(len(shape)), shape))
        assert f"clip.npy: found 192 bytes of numbers in the file, expected {size} for the shape" in message(path)
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    assert "clip.npy: found an array of |O in the file, expected real numbers." in message(path)
    path.write_bytes(whole[:20])
    assert "clip.npy: found a broken npy header" in message(path)
    np.save(path, np.zeros((2, 5, 4)))
    assert "found the shape [2, 5, 4], expected [T, 4, 4], [T, 3, 4], [T, 16] or [T, 12]." in message(path)


def test_archives_that_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pose" / "clip.npz"
    save(random_trajectory(1, 2), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert "clip.npz: found a damaged archive" in message(path)
    path.write_bytes(whole)
    (tmp_path / "intrinsics" / "clip.npz").unlink()
    assert f"{tmp_path / 'intrinsics' / 'clip.npz'}: found nothing there" in message(path)
    monkeypatch.setattr(_arrays, "MAX_BYTES", 2**20)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", b"\0" * 2**22)
    path.write_bytes(bomb.getvalue())
    assert "clip.npz: found an array 'data' over 1 MB" in message(path)


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "poses.txt"
    path.write_text(f"{POSE}\n" * 50)
    monkeypatch.setattr(_files, "MAX_FRAMES", 40)
    assert message(path) == f"{path}: found 50 frames, expected from 1 to 40."
    monkeypatch.setattr(_files, "MAX_BYTES", 100)
    assert "poses.txt: found more than" in message(path)


def test_colmap_sentences(tmp_path: Path) -> None:
    cameras, images = tmp_path / "cameras.txt", tmp_path / "images.txt"
    images.write_text("1 1 0 0 0 0 0 0 1 a.png\n\n2 1 0 0 0 0 0 0 2 b.png\n\n")
    assert f"{cameras}: found nothing there" in message(tmp_path)
    cameras.write_text("1 PINHOLE 8 8 9 9 4 4\n2 PINHOLE 9 8 9 9 4 4\n")
    assert message(tmp_path) == f"{cameras}: found 2 image sizes, expected one for the whole path."
    cameras.write_text("1 PINHOLE 8 8 9 9 4 4\n")
    assert f"{images}, line 3: found the camera 2 for 'b.png', expected one of cameras.txt." in message(tmp_path)
    cameras.write_text("1 OPENCV_FISHEYE 8 8 9 9 4 4 0 0 0 0\n")
    assert f"{cameras}, line 1: found the camera model 'OPENCV_FISHEYE'" in message(tmp_path)
    cameras.write_text("1 PINHOLE 8 8 9 9 4\n")
    assert f"{cameras}, line 1: found 3 parameters, expected 4 for PINHOLE." in message(tmp_path)
    cameras.write_text("1 PINHOLE 8 8 9 9 4 4\n")
    images.write_text("1 1 0 0 0 0 0 0 1 a.png\n2 1 0 0 0 0 0 0 1 b.png\n")
    assert f"{images}, line 2: found 10 columns, expected the points of the image above" in message(tmp_path)
    images.write_text("1 0 0 0 0 0 0 0 1 a.png\n\n")
    assert f"{images}, line 1: found a quaternion of length 0 in frame 0" in message(tmp_path)


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "poses.txt"
    path.write_text(f"{POSE}\n")
    assert message(path, format="kiti").startswith("format is 'kiti': expected one of sightline, colmap")
    assert message(path, lens=3).startswith("lens is no option for reading kitti: expected one of width, height")
    assert "found 'wide' as the option width" in message(path, width="wide")
    assert "found -3 as the option focal_mm, expected a number above 0." in message(path, focal_mm=-3)
    assert "found both options" in message(path, focal_mm=3, intrinsics=[[1]])
    assert "intrinsics has shape (1, 1)" in message(path, intrinsics=[[1]])
    assert "found 'x' as the option intrinsics" in message(path, intrinsics="x")
    assert f"{path}: fps is 0: expected a finite number above 0." in message(path, fps=0)
    with pytest.raises(SightlineError, match="binary is no option for writing tum: expected no options"):
        save(random_trajectory(1, 2), tmp_path / "a.tum", binary=True)
    transforms = tmp_path / "transforms.json"
    save(random_trajectory(1, 2), transforms, format="nerfstudio")
    assert "the option says 7, expected the option to be left out" in message(transforms, width=7)
    synthetic = {"camera_angle_x": 1.0, "frames": [{"transform_matrix": np.eye(4).tolist()}]}
    transforms.write_text(json.dumps(synthetic))
    assert "found no image width, expected the option width." in message(transforms)
    save(random_trajectory(1, 2), tmp_path / "clip.npy")
    assert "expected degrees that xi = 0 can see." in message(tmp_path / "clip.npy", x_fov=200)
    (tmp_path / "depths.jsonl").write_text('{"clip_name": "other", "near_depth": 1}\n{')
    assert "depths.jsonl, line 2: found text" in message(
        tmp_path / "clip.npy", near_depth_file=tmp_path / "depths.jsonl"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_nowhere_to_write(name: str, tmp_path: Path) -> None:
    blocker = tmp_path / "blocker"
    blocker.write_text("a file, not a folder")
    with pytest.raises(SightlineError, match=r"blocker.*cannot be written \(.*\), expected a writable place\.$"):
        save(random_trajectory(1, 2, square=True), blocker / FILE_NAMES[name], format=name)
    assert [file.name for file in tmp_path.iterdir()] == ["blocker"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "path.json"
    save(random_trajectory(1, 2), path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(SightlineError, match=r"path.json: cannot be written \(No space left on device\)"):
        save(random_trajectory(2, 2), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_colmap_does_not_hide_a_model_behind_another(tmp_path: Path) -> None:
    save(random_trajectory(1, 2), tmp_path, format="colmap", binary=True)
    with pytest.raises(SightlineError, match=r"found images\.bin there already"):
        save(random_trajectory(1, 2), tmp_path, format="colmap")
    save(random_trajectory(1, 3), tmp_path / "images.bin", format="colmap")
    assert len(load(tmp_path)) == 3
    (tmp_path / "frames.bin").touch()
    with pytest.raises(SightlineError, match=r"found frames\.bin there already"):
        save(random_trajectory(1, 2), tmp_path, format="colmap", binary=True)
    assert detect(tmp_path / "images.bin") == "colmap"
