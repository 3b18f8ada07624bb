"""Arguments of sl.evaluate: numbers of NumPy, and values that are refused before anything is generated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline.backbones.tiny import tiny_pipeline


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tiny_pipeline()


def test_numbers_of_numpy_are_written_as_numbers(pipe):
    five, small = np.int64(5), np.int64(64)
    options = {"clips": np.int64(1), "seed": np.int64(3), "num_inference_steps": np.int64(1), "guidance_scale": "2"}
    sl.evaluate(pipe, **options, num_frames=five, width=small, height=small, blind=True, metrics=["none"], output="out")
    settings = json.loads(Path("out/settings.json").read_text())
    assert settings["sampling"]["seed"] == 3 and settings["sampling"]["guidance_scale"] == 2.0


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"against": "x"}, "against is 'x': expected one of trajectory, video"),
        ({"part": "x"}, "part is 'x': expected one of all, train, held-out"),
        ({"label": 3}, "label is 3: expected text"),
        ({"output": 3}, "output is 3: expected text"),
        ({"camera_guidance_scale": "x"}, "camera_guidance_scale is 'x': expected a finite number"),
        ({}, r"the pipeline takes no camera: expected attach_camera\(pipe, camera\) before, or --blind"),
    ],
)
def test_bad_arguments_are_one_sentence(pipe, options, sentence):
    with pytest.raises(sl.SightlineError, match=sentence):
        sl.evaluate(
            pipe, **{"output": "out", "metrics": ["none"], "num_frames": 5, "width": 64, "height": 64, **options}
        )


def test_what_is_no_pipeline_is_refused(pipe):
    for other in (3, pipe.transformer):
        with pytest.raises(sl.SightlineError, match="pipe is a "):
            sl.evaluate(other, output="out")
