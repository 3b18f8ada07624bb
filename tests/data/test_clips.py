"""Windows, crops, captions, broken clips, the split, orders and the loader."""

from __future__ import annotations

import itertools
import json
import logging
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.loader import ClipLoader
from sightline.data.order import Mixed, Shuffled
from sightline.data.sources import open_source, open_sources
from sightline.data.split import in_part, is_held_out
from sightline.errors import SightlineError
from tests.data.conftest import HEIGHT, WIDTH, make_take
from tests.data.layouts import Take, write_dl3dv, write_omniworld, write_panshot, write_re10k

HELD_OUT = ["000000000000002a", "000000000000002f", "000000000000004f"]
SMALL = ClipSpec(num_frames=5, width=WIDTH, height=HEIGHT)


# -- windows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "length, stride, hop, starts",
    [
        (81, 1, None, [0]),
        (161, 1, None, [0]),
        (162, 1, None, [0, 81]),
        (100, 1, 10, [0, 10]),
        (161, 2, None, [0]),
        (323, 2, None, [0, 162]),
        (323, 2, 100, [0, 100]),
    ],
)
def test_windows(length: int, stride: int, hop: int | None, starts: list[int]):
    spec = ClipSpec(stride=stride, hop=hop)
    assert list(spec.starts(length)) == starts
    for start in starts:
        indices = spec.indices(start)
        assert len(indices) == 81
        assert indices[0] == start and indices[-1] < length
        assert set(np.diff(indices)) == {stride}


def test_a_shot_that_is_too_short_is_refused():
    with pytest.raises(SightlineError, match="found 160 frames, expected at least 161"):
        ClipSpec(stride=2).starts(160)


@pytest.mark.parametrize("frames", [0, 80, 82, 4])
def test_frames_are_4k_plus_1(frames: int):
    with pytest.raises(SightlineError, match="frames is"):
        ClipSpec(num_frames=frames)


def test_a_window_takes_its_own_frames_and_is_anchored_at_its_own_first(tmp_path: Path):
    write_dl3dv(tmp_path, take := make_take(frames=23))
    clips = Clips(
        [open_source(f"dl3dv:{tmp_path}")], ClipSpec(num_frames=5, stride=2, hop=7, width=WIDTH, height=HEIGHT)
    )
    assert [window.start for window in clips.windows] == [0, 7, 14]
    clip = clips[1]
    assert np.array_equal(clip.frames, take.frames[7:16:2])
    expected = take.trajectory.anchored(7).camera_to_world[7:16:2]
    torch.testing.assert_close(clip.trajectory.camera_to_world, expected, atol=1e-9, rtol=0)
    assert clip.trajectory.fps == 8
    assert clip.name == "1K/take@7"
    torch.testing.assert_close(clips.trajectory(1).intrinsics, clip.trajectory.intrinsics)


# -- pictures and lenses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(64, 64), (96, 40), (48, 27), (120, 90)])
def test_intrinsics_follow_the_crop(tmp_path: Path, size: tuple[int, int]):
    """A point of the world is drawn where the stored camera sees it, and found where the clip's camera says."""
    trajectory = make_take(frames=5, width=192, height=108).trajectory
    point = trajectory.positions[2] + trajectory.rotations[2] @ torch.tensor([0.15, -0.1, 2.0], dtype=torch.float64)
    frames = np.zeros((5, 108, 192, 3), dtype=np.uint8)
    columns, rows = np.meshgrid(np.arange(192) + 0.5, np.arange(108) + 0.5)
    for frame in range(5):
        x, y = project(trajectory, frame, point)
        frames[frame] = (255 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 18.0))[..., None].astype(np.uint8)
    write_dl3dv(tmp_path, Take(frames, trajectory))
    clip = Clips([open_source(f"dl3dv:{tmp_path}")], ClipSpec(5, width=size[0], height=size[1], anchor=False))[0]
    for frame in range(5):
        seen = clip.frames[frame, ..., 0].astype(float)
        expected = project(clip.trajectory, frame, point)
        columns, rows = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
        centroid = (seen * columns).sum() / seen.sum(), (seen * rows).sum() / seen.sum()
        assert centroid == pytest.approx(expected, abs=0.15)


def project(trajectory: Trajectory, frame: int, point: torch.Tensor) -> tuple[float, float]:
    in_camera = trajectory.rotations[frame].T @ (point - trajectory.positions[frame])
    x, y, z = (trajectory.intrinsics[frame] @ in_camera).tolist()
    return x / z, y / z


def test_a_picture_of_another_shape_than_the_cameras_is_refused(tmp_path: Path):
    take = make_take(frames=5)
    write_dl3dv(tmp_path, Take(take.frames[:, :, :40], take.trajectory))
    with pytest.raises(SightlineError, match="found pictures of 40x54, expected the aspect ratio of 96x54"):
        Clips([open_source(f"dl3dv:{tmp_path}")], SMALL)[0]


