"""Videos that are generated in batches are those that `sightline.generate` makes one by one."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from sightline.backbones.pipelines import load_pipeline
from sightline.data.clip_spec import ClipSpec
from sightline.data.encode import ClipEncoder, pad_text
from sightline.encodings.scope import Scope
from sightline.evaluation.cases import Selection, StandardCases
from sightline.generation.generate import generate
from sightline.study.sampling import generate_videos
from sightline.study.videos import read_videos

SOURCES = ("worlds:orbit?seed=900000&clips=3&unit=metre",)
SPEC = ClipSpec(9, width=16, height=16)


@pytest.mark.parametrize("guidance_scale", [1.0, 3.0])
def test_a_batch_is_what_single_calls_generate(tmp_path, guidance_scale):
    pipe = load_pipeline("tiny:pixels", Scope(alpha=1.0, projection_init="random"), dtype="float32", device="cpu")
    encoder = ClipEncoder(pipe)
    cases = read_videos("video", SOURCES, 3, "all", 0.0, SPEC, encoder, 512, tmp_path)
    settings = {"num_inference_steps": 3, "guidance_scale": guidance_scale}
    empty = pad_text(encoder.text(""))
    videos = list(
        generate_videos(pipe.transformer, encoder, cases, empty, batch_size=2, autocast=nullcontext(), **settings)
    )
    pipe.set_progress_bar_config(disable=True)
    standard = StandardCases(Selection(SOURCES, 3, "all", 0.0, SPEC))
    for seed, video in enumerate(videos):
        clip = standard.load(seed).clip
        expected = generate(pipe, clip.frames[0], clip.caption, clip.trajectory, seed=seed, **settings)
        assert video.shape == expected.shape and np.abs(video.astype(int) - expected).max() <= 1


def test_the_clips_of_a_study_are_rendered_once(tmp_path, monkeypatch):
    encoder = ClipEncoder(load_pipeline("tiny:pixels", dtype="float32", device="cpu"))
    arguments = ("revisit", SOURCES, 1, "all", 0.0, SPEC, encoder, 16, tmp_path)
    made = read_videos(*arguments)
    monkeypatch.setattr("sightline.study.videos._encode", lambda *_: pytest.fail("encoded again"))
    for one, again in zip(made, read_videos(*arguments), strict=True):
        assert (
            one.name == again.name and one.name.startswith("orbit-00900000-0/loop_") and one.trajectory.unit == "metre"
        )
        assert one.frames.shape == (1, 16, 16, 3) and (one.frames == again.frames).all()
        assert (one.trajectory.camera_to_world == again.trajectory.camera_to_world).all()
        assert (one.depth == again.depth).all()
