"""sightline inspect: what only Python offered, as commands, on a tiny model with a camera."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline import cli
from sightline.backbones.tiny import tiny_pipeline
from sightline.cameras import moves
from sightline.data.clip import Clip
from sightline.generation.video_scores import TERMS, video_score_terms
from sightline.video import save_video
from tests.conftest import wake

FRAMES = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), np.uint8)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pipe():
    pipe = sl.attach_camera(tiny_pipeline("ti2v-5b"), sl.Scope())
    wake(pipe.transformer, seed=1)
    return pipe


@pytest.fixture
def model(pipe, tmp_path):
    sl.save_pipeline_camera(pipe, tmp_path / "camera")
    return ["--model", "tiny:ti2v-5b", "--camera", str(tmp_path / "camera")]


def write_video(folder, video="video.mp4", cameras="trajectory.json"):
    folder.mkdir(parents=True, exist_ok=True)
    save_video(FRAMES, folder / video)
    moves.truck(0.5, frames=9, width=64, height=64).save(folder / cameras)


def test_the_learned_form_is_written_and_drawn(model, pipe, capsys):
    assert cli.main(["inspect", "matrix", *model, "-o", "out"]) == 0
    assert "M over its heads" in capsys.readouterr().out
    found = json.loads(Path("out/transformer.json").read_text())
    form = sl.inspect.ray_form(pipe.transformer)
    assert np.allclose(found["matrix"], form.matrix.numpy(), atol=1e-6)
    assert np.allclose(found["distance"], form.distance.numpy(), atol=1e-6)
    assert Path("out/transformer.png").stat().st_size > 10_000
    assert cli.main(["inspect", "matrix", "--model", "tiny:ti2v-5b", "-o", "no"]) == cli.FAULT
    assert "takes no camera" in capsys.readouterr().err and not Path("no").exists()


def test_the_terms_of_a_video_add_up_to_the_attention_of_its_own_frames(pipe):
    trajectory = moves.truck(0.5, frames=9, width=64, height=64)
    clip = Clip(FRAMES, trajectory, "a hall", "video", "video")
    found = video_score_terms(pipe, clip, layer=1, frame=2, at=(0.9, 0.1), sigma=0.0)
    assert set(found.terms) == {*TERMS, "sum"} and found.terms["sum"].shape == (3, 2, 2)
    assert np.allclose(sum(found.terms[name] for name in TERMS), found.terms["sum"], atol=1e-5)
    assert found.query == (2, 0.75, 0.25) and np.array_equal(found.pictures, FRAMES[::4])
    other = Clip(FRAMES[::-1].copy(), trajectory, "a hall", "video", "video")
    changed = video_score_terms(pipe, other, layer=1, frame=2, at=(0.9, 0.1), sigma=0.0)
    assert not np.allclose(found.terms["A content"], changed.terms["A content"])  # the pictures matter ...
    assert np.allclose(found.terms["D ray to ray"], changed.terms["D ray to ray"], atol=1e-6)  # ... to all but D


def test_score_terms_of_a_video_are_drawn(model, capsys):
    write_video(Path("video"))
    line = ["inspect", "scores", "video", *model, "--size", "64x64", "--prompt", "a hall"]
    assert cli.main([*line, "--layer", "1", "--head", "0", "--at", "0.1,0.9", "-o", "scores.png"]) == 0
    told = capsys.readouterr().out
    assert "D ray to ray" in told and Path("scores.png").stat().st_size > 10_000
    write_video(Path("other"), "walk.mp4", "walk.tum")
    assert cli.main(["inspect", "scores", "other/walk.mp4", *line[3:], "-o", "walk.png"]) == 0
    capsys.readouterr()
    Path("bare").mkdir()
    save_video(FRAMES, "bare/a.mp4")
    for options, words in (
        (["--at", "middle"], "at is 'middle'"),
        (["--at", "1.5,0"], "expected fractions of the picture"),
        (["--layer", "9"], "layer is 9"),
        (["--head", "99"], "head is 99"),
        (["--frame", "3"], "frame is 3: expected a latent frame from 0 to 2"),
        (["--sigma", "2"], "sigma is 2"),
        (["--component", "transformer_2"], "component is 'transformer_2'"),
        (["--start", "5", "--num-frames", "9"], "expected at least 14"),
        (["-o", "scores.txt"], "has the suffix '.txt'"),
    ):
        assert cli.main([*line, *options]) == cli.FAULT and words in capsys.readouterr().err
    assert cli.main(["inspect", "scores", "bare/a.mp4", *model]) == cli.FAULT
    assert "has no trajectory beside it" in capsys.readouterr().err


def test_a_gallery_shows_videos_and_runs(capsys):
    write_video(Path("video"))
    clip = Path("run/clips/a")
    write_video(clip, "generated.mp4", "commanded.json")
    save_video(FRAMES, clip / "true.mp4")
    moves.truck(0.4, frames=9, width=64, height=64).save(clip / "estimated-from-the-generated-video.json")
    assert cli.main(["inspect", "gallery", "video", "run", "-o", "gallery.png"]) == 0
    assert "2 videos" in capsys.readouterr().out and Path("gallery.png").stat().st_size > 20_000
    Path("empty/clips").mkdir(parents=True)
    for places, words in (([], "no video is given"), (["empty"], "holds no generated clip"), (["run"], "")):
        code = cli.main(["inspect", "gallery", *places, "--columns", "0", "-o", "no.png"])
        assert code == cli.FAULT and words in capsys.readouterr().err
