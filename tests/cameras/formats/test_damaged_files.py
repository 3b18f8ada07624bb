"""Two thousand damaged files per reader: each is a sound trajectory or one sentence, and nothing else."""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path

import pytest

from sightline.cameras.formats import FORMATS, load, save
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from tests.damage import time_limit

from .file_mutations import mutated
from .format_samples import CARRIED, FILE_NAMES, random_trajectory

COUNT = 2000
SECONDS_PER_FILE = 300  # far more than any file needs on a busy machine: only a reader that hangs takes so long
CASES = [
    *((name, {}, FILE_NAMES[name]) for name in FORMATS),
    ("colmap", {"binary": True}, FILE_NAMES["colmap"]),
    ("matrices", {}, "poses.npy"),
    ("matrices", {}, "poses.json"),
]
WHOLE_FILE = re.compile(r"empty file|found \d+ frames|no known format|found nothing there")


def check(path: Path, name: str | None, file_names: list[str]) -> str | None:
    """Loads, and returns the sentence if there was one."""
    try:
        with time_limit(SECONDS_PER_FILE):
            trajectory = load(path, format=name)
    except SightlineError as error:
        message = str(error)
        assert message.endswith("."), message
        assert "\n" not in message, message
        assert len(message) < 1000, message
        assert any(file_name in message for file_name in file_names), message
        return message
    assert isinstance(trajectory, Trajectory)
    assert trajectory.camera_to_world.isfinite().all()
    assert trajectory.intrinsics.isfinite().all()
    return None


@pytest.mark.parametrize("name, options, file_name", CASES, ids=lambda value: str(value) if value else "")
def test_damaged_files(name: str, options: dict[str, bool], file_name: str, tmp_path: Path) -> None:
    path = tmp_path / file_name
    original = random_trajectory(3, 3, CARRIED[name].square, CARRIED[name].centred, constant=name == "colmap")
    save(original, path, format=name, **options)
    files = {
        file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file() and "points" not in file.name
    }
    chance = random.Random(name)
    count = COUNT if file_name == FILE_NAMES[name] else COUNT // 4  # of the other kinds of a format's files
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(count):
            victim = chance.choice(list(files))
            victim.write_bytes(mutated(files[victim], chance))
            detected = number % 5 == 0  # the way a user meets it, who does not name the format
            message = check(path, None if detected else name, [file.name for file in files])
            if message:
                refused += 1
                if name in ("re10k", "tum", "kitti") and not detected:
                    assert ", line " in message or WHOLE_FILE.search(message), message
            victim.write_bytes(files[victim])
    assert check(path, name, []) is None  # the undamaged file, to the end
    assert count / 10 < refused < count  # the damage is real, and not all of it is fatal


@pytest.mark.parametrize("name, columns", [("re10k", 19), ("tum", 8), ("kitti", 12), ("colmap", 9)])
@pytest.mark.parametrize("token", ["nan", "1e999", "text"])
def test_the_line_is_named(name: str, columns: int, token: str, tmp_path: Path) -> None:
    path = tmp_path / FILE_NAMES[name]
    save(random_trajectory(4, 3), path, format=name)
    path = path / "images.txt" if name == "colmap" else path
    lines = path.read_text().split("\n")
    for at, line in enumerate(lines):
        words = line.split(" ")
        if len(words) < columns or line.startswith("#"):
            continue
        for column in range(columns):
            if name == "colmap" and column == 0:
                continue  # the image's id is of no use to us and is not read
            spoiled = [*words[:column], token, *words[column + 1 :]]
            path.write_text("\n".join([*lines[:at], " ".join(spoiled), *lines[at + 1 :]]))
            with pytest.raises(SightlineError) as caught:
                load(path, format=name)
            assert str(caught.value).startswith(f"{path}, line {at + 1}: found '{token}' as ")


@pytest.mark.parametrize("name, column", [("re10k", 7), ("kitti", 0)])
def test_the_line_of_a_bad_rotation_is_named(name: str, column: int, tmp_path: Path) -> None:
    path = tmp_path / "clip.txt"
    save(random_trajectory(4, 3), path, format=name)
    lines = path.read_text().split("\n")
    words = lines[-2].split(" ")
    lines[-2] = " ".join([*words[:column], "2.5", *words[column + 1 :]])
    path.write_text("\n".join(lines))
    with pytest.raises(SightlineError, match=rf"clip.txt, line {len(lines) - 1}: .*not a rigid motion"):
        load(path)