def test_clip_checks_itself():
    take = make_take(frames=5)
    with pytest.raises(SightlineError, match=r"expected \[5, 54, 96, 3\]"):
        Clip(take.frames[:4], take.trajectory, "words", "source", "name")
    with pytest.raises(SightlineError, match="expected uint8"):
        Clip(take.frames.astype(np.float32), take.trajectory, "words", "source", "name")
    with pytest.raises(SightlineError, match="caption is ' '"):
        Clip(take.frames, take.trajectory, " ", "source", "name")


# -- broken clips ---------------------------------------------------------------------------------------------------


def break_re10k_row(root: Path) -> None:
    path = root / "pose_files" / "b.txt"
    path.write_text("\n".join([*path.read_text().split("\n")[:3], "1 2 3"]))


def break_re10k_frame(root: Path) -> None:
    sorted((root / "frames" / "b").iterdir())[3].unlink()


def break_re10k_picture(root: Path) -> None:
    sorted((root / "frames" / "b").iterdir())[3].write_bytes(b"no picture")


def break_re10k_short(root: Path) -> None:
    path = root / "pose_files" / "b.txt"
    path.write_text("\n".join(path.read_text().split("\n")[:4]))


@pytest.mark.parametrize(
    "damage, sentence",
    [
        (break_re10k_row, "line 4: found 3 numbers, expected 19"),
        (break_re10k_frame, "found nothing there, expected the picture of a frame"),
        (break_re10k_picture, "cannot be read .*, expected a picture"),
        (break_re10k_short, "found 3 frames, expected at least 5"),
    ],
)
def test_a_broken_clip_is_reported_and_skipped(tmp_path: Path, caplog, damage, sentence: str):
    for name in "abc":
        write_re10k(tmp_path, make_take(name, frames=5))
    damage(tmp_path)
    with caplog.at_level(logging.INFO, logger="sightline"):
        clips = Clips([open_source(f"re10k:{tmp_path}")], SMALL)
        assert [clip.name for clip in clips] == ["a@0", "c@0"]
    assert len(clips.skips) == 1
    assert clips.skips[0].name.startswith("b")
    assert any("skipped re10k/b" in message for message in caplog.messages)
    with pytest.raises(SightlineError, match=f"re10k/b.*{sentence}"):
        list(Clips([open_source(f"re10k:{tmp_path}")], SMALL, strict=True))


def test_a_video_that_does_not_fit_its_poses_is_skipped(tmp_path: Path):
    for name, frames in (("a", 5), ("b", 9)):
        write_re10k(tmp_path, make_take(name, frames=frames), video=True, camera_ctrl=True)
    (tmp_path / "video_clips" / "b.mp4").write_bytes((tmp_path / "video_clips" / "a.mp4").read_bytes())
    clips = Clips([open_source(f"re10k:{tmp_path}")], SMALL)
    assert [clip.name for clip in clips] == ["a@0"]
    assert "found 5 frames, expected 9, one for each pose" in clips.skips[0].reason
    (tmp_path / "video_clips" / "a.mp4").write_bytes(b"no video at all")
    with pytest.raises(SightlineError, match="cannot be decoded"):
        clips[0]
    (tmp_path / "video_clips" / "a.mp4").unlink()
    with pytest.raises(SightlineError, match="found nothing there, expected a video"):
        clips[0]


def test_omniworld_counts_must_agree(tmp_path: Path):
    write_omniworld(tmp_path, make_take(frames=5))
    info = tmp_path / "take" / "split_info.json"
    info.write_text(json.dumps({"split": [[0], [0, 1, 2, 3]]}))
    clips = Clips([open_source(f"omniworld:{tmp_path}")], SMALL)
    assert "found 5 poses, expected 4 as split_info.json says" in clips.skips[0].reason
    assert not len(clips)


def test_panshot_wants_numbers(tmp_path: Path):
    write_panshot(tmp_path, make_take(frames=5), "wide", 0.0, None)  # type: ignore[arg-type]
    assert "x_fov" in Clips([open_source(f"panshot:{tmp_path}")], SMALL).skips[0].reason
    write_panshot(tmp_path, make_take(frames=5), 60.0, 0.0, -1)
    assert "line 1: found -1 as near_depth" in Clips([open_source(f"panshot:{tmp_path}")], SMALL).skips[0].reason


def test_a_missing_caption_is_the_default_one(tmp_path: Path):
    write_dl3dv(tmp_path, make_take(frames=5))
    spec = ClipSpec(5, width=WIDTH, height=HEIGHT, caption="a place")
    assert Clips([open_source(f"dl3dv:{tmp_path}")], spec)[0].caption == "a place"


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("re10k", "source is 're10k': expected KIND:PLACE"),
        ("kitchen:/tmp", "expected KIND:PLACE with KIND one of re10k, dl3dv"),
        ("re10k:/nowhere/at/all", "found no folder there"),
        ("dl3dv:.?size=3", "size is no option of dl3dv: expected one of images, fps, points, name, eta"),
        ("dl3dv:.?fps=fast", "fps of dl3dv is 'fast': expected a number"),
        ("dl3dv:.?eta=0", "eta is 0"),
    ],
)
def test_source_texts_that_say_nothing_sensible(text: str, sentence: str):
    with pytest.raises(SightlineError, match=sentence):
        open_source(text)


