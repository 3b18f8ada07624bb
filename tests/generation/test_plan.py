"""What a job comes to: first frame, words, path and truth, without any model."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline.backbones.model_info import LAB, ModelInfo
from sightline.cameras import moves
from sightline.cameras.token_grid import TokenStride
from sightline.errors import SightlineError
from sightline.generation.first_frame import FIRST_FRAME, shipped_caption
from sightline.generation.job import Job
from sightline.generation.plan import make_plan
from sightline.images import load_image
from sightline.worlds import sample_clip

INFO = ModelInfo(TokenStride(4, 16, 16), True, True, True, dataclasses.replace(LAB, num_frames=5, width=48, height=32))
TEXT_ONLY = dataclasses.replace(INFO, takes_image=False)
IMAGE_ONLY = dataclasses.replace(INFO, takes_text_alone=False)


def test_what_a_job_leaves_open_is_the_shipped_frame_on_an_orbit():
    plan = make_plan(Job(), INFO)
    assert torch.equal(plan.trajectory.camera_to_world, moves.orbit(30, frames=5, width=48, height=32).camera_to_world)
    assert np.array_equal(plan.image, load_image(FIRST_FRAME, 48, 32)) and plan.prompt == shipped_caption()
    assert (plan.num_inference_steps, plan.guidance_scale, plan.ground_truth) == (
        LAB.num_inference_steps,
        LAB.guidance_scale,
        None,
    )
    assert (
        make_plan(Job(prompt="", guidance_scale=0.0), INFO).prompt == ""
        and make_plan(Job(guidance_scale=0.0), INFO).guidance_scale == 0.0
    )
    assert make_plan(Job(image=FIRST_FRAME), INFO).prompt == ""  # nobody knows what another picture shows


def test_a_world_is_rendered_along_its_own_trajectory_or_from_its_first_camera(tmp_path):
    clip = sample_clip("walkthrough", 4, 5, 48, 32)
    own = make_plan(Job(world=4, style="walkthrough"), INFO)
    assert torch.equal(own.trajectory.camera_to_world, clip.true_trajectory.camera_to_world)
    assert np.array_equal(own.image, own.ground_truth[0]) and own.ground_truth.shape == (5, 32, 48, 3)

    still = make_plan(Job(world=4, style="walkthrough", move="static", prompt="mine"), INFO)
    assert (still.ground_truth == still.ground_truth[0]).all() and still.prompt == "mine"
    assert still.trajectory.unit == "metre"
    assert torch.allclose(still.trajectory.camera_to_world[3], clip.true_trajectory.camera_to_world[0])

    moves.dolly(0.2, frames=5).save(tmp_path / "path.json")
    filed = make_plan(Job(world=4, style="walkthrough", trajectory=tmp_path / "path.json"), INFO)
    named = make_plan(Job(world=4, style="walkthrough", move="dolly:0.2"), INFO)
    poses = filed.trajectory.camera_to_world, named.trajectory.camera_to_world
    assert torch.allclose(*poses) and (filed.trajectory.width, filed.trajectory.height) == (48, 32)


def test_a_path_through_a_wall_is_noted(caplog):
    with caplog.at_level(logging.WARNING, "sightline"):
        make_plan(Job(world=4, style="walkthrough", move="dolly:30"), INFO)
    assert "leaves the room or enters a solid" in caplog.text


def test_models_that_want_or_cannot_use_a_first_frame():
    assert make_plan(Job(prompt="a room", text_only=True), INFO).image is None
    assert make_plan(Job(prompt="a room"), TEXT_ONLY).image is None
    for job, info, sentence in (
        (Job(), TEXT_ONLY, "prompt is missing: expected one, since this model is text-to-video only"),
        (Job(image=Path("a.png")), TEXT_ONLY, "image is given but this model is text-to-video only"),
        (Job(world=1), TEXT_ONLY, "world is given but this model is text-to-video only"),
        (Job(text_only=True, prompt="a room"), IMAGE_ONLY, "text_only is given but this model is image-to-video only"),
    ):
        with pytest.raises(SightlineError, match=sentence):
            make_plan(job, info)
