"""The paper's protocol, and clips of files: which estimator, which reference and which units, all before a model is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sightline import cli
from sightline.data.clip_spec import ClipSpec
from sightline.errors import SightlineError
from sightline.evaluation import choose, report
from sightline.evaluation import run as running
from sightline.evaluation.tables import _ordinal
from sightline.generation.model import Model
from tests.conftest import smooth_trajectory
from tests.data.layouts import Take, write_re10k

SMALL = "--num-frames 5 --size 64x64 --num-inference-steps 1 --guidance-scale 1"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "draw_trajectories", lambda paths, file, *_: Path(file).touch())
    monkeypatch.setattr(report, "draw_plots", lambda *_: [])  # drawn by the other tests


@pytest.fixture
def re10k(tmp_path):
    """Two shots of 33 frames; the second has no caption."""
    frames = np.random.default_rng(0).integers(0, 256, (33, 48, 64, 3), np.uint8)
    for name in ("a", "b"):
        write_re10k(tmp_path / "re10k", Take(frames, smooth_trajectory(33, 64, 48), name=name))
    (tmp_path / "re10k" / "captions").mkdir()
    (tmp_path / "re10k" / "captions" / "test.json").write_text('{"a.mp4": ["a hall"]}')
    return f"re10k:{tmp_path / 're10k'}?split=test"


@pytest.fixture
def evaluate(model_folder):
    def call(line, *rest, small=SMALL):
        verb, *words = line.split()
        place = f"--model {model_folder / 'model'} --camera {model_folder / 'one'} {small}".split()
        return cli.main(["evaluate", verb, *place, *words, *rest])

    return call


def settings(folder):
    return json.loads(Path(folder, "settings.json").read_text())


def test_clips_of_files_get_an_estimator_that_needs_no_depth_or_a_refusal_before_the_model_is_loaded(
    evaluate, re10k, monkeypatch, capsys
):
    monkeypatch.setattr(Model, "pipe", property(lambda _: pytest.fail("the model was loaded")))
    assert evaluate(f"standard {re10k} --metrics none -o out", "--estimator", "direct") == cli.FAULT
    assert (
        "estimator is direct, which needs the depth of frame 0, and re10k does not know it" in capsys.readouterr().err
    )
    monkeypatch.setattr(choose, "which", lambda _: None)
    monkeypatch.setattr(choose, "find_spec", lambda _: None)
    assert evaluate(f"revisit {re10k} --metrics none -o out") == cli.FAULT
    assert "estimator is not given, and re10k does not know the depth" in capsys.readouterr().err
    assert evaluate(f"standard {re10k} --metrics none -o out", "--estimator", "vipe?command=no-vipe") == cli.FAULT
    assert "no-vipe is not installed" in capsys.readouterr().err
    assert not Path("out").exists()


def test_an_arbitrary_scale_has_no_raw_lengths_and_the_table_says_so(evaluate, re10k, oracle, monkeypatch, capsys):
    monkeypatch.setattr(choose, "which", lambda _: None)
    monkeypatch.setattr(choose, "find_spec", lambda _: True)
    oracle.own_unit, drawn = "arbitrary", []
    monkeypatch.setattr(
        running, "draw_trajectories", lambda paths, file, title, labels: drawn.append(labels) or Path(file).touch()
    )
    assert evaluate(f"standard {re10k} --metrics none --clips 2 -o out") == 0
    told = capsys.readouterr()
    assert "estimator: colmap, because re10k does not know the depth of frame 0" in told.err
    assert "oracle finds the cameras of re10k in an arbitrary scale" in told.err
    found = json.loads(Path("out/results.json").read_text())
    assert found["settings"]["estimator"] == "colmap" and found["settings"]["against"] == "trajectory"
    assert {"rot_err_raw", "ate_rescaled"} <= set(found["means"]) and "ate_raw" not in found["means"]
    assert "ate_gt_scaled" not in found["means"] and "ate_raw" not in found["estimator_floor"]
    sentence = "Raw lengths of 2 clips are left out: the estimated trajectory is in an arbitrary scale"
    assert sentence in told.out and sentence in Path("out/report.html").read_text()
    assert drawn[0] == [
        "commanded",
        "estimated from the true video, rescaled",
        "estimated from the generated video, rescaled",
    ]
    assert found["settings"]["cases"]["part"] == "all"  # split=test is held out as a whole


def test_metres_are_not_compared_with_the_unit_of_the_data(evaluate, re10k, oracle, capsys):
    oracle.own_unit = "metre"
    line = f"standard {re10k} --metrics none --clips 1 -o out --estimator vipe"
    assert evaluate(f"{line} --against trajectory") == cli.FAULT
    told = capsys.readouterr().err
    assert "against is 'trajectory', but oracle estimates in metres" in told and "expected 'video'" in told
    assert evaluate(line) == 0  # of itself it compares with the video, as the paper does
    told = capsys.readouterr()
    assert "against: video" in told.err and "Raw lengths are in metres." in told.out
    found = json.loads(Path("out/results.json").read_text())
    assert found["settings"]["against"] == "video" and found["clips"][0]["generated"]["reference_unit"] == "metre"
    assert "ate_raw" in found["estimator_floor"]


def test_lengths_of_clips_in_different_units_have_no_mean(evaluate, re10k, oracle, capsys):
    line = (
        f"standard worlds:walkthrough?clips=1&unit=metre {re10k} --part all --clips 3 --metrics none --estimator colmap"
    )
    assert evaluate(f"{line} -o out") == 0 and evaluate(f"{line} -o again") == 0
    assert (
        "Raw lengths have no mean: some clips are in metres, others in the unit of the data." in capsys.readouterr().out
    )
    found = json.loads(Path("out/results.json").read_text())
    assert found["means"].keys() & {"rot_err_raw", "ate_raw", "ate_gt_scaled"} == {"rot_err_raw", "ate_gt_scaled"}
    assert "ate_raw" not in found["estimator_floor"] and "ate_raw" in found["clips"][0]["generated"]["scores"]
    assert cli.main(["evaluate", "compare", "out", "again", "-o", "compared"]) == 0
    compared = json.loads(Path("compared/compare.json").read_text())
    assert {row["key"] for row in compared["differences"]} >= {"rot_err_raw", "ate_gt_scaled"}
    assert "ate_raw" not in {row["key"] for row in compared["differences"]}


def test_estimates_from_files_have_no_floor_where_the_video_is_the_reference(evaluate, re10k, oracle):
    oracle.own_unit, oracle.reads_files = "metre", True
    assert evaluate(f"standard {re10k} --metrics none --clips 1 --estimator vipe -o out") == 0
    found = json.loads(Path("out/results.json").read_text())
    assert found["estimator_floor"] == {} and found["counts"]["failed"] == 0


def test_the_paper_s_protocol_sets_what_the_paper_fixes_and_lists_every_deviation(
    evaluate, re10k, oracle, small_weights, capsys, monkeypatch
):
    oracle.own_unit = "metre"
    asked = []
    real = running.generate
    monkeypatch.setattr(
        running, "generate", lambda *a, **k: asked.append(k) or real(*a, **{**k, "num_inference_steps": 1})
    )
    weights = ["--weights", *(f"{name}={path}" for name, path in small_weights.items())]
    line = f"standard {re10k} --protocol paper --negative-prompt blur -o out"
    assert evaluate(line, *weights, small="--num-frames 17 --size 64x64") == 0
    assert (asked[0]["num_inference_steps"], asked[0]["guidance_scale"]) == (50, 5.0)
    assert asked[0]["negative_prompt"] == "blur"
    found = settings("out")
    assert (found["estimator"], found["against"], found["cases"]["clips"]) == ("vipe", "video", 2)
    assert found["metrics"] == ["clip_text", "fvd", "fvd_c", "fvd_16", "fvd_c_16", "fid"]
    assert found["paper"]["deviations"] == [
        "size is 64x64, the paper's 832x480",
        "num_frames is 17, the paper's 81",
        "the model is another than the paper's Wan-AI/Wan2.2-TI2V-5B-Diffusers or Wan-AI/Wan2.2-I2V-A14B-Diffusers",
    ]
    left_open = "; ".join(found["paper"]["left_open"])
    assert "first frames: 2 of the 100 asked for" in left_open and "negative prompt: blur" in left_open
    assert "the frame stride: 1" in left_open and "'a video' for 1 of 2" in left_open
    told = capsys.readouterr().out
    for text in (told, Path("out/report.html").read_text()):
        assert "num_frames is 17, the paper" in text and "Not stated in the paper" in text
    assert "1 of 2 clips have no caption; their prompt is 'a video'" in told
    assert (
        json.loads(Path("out/results.json").read_text())["means"]["clip_text"]["n"] == 1
    )  # of the clip with a caption


def test_the_paper_s_protocol_needs_its_data_its_estimator_and_its_networks(
    evaluate, re10k, small_weights, monkeypatch, capsys
):
    pytest.importorskip("pycolmap")
    monkeypatch.setattr(Model, "pipe", property(lambda _: pytest.fail("the model was loaded")))
    for line, words in (
        ("standard --protocol paper", "no source is given: the paper's protocol expects one of the kind re10k"),
        ("beyond --protocol paper", "panshot or omniworld or folder"),
        (f"standard {re10k} --protocol paper", "vipe is not installed"),
        (
            f"standard {re10k} --protocol paper --estimator colmap --weights clip={small_weights['clip']} i3d=no.pt",
            "no.pt cannot be read (No such file or directory): expected the weights of i3d",
        ),
    ):
        assert evaluate(f"{line} --size 64x64 -o out", small="--num-frames 17") == cli.FAULT
        assert words in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_run_without_a_finished_clip_does_not_block_another(evaluate, oracle):
    line = "standard --clips 1 --metrics none -o out"
    assert evaluate(line) == 0
    for file in Path("out/clips").rglob("scores.json"):
        file.unlink()  # as if it had been killed during its first clip
    assert evaluate(f"{line} --seed 5") == 0 and settings("out")["sampling"]["seed"] == 5
    assert evaluate(f"{line} --seed 6") == cli.FAULT


def test_the_stride_is_that_of_the_run_and_of_the_training(evaluate, re10k, oracle, capsys):
    line = f"standard {re10k} --metrics none --clips 1"
    assert evaluate(f"{line} --stride 4 -o out") == 0
    assert [_ordinal(n) for n in (1, 2, 3, 11, 22, 113)] == ["", "2nd ", "3rd ", "11th ", "22nd ", "113th "]
    assert "every 4th frame of a shot" in capsys.readouterr().out and settings("out")["cases"]["stride"] == 4
    commanded = json.loads(next(Path("out/clips").glob("*/commanded.json")).read_text())
    assert commanded["fps"] == pytest.approx(1e6 / 33_367 / 4, rel=1e-3)  # a quarter of that of its time stamps
    cache = {**ClipSpec(5, 4, None, 64, 64).__dict__, "model": "m"}
    Path("cache").mkdir()
    Path("cache/settings.json").write_text(json.dumps(cache))
    assert evaluate(f"{line} --cache cache -o cached") == 0 and settings("cached")["cases"]["stride"] == 4
    assert evaluate(f"{line} --cache cache --stride 1 -o other") == cli.FAULT
    assert "stride is 1: expected 4, with which cache was made" in capsys.readouterr().err
    with pytest.raises(SightlineError, match="its settings have no num_frames"):
        ClipSpec.from_settings({}, "cache")


def test_without_a_caption_there_is_no_clip_score(evaluate, re10k, oracle, small_weights, capsys):
    Path(re10k.partition(":")[2].partition("?")[0], "captions", "test.json").unlink()
    weights = ["--weights", f"clip={small_weights['clip']}"]
    assert evaluate(f"standard {re10k} --metrics clip_text clip_frames --clips 1 -o out", *weights) == 0
    told = capsys.readouterr()
    assert "left out CLIP text: no clip has a caption" in told.err and "Left out CLIP text" in told.out
    assert set(json.loads(Path("out/results.json").read_text())["means"]) & {"clip_text", "clip_frames"} == {
        "clip_frames"
    }
