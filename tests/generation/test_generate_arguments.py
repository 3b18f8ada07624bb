"""Arguments of sl.generate and sl.camera_tokens: numbers of numpy and as text, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sightline as sl
from sightline.backbones.tiny import tiny_pipeline
from tests.conftest import smooth_trajectory


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
        ({"anchor": 99}, "anchor is 99: expected a frame of this trajectory, which has 9"),
    ],
)
def test_options_that_generate_cannot_return_are_refused(pipe, options, sentence):
    with pytest.raises(sl.SightlineError, match=sentence):
        sl.generate(pipe, None, "a", smooth_trajectory(), num_inference_steps=1, **options)


def test_camera_tokens_need_a_pipeline_and_a_trajectory(pipe):
    for trajectory in ("orbit:30", None):
        with pytest.raises(sl.SightlineError, match=r"trajectory is a (str|NoneType): expected a Trajectory"):
            sl.camera_tokens(pipe, trajectory)
    for other in (pipe.transformer, smooth_trajectory()):
        with pytest.raises(sl.SightlineError, match=r"pipe is a .*: expected one of WanPipeline"):
            sl.camera_tokens(other, smooth_trajectory())
