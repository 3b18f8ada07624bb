"""Released models that are no stock Wan pipeline: evaluate generates with them, each with its own sampling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline as sl
from sightline import cli
from sightline.errors import SightlineError
from sightline.evaluation import run as running
from sightline.evaluation.evaluate import evaluate
from tests.backbones import releases
from tests.backbones.sana_wm import sana_wm_pipeline, write_sana_wm


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "draw_trajectories", lambda paths, file, title, labels: Path(file).touch())


@pytest.mark.usefixtures("oracle")
def test_sana_wm_and_hy_worldplay_are_evaluated(tmp_path):
    hy = sl.load_pipeline("tiny:ti2v-5b", camera=releases.write_hy(tmp_path / "hy"))
    sana = sana_wm_pipeline()
    for pipe, num_frames, steps in ((sana, 9, 1), (hy, 13, 4)):
        pipe.set_progress_bar_config(disable=True)
        sampling = {"num_inference_steps": steps, "width": 64, "height": 64, "num_frames": num_frames}
        name = type(pipe).__name__
        results = evaluate(pipe, clips=1, metrics=["psnr"], output=tmp_path / name, **sampling)
        assert results.counts.generated == 1, name
        with pytest.raises(SightlineError, match="blind is given"):
            evaluate(pipe, clips=1, blind=True, output=tmp_path / f"{name}-blind", **sampling)
    with pytest.raises(SightlineError, match="to which this model was distilled"):
        evaluate(hy, clips=1, output=tmp_path / "more", num_frames=13, width=64, height=64, num_inference_steps=9)


def test_the_cost_of_sana_wm_is_measured(tmp_path):
    model = write_sana_wm(tmp_path / "model")
    options = ["--model", str(model), "--num-frames", "9", "--size", "64x64", "--num-inference-steps", "1"]
    assert cli.main(["evaluate", "efficiency", *options, "-o", str(tmp_path / "cost")]) == 0
    cost = json.loads((tmp_path / "cost" / "results.json").read_text())["methods"][0]
    assert cost["encoding"] == "its own" and cost["step_seconds"]["mean"] > 0
