"""Cutting whole videos into RealEstate10K's shots, and captioning them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sightline.cli import main
from sightline.data.captioning import caption_shots
from sightline.data.cut import cut_shots, video_id
from sightline.data.sources import open_source
from sightline.errors import SightlineError
from sightline.video import read_video_at, save_video
from tests.data.conftest import make_take
from tests.data.layouts import write_re10k

FPS = 30.0


def moving_bar(count: int) -> np.ndarray:
    """A white bar that moves by one column per frame, so that a frame can be told from its neighbours after coding."""
    columns = np.arange(64)[None] - np.arange(count)[:, None] - 2  # [T, 64]
    picture = np.where(abs(columns) <= 1, 255, 0).astype(np.uint8)
    return np.broadcast_to(picture[:, None, :, None], (count, 36, 64, 3)).copy()


def numbers(frames) -> np.ndarray:  # [T, 36, 64, 3] -> [T]
    """The number of each frame, by the place of its bar."""
    brightness = np.asarray(frames, dtype=float).mean(axis=(1, 3)).clip(100, None) - 100
    return (brightness * np.arange(64)).sum(axis=1) / brightness.sum(axis=1) - 2


def write_shot(root: Path, name: str, frames: range, url: str = "https://www.youtube.com/watch?v=abc") -> None:
    """A pose file whose timestamps are those of these frames of the video."""
    write_re10k(root, make_take(name, len(frames)))
    lines = (root / "pose_files" / f"{name}.txt").read_text().splitlines()[1:]
    rows = [f"{round(frame / FPS * 1e6)} {line.partition(' ')[2]}" for frame, line in zip(frames, lines, strict=True)]
    (root / "train").mkdir(exist_ok=True)
    (root / "train" / f"{name}.txt").write_text("\n".join([url, *rows]) + "\n")


@pytest.fixture
def data(tmp_path):
    root = tmp_path / "re10k"
    for name, frames in (("a", range(3, 12)), ("b", range(40, 60, 2)), ("late", range(55, 70))):
        write_shot(root, name, frames)
    write_shot(root, "gone", range(5), "https://youtu.be/xyz")
    for folder in ("pose_files", "frames"):  # as the archive unpacks: txt files and nothing else
        for path in sorted((root / folder).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (root / folder).rmdir()
    (tmp_path / "videos").mkdir()
    save_video(moving_bar(60), tmp_path / "videos" / "abc.mkv", fps=FPS)
    return root


def numbers_of(source, shot):
    return numbers(source.frames(shot).read(range(source.length(shot)), 64, 36).frames)


@pytest.mark.parametrize("workers", [1, 2])
def test_shots_have_the_frames_of_their_timestamps(data, workers):
    cuts = cut_shots(data, data.parent / "videos", height=36, workers=workers)
    assert (cuts.written, cuts.existing, cuts.urls) == (2, 0, ["https://youtu.be/xyz"])
    assert [skip.name for skip in cuts.skips] == ["late"] and "expected a frame at 2.0" in cuts.skips[0].reason
    source = open_source(f"re10k:{data}")
    np.testing.assert_allclose(numbers_of(source, "a"), np.arange(3, 12), atol=0.4)
    np.testing.assert_allclose(numbers_of(source, "b"), np.arange(40, 60, 2), atol=0.4)
    again = cut_shots(data, data.parent / "videos", height=36)
    assert (again.written, again.existing) == (0, 2)


def test_frames_between_two_are_the_nearest(data):
    video = data.parent / "videos" / "abc.mkv"
    times = [(frame + offset) / FPS for frame, offset in ((10, 0.3), (11, -0.3), (11, 0.4), (59, 0.8))]
    found = [np.asarray(image) for image in read_video_at(video, times)]
    np.testing.assert_allclose(numbers(found), [10, 11, 11, 59], atol=0.4)
    with pytest.raises(SightlineError, match="expected a frame at 9"):
        list(read_video_at(video, [9.0]))
    with pytest.raises(SightlineError, match="found nothing there"):
        list(read_video_at(data / "no.mp4", [0.0]))


def test_the_command_lists_what_is_to_be_downloaded(data, tmp_path, capsys):
    options = ["--videos", str(tmp_path / "videos"), "--height", "36", "--missing", str(tmp_path / "missing.txt")]
    assert main(["data", "cut", str(data), *options]) == 0
    assert "cut 2 shots, 0 were cut before, skipped 1" in capsys.readouterr().out
    assert (tmp_path / "missing.txt").read_text() == "https://youtu.be/xyz\n"
    assert main(["data", "cut", str(data), "--videos", str(tmp_path / "none")]) == 2
    assert "expected one of downloaded videos" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    ["https://www.youtube.com/watch?v=aB-_9", "https://www.youtube.com/watch?t=3&v=aB-_9", "https://youtu.be/aB-_9"],
)
def test_ids_of_urls(url):
    assert video_id(url) == "aB-_9"


def test_captions_are_written_where_the_source_reads_them_and_kept(data):
    cut_shots(data, data.parent / "videos", height=36)
    (data / "captions").mkdir()
    (data / "captions" / "train.json").write_text(json.dumps({"a.mp4": ["a hall"]}))
    path, new, skips = caption_shots(data, lambda image: f"a bar\n in {image.size} ")
    assert (new, sorted(skip.name for skip in skips)) == (1, ["gone", "late"])
    assert json.loads(path.read_text()) == {"a.mp4": ["a hall"], "b.mp4": ["a bar in (832, 480)"]}
    source = open_source(f"re10k:{data}")
    assert (source.caption("a", ()), source.caption("b", ())) == ("a hall", "a bar in (832, 480)")
    assert caption_shots(data, lambda image: "new")[1] == 0


def test_a_captioner_that_is_not_there_is_one_sentence(data, capsys):
    assert main(["data", "caption", str(data), "--captioner", str(data / "nothing")]) == 2
    said = capsys.readouterr().err.strip()
    assert "cannot be loaded" in said and "\n" not in said
