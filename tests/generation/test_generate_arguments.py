"""Arguments of sl.generate, sl.camera_tokens and jobs: numbers of numpy and as text, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import sightline as sl
from sightline.backbones.tiny import tiny_pipeline
from sightline.generation.job import Job
from sightline.generation.model import Model
from sightline.generation.outputs import run_job
from tests.conftest import smooth_trajectory

FIRST = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def pipe():
    pipe = sl.attach_camera(tiny_pipeline(), sl.Scope())
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_numbers_of_numpy_and_numbers_as_text_mean_what_they_say(pipe):
    plain = sl.generate(pipe, None, "a", smooth_trajectory(), num_inference_steps=1, guidance_scale=5.0, seed=3)
    other = sl.generate(
        pipe, None, "a", smooth_trajectory(), num_inference_steps=np.int64(1), guidance_scale="5", seed=np.int64(3)
    )
    assert np.array_equal(plain, other)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"num_videos_per_prompt": 2}, "num_videos_per_prompt is 2: expected 1, since generate returns one video"),
        ({"return_dict": False}, "return_dict is False: expected True"),
        ({"attention_kwargs": {"camera": None}}, "attention_kwargs has 'camera', set by generate: expected trajectory"),
        ({"anchor": 99}, "anchor is 99: expected a frame of this trajectory, which has 9"),
    ],
)
def test_options_that_generate_cannot_return_are_refused(pipe, options, sentence):
    with pytest.raises(sl.SightlineError, match=sentence):
        sl.generate(pipe, None, "a", smooth_trajectory(), num_inference_steps=1, **options)


def test_a_pipeline_without_its_transformer_is_refused(pipe):
    other = type(pipe).from_pipe(pipe)
    assert other.transformer is None  # diffusers compares classes
    with pytest.raises(
        sl.SightlineError, match="pipe has no transformer: expected one; diffusers' from_pipe leaves out"
    ):
        sl.generate(other, None, "a", smooth_trajectory(), num_inference_steps=1)


def test_camera_tokens_need_a_pipeline_and_a_trajectory(pipe):
    for trajectory in ("orbit:30", None):
        with pytest.raises(sl.SightlineError, match=r"trajectory is a (str|NoneType): expected a Trajectory"):
            sl.camera_tokens(pipe, trajectory)
    for other in (pipe.transformer, smooth_trajectory()):
        with pytest.raises(sl.SightlineError, match=r"pipe is a .*: expected one of WanPipeline"):
            sl.camera_tokens(other, smooth_trajectory())


def test_a_job_of_strings_and_numbers_of_numpy_is_the_plain_one(pipe, tmp_path):
    FIRST.save(tmp_path / "first.png")
    plain = {
        "move": "pan:20",
        "num_frames": 5,
        "size": "64x64",
        "num_inference_steps": 1,
        "seed": 3,
        "guidance_scale": 5.0,
    }
    other = {**plain, "num_frames": np.int64(5), "num_inference_steps": np.int64(1), "seed": np.int64(3)}
    other["guidance_scale"] = "5"
    model = Model.of(pipe)
    run_job(model, Job(tmp_path / "plain", image=tmp_path / "first.png", **plain))
    run_job(model, Job(str(tmp_path / "other"), image=str(tmp_path / "first.png"), **other))
    requests = [json.loads((tmp_path / name / "settings.json").read_text())["request"] for name in ("plain", "other")]
    assert requests[0] == requests[1]


@pytest.mark.parametrize("field", ["output", "image", "trajectory"])
def test_what_is_no_path_is_refused_before_anything_is_generated(field):
    with pytest.raises(sl.SightlineError, match=f"{field} is 3: expected a path"):
        Job(**{field: 3}).check()
