"""What a job comes to: first frame, words, path and truth, without any model."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline.backbones.model_info import LAB, ModelInfo
from sightline.backbones.wan_configs import VideoShape
from sightline.cameras import moves
from sightline.cameras.token_grid import TokenStride
from sightline.errors import SightlineError
from sightline.generation.first_frame import FIRST_FRAME, shipped_caption
from sightline.generation.job import Job
from sightline.generation.model import Model, ModelOptions
from sightline.generation.outputs import run_job
from sightline.generation.plan import make_plan
from sightline.generation.shot import make_shot
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


def test_an_orbit_of_a_world_goes_around_what_the_picture_shows():
    shot = make_shot(Job(world=2, style="orbit", move="orbit:30"), INFO)
    assert "(the depth in the middle of the picture)" in shot.subject and " m, rotation 30 degrees" in str(shot)
    radius = float(shot.subject.split()[1])
    poses = moves.orbit(30, radius, frames=5, width=48, height=32).camera_to_world
    assert (
        torch.allclose(shot.trajectory.camera_to_world, poses, atol=1e-2) and 2.5 < radius < 4.5
    )  # the subject is at 3.7
    given = make_shot(Job(world=2, style="orbit", move="orbit:30", target_depth=1.5), INFO)
    assert given.subject == "radius 1.5 (--target-depth)"
    assert make_shot(Job(move="orbit:30"), INFO).subject == "radius 2 (default)"
    assert make_shot(Job(move="pan:30"), INFO).subject == ""


def test_seconds_set_the_number_of_frames():
    shot = make_shot(Job(move="pan left 10 for 0.6 s"), INFO)  # 9.6 frames and the first one; 4 n + 1 is 9
    assert len(shot.trajectory) == 9
    assert len(make_shot(Job(move="pan left 10 for 0.6 s", fps=24.0), INFO).trajectory) == 17


def test_a_file_of_moves_gives_the_shot_of_these_moves_where_the_model_was_trained_on_its_length(tmp_path, caplog):
    info = dataclasses.replace(INFO, trained_shapes=(VideoShape(5, 48, 32), VideoShape(9, 48, 32)))
    named = make_shot(Job(move="pan left 10 for 0.5 s"), info).trajectory
    named.save(tmp_path / "path.json")
    job = Job(trajectory=tmp_path / "path.json")
    filed = make_shot(job, info).trajectory
    assert (len(filed), filed.fps) == (len(named), named.fps) == (9, 16.0)
    assert torch.equal(filed.camera_to_world, named.camera_to_world)
    caplog.set_level(logging.INFO, "sightline")
    assert len(make_shot(job, INFO).trajectory) == 5
    assert "has 9 frames: resampled to 5 over the same time (--num-frames 9 keeps them)." in caplog.text
    assert len(make_shot(dataclasses.replace(job, num_frames=9), INFO).trajectory) == 9


def test_a_frame_rate_that_no_video_file_can_state_is_refused(tmp_path):
    path = tmp_path / "path.json"
    moves.pan(30, frames=33, width=64, height=64, fps=1e6).save(path)
    for job in (Job(trajectory=path), Job(fps=1e300)):
        with pytest.raises(SightlineError, match=r"fps is .*: expected a finite number of at least 0\.001"):
            make_shot(job, INFO)


def test_a_negative_prompt_that_changes_nothing_is_noted(caplog):
    make_plan(Job(negative_prompt="blur", guidance_scale=5.0), INFO)
    make_plan(Job(), INFO)
    assert not caplog.records
    make_plan(Job(negative_prompt="blur"), INFO)
    assert "the negative prompt has no effect with guidance_scale 1: expected a guidance_scale above 1" in caplog.text


def test_an_empty_move_is_refused():
    with pytest.raises(SightlineError, match="move is ''"):
        make_shot(Job(move=""), INFO)


@pytest.mark.parametrize(
    "job, sentence",
    [
        (Job(easing="ease", trajectory=Path("a.json")), "easing is given without a move"),
        (Job(target_depth=3.0, trajectory=Path("a.json")), "target_depth is given without a move"),
        (Job(fps=24.0, world=3), "fps is given without a move"),
        (Job(format="tum", move="pan"), "format is given without a trajectory file"),
        (Job(option=("xi=1",)), "option is given without a trajectory file"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(job, sentence):
    with pytest.raises(SightlineError, match=sentence):
        job.check()


def test_reader_options_reach_the_file(tmp_path):
    moves.truck(1, frames=5).save(tmp_path / "a.kitti")
    job = Job(trajectory=tmp_path / "a.kitti", focal_mm=50.0, fps=8.0, option=("width=48", "height=32"))
    shot = make_shot(job.check(), INFO).trajectory
    assert shot.fps == 8 and float(shot.intrinsics[0, 0, 0]) == pytest.approx(50 / 36 * 48)


def test_what_a_model_cannot_run_is_refused_and_what_it_was_not_trained_on_is_noted(caplog):
    info = dataclasses.replace(INFO, rope_max_seq_len=8, trained_shapes=(VideoShape(5, 48, 32),))
    for job, sentence in (
        (Job(size="144x32"), "size is 144x32: expected at most 128x128 for this model"),
        (Job(size="48x144"), "size is 48x144: expected at most 128x128"),
        (Job(size="150x32"), "size is 150x32: expected at most 128x128"),  # not the nearest, which is too large as well
        (Job(num_frames=33), "num_frames is 33: expected at most 29 for this model"),
        (Job(num_frames=32), "num_frames is 32: expected at most 29 for this model"),
    ):
        with pytest.raises(SightlineError, match=sentence):
            make_shot(job, info)
    with caplog.at_level(logging.WARNING, "sightline"):
        make_shot(Job(), info)
        assert not caplog.records
        make_shot(Job(num_frames=9), info)
    assert "9 frames of 48x32: the model was trained on 5 frames of 48x32" in caplog.text


def test_the_shipped_model_is_known_before_it_is_loaded(monkeypatch):
    monkeypatch.setattr("sightline.backbones.pipelines.load_pipeline", None)
    with pytest.raises(SightlineError, match="size is 1280x720: expected at most 1024x1024"):
        make_shot(Job(size="1280x720"), Model(ModelOptions()).info)
    assert Model(ModelOptions()).info.has_camera and not Model(ModelOptions("lab")).info.has_camera


def test_a_size_beyond_the_positions_of_a_model_is_called_so_and_not_a_lack_of_memory(tmp_path):
    for job, sentence in (
        (Job(tmp_path / "a", size="65536x65536"), "size is 65536x65536: expected at most 1024x1024"),
        (Job(tmp_path / "a", num_frames=100001, size="1024x1024"), "num_frames is 100001: expected at most 253"),
    ):
        with pytest.raises(SightlineError, match=sentence):
            run_job(Model(ModelOptions()), job)


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


def test_a_path_longer_than_one_window_is_refused():
    windowed = dataclasses.replace(INFO, window=5)
    assert len(make_plan(Job(num_frames=5), windowed).trajectory) == 5
    with pytest.raises(SightlineError, match="has 9 frames, more than base_num_frames 5"):
        make_plan(Job(num_frames=9), windowed)
