"""The parts of the attention scores of a video, for backbones other than Wan; tests/cli/test_inspect.py has Wan's."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.backbones.attach import attach_camera
from sightline.backbones.tiny import tiny_pipeline
from sightline.data.clip import Clip
from sightline.encodings import Scope
from sightline.errors import SightlineError
from sightline.generation.video_scores import video_score_terms
from tests.conftest import smooth_trajectory, wake


def test_the_scores_of_a_video_are_split_for_ltx2_too():
    pipe = attach_camera(tiny_pipeline("ltx-2"), Scope())
    wake(pipe.transformer)
    frames = np.random.default_rng(0).integers(0, 255, (9, 64, 64, 3), dtype=np.uint8)
    clip = Clip(frames, smooth_trajectory(9, 64, 64), "a room", "test", "clip")
    found = video_score_terms(pipe, clip, layer=1, frame=1)
    assert found.terms["D ray to ray"].shape == (2, 2, 2) and np.abs(found.terms["D ray to ray"]).max() > 0
    assert found.pictures.shape[0] == 2
    with pytest.raises(SightlineError, match="whose scores can be split"):
        video_score_terms(attach_camera(tiny_pipeline("vace"), Scope()), clip, layer=0, frame=0)


def test_a_video_of_one_frame_has_scores_too():
    pipe = attach_camera(tiny_pipeline("ti2v-5b"), Scope())
    frames = np.random.default_rng(0).integers(0, 255, (1, 64, 64, 3), dtype=np.uint8)
    clip = Clip(frames, smooth_trajectory(1, 64, 64), "a room", "test", "clip")
    found = video_score_terms(pipe, clip, layer=0, frame=0)
    assert len(found.pictures) == len(found.attention) == 1
