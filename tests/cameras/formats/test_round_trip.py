"""Every format gives back what it says it carries, and only loses what it says it loses."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.cameras.formats import FORMATS, detect, load, save
from sightline.cameras.lens import intrinsics_from_mm
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

from .format_samples import ALL, CARRIED, FILE_NAMES, carried_part, random_trajectory

WORDS = {
    "lens": "lens",
    "size": "image size",
    "fps": "time",
    "xi": "xi",
    "unit": "unit",
    "near_depth": "near depth",
}
DEFAULTS = {"fps": 16.0, "xi": 0.0, "unit": "scene", "near_depth": None}
WRITE_OPTIONS = [(name, {}) for name in FORMATS] + [("colmap", {"binary": True})]


def test_the_table_covers_every_format() -> None:
    assert set(CARRIED) == set(FILE_NAMES) == set(FORMATS)


@pytest.mark.parametrize("name, options", WRITE_OPTIONS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), frames=st.integers(1, 7), constant=st.booleans())
def test_round_trip(name: str, options: dict[str, bool], seed: int, frames: int, constant: bool) -> None:
    carried = CARRIED[name]
    original = random_trajectory(seed, frames, carried.square, carried.centred, constant)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        path = Path(folder) / FILE_NAMES[name]
        save(original, path, format=name, **options)
        assert detect(path) == name
        size = {"width": original.width, "height": original.height}
        again = load(path, **(size if "size" not in carried.fields else {}))
    assert len(again) == frames
    torch.testing.assert_close(again.camera_to_world, carried_part(name, original), rtol=0, atol=1e-9)
    assert (again.width, again.height) == (original.width, original.height)
    if "lens" in carried.fields:
        torch.testing.assert_close(again.intrinsics, original.intrinsics, rtol=1e-9, atol=1e-9)
    else:
        default = intrinsics_from_mm(torch.tensor(28.0), original.width, original.height)
        torch.testing.assert_close(again.intrinsics, default.expand(frames, 3, 3))
    if "fps" in carried.fields and frames > 1:
        assert again.fps == pytest.approx(original.fps, rel=1e-4)
    expected_unit = "metre" if name == "recammaster" else DEFAULTS["unit"]
    if name != "sightline":
        assert (again.xi, again.unit, again.near_depth) == (0.0, expected_unit, None)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), frames=st.integers(1, 7), constant=st.booleans(), xi=st.floats(0, 2))
def test_own_format_is_exact(seed: int, frames: int, constant: bool, xi: float) -> None:
    original = random_trajectory(seed, frames, constant=constant, xi=xi)
    with tempfile.TemporaryDirectory() as folder:
        save(original, Path(folder) / "path.json")
        again = load(Path(folder) / "path.json")
    assert torch.equal(again.camera_to_world, original.camera_to_world)
    assert torch.equal(again.intrinsics, original.intrinsics)
    for field in ("width", "height", "xi", "fps", "unit", "near_depth"):
        assert getattr(again, field) == getattr(original, field)


@pytest.mark.parametrize("name", FORMATS)
def test_losses_are_stated(name: str) -> None:
    for field in ALL - CARRIED[name].fields:
        assert WORDS[field] in FORMATS[name].loses
    if CARRIED[name].origin != "kept":
        assert "first camera" in FORMATS[name].loses
    if CARRIED[name].square and "lens" in CARRIED[name].fields:
        assert "non-square pixels" in FORMATS[name].loses


@pytest.mark.parametrize("name", FORMATS)
def test_a_second_trip_changes_nothing_more(name: str, tmp_path: Path) -> None:
    """What a format loses, it loses once: reading and writing again is stable, lens and all."""
    path = tmp_path / FILE_NAMES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(random_trajectory(5, 6), path, format=name)
        once = load(path)
        save(once, path, format=name)
        twice = load(path)
    torch.testing.assert_close(twice.camera_to_world, once.camera_to_world, rtol=0, atol=1e-9)
    torch.testing.assert_close(twice.intrinsics, once.intrinsics)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "sightline"])
def test_losing_xi_is_said_aloud(name: str, tmp_path: Path) -> None:
    path = random_trajectory(1, 3, square=True, centred=True, xi=0.5)
    with pytest.warns(UserWarning, match=r"cannot carry xi = 0\.5"):
        save(path, tmp_path / FILE_NAMES[name], format=name)


@pytest.mark.parametrize("name", ["omniworld", "nerfstudio-path"])
def test_losing_pixel_shape_is_said_aloud(name: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="square pixels only"):
        save(random_trajectory(1, 3), tmp_path / FILE_NAMES[name], format=name)


@pytest.mark.parametrize(
    "file_name, name",
    [
        ("a.json", "sightline"),
        ("a.npy", "panshot"),
        ("a.NPZ", "vipe"),
        ("a.tum", "tum"),
        ("a.kitti", "kitti"),
    ],
)
def test_format_by_ending(file_name: str, name: str, tmp_path: Path) -> None:
    random_trajectory(2, 3).save(tmp_path / file_name)
    assert detect(tmp_path / file_name) == name


@pytest.mark.parametrize(
    "file_name, found", [("a.xyz", "the ending '.xyz'"), ("a.txt", "the ending '.txt'"), ("a", "no ending")]
)
def test_an_ending_that_names_no_format_is_refused(file_name: str, found: str, tmp_path: Path) -> None:
    with pytest.raises(SightlineError, match=f"{file_name} has {found}: expected one of .json, .*name of a format"):
        random_trajectory(2, 3).save(tmp_path / file_name)
    assert not list(tmp_path.iterdir())


def test_trajectory_methods_reach_the_registry(tmp_path: Path) -> None:
    random_trajectory(2, 3).save(tmp_path / "a" / "b" / "clip.txt", format="re10k")
    again = Trajectory.load(tmp_path / "a" / "b" / "clip.txt", width=640, height=360)
    assert (len(again), again.width, again.height) == (3, 640, 360)


def test_every_format_says_what_it_is() -> None:
    for name, known in FORMATS.items():
        assert known.name == name
        for sentence in (known.title, known.convention, known.loses):
            assert sentence
            assert "\n" not in sentence


def test_the_page_names_every_format_and_option() -> None:
    page = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
    for name, known in FORMATS.items():
        assert f"| `{name}` |" in page
        for option in (*known.read_options, *known.write_options):
            assert f"`{option}" in page