def test_two_sources_need_two_names():
    with pytest.raises(SightlineError, match="two sources are named 'dl3dv'"):
        open_sources(["dl3dv:.", "dl3dv:."])
    assert [source.name for source in open_sources(["dl3dv:.", "dl3dv:.?name=more"])] == ["dl3dv", "more"]


# -- split ----------------------------------------------------------------------------------------------------------


def test_the_split_is_a_matter_of_the_name_alone():
    names = [f"{index:016x}" for index in range(4000)]
    held = {name for name in names if is_held_out("re10k", name, 0.05)}
    assert 140 < len(held) < 260
    assert held == {name for name in reversed(names) if is_held_out("re10k", name, 0.05)}
    assert held < {name for name in names if is_held_out("re10k", name, 0.1)}
    assert held != {name for name in names if is_held_out("dl3dv", name, 0.05)}
    # Written down, so that a change of the rule cannot pass unseen.
    assert sorted(held)[:3] == HELD_OUT
    for name in names[:50]:
        assert in_part("train", "re10k", name, 0.05) != in_part("held-out", "re10k", name, 0.05)


def test_splits_of_one_omniworld_scene_stay_together(tmp_path: Path):
    write_omniworld(tmp_path, make_take(frames=5))
    source = open_source(f"omniworld:{tmp_path}")
    assert source.shots() == ["take/split_1"]
    assert source.scene("take/split_1") == source.scene("take/split_7") == "take"


# -- order and loader -----------------------------------------------------------------------------------------------


def test_shuffled_epochs_and_entry_anywhere():
    order = Shuffled(10, seed=4)
    run = list(itertools.islice(order.from_position(0), 35))
    assert sorted(run[:10]) == sorted(run[10:20]) == list(range(10))
    assert run[:10] != run[10:20]
    for position in (0, 1, 9, 10, 17, 30):
        assert list(itertools.islice(order.from_position(position), 5)) == run[position : position + 5]
    assert list(itertools.islice(Shuffled(10, seed=5).from_position(0), 10)) != run[:10]


def test_a_mixture_keeps_its_weights_and_can_be_entered_anywhere():
    groups = {"a": range(7), "b": range(100, 150), "c": range(200, 203)}
    mixed = Mixed(groups, {"a": 1.0, "b": 2.0, "c": 0.0}, seed=1)
    run = list(itertools.islice(mixed.from_position(0), 9000))
    share = Counter("a" if index < 100 else "b" if index < 200 else "c" for index in run)
    assert share["c"] == 0
    assert share["a"] / len(run) == pytest.approx(1 / 3, abs=0.02)
    # Within a source no clip comes again before all have come.
    of_a = [index for index in run if index < 100]
    for start in range(0, len(of_a) - 7, 7):
        assert sorted(of_a[start : start + 7]) == list(range(7))
    for position in (1, 4095, 4096, 5000):
        assert list(itertools.islice(mixed.from_position(position), 20)) == run[position : position + 20]


def test_mixtures_that_cannot_be():
    with pytest.raises(SightlineError, match="expected the sources a, b"):
        Mixed({"a": [0], "b": [1]}, {"a": 1.0})
    with pytest.raises(SightlineError, match="'b' has no clips"):
        Mixed({"a": [0], "b": []}, {"a": 1.0, "b": 1.0})
    with pytest.raises(SightlineError, match="all weights are 0"):
        Mixed({"a": [0]}, {"a": 0.0})


class Numbers:
    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_goes_on_exactly(workers: int):
    order = Shuffled(11, seed=2)
    straight = list(itertools.islice(iter(ClipLoader(Numbers(), order, 3)), 9))
    first = ClipLoader(Numbers(), order, 3, workers=workers)
    head = list(itertools.islice(iter(first), 4))
    state = first.state_dict()
    assert state == {"epoch": 1, "position": 12}
    resumed = ClipLoader(Numbers(), order, 3, workers=workers)
    resumed.load_state_dict(state)
    assert head + list(itertools.islice(iter(resumed), 5)) == straight


def test_processes_share_every_step():
    order = Shuffled(50, seed=0)
    alone = list(itertools.islice(iter(ClipLoader(Numbers(), order, 6)), 5))
    together = [itertools.islice(iter(ClipLoader(Numbers(), order, 3, rank=rank, processes=2)), 5) for rank in (0, 1)]
    assert [one + other for one, other in zip(*together, strict=True)] == alone
