"""A session: what is previewed is what is filmed, and two visitors do not share anything."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from sightline.backbones.model_info import ModelInfo, read_configs
from sightline.backbones.shipped import base
from sightline.cameras import moves
from sightline.errors import SightlineError
from sightline.generation.plan import make_plan
from sightline.studio.keyframes import Key
from sightline.studio.library import Film, Library
from sightline.studio.session import Session
from sightline.studio.trained_range import lab_range, path_warnings
from tests.conftest import random_poses


@pytest.fixture(scope="module")
def info():
    return ModelInfo.from_configs(read_configs(str(base())))


@pytest.fixture
def session(info, tmp_path):
    return Session(info, Library(tmp_path))


def picture(side=200):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8))


def use_keys(session):
    keys = session.first_keys()
    for number, pose in enumerate(random_poses(2, seed=3, scale=0.3)):
        keys = keys.insert(number + 1, Key(pose, 35.0, 0.7, "ease"))
    session.set_keys(keys)


def path_of(session, kind):
    if kind == "keys":
        use_keys(session)
    elif kind == "file":
        session.load(moves.arc(20, frames=50, width=320, height=240))
    else:
        session.set_move(kind)


@pytest.mark.parametrize("kind", ["orbit:20", "zoom:28>50", "dolly:0.3+pan:10, static", "keys", "file"])
@pytest.mark.parametrize("source", ["shipped", "picture", "world"])
def test_the_film_follows_exactly_the_trajectory_that_was_previewed(session, info, tmp_path, kind, source):
    if source == "picture":
        session.set_picture(picture())
    elif source == "world":
        session.set_world(3, "walkthrough")
        session.set_size(9, 64, 64)
    path_of(session, kind)
    plan = make_plan(session.job(tmp_path / "film", seed=5), info)
    assert torch.equal(plan.trajectory.intrinsics, session.trajectory.intrinsics)
    anchored = plan.trajectory.anchored().camera_to_world
    exact = 0 if source != "world" else 1e-12  # a world's poses are multiplied by that of its first camera
    torch.testing.assert_close(anchored, session.trajectory.anchored().camera_to_world, atol=exact, rtol=0)
    assert np.array_equal(np.asarray(plan.image), session.first_picture())
    if source == "world":
        assert np.array_equal(plan.ground_truth[5], session.true_frame(5))
        assert plan.prompt == session.caption


def test_a_move_that_cannot_be_read_leaves_the_path(session):
    session.set_move("truck:0.5")
    before = session.trajectory
    with pytest.raises(SightlineError, match="expected"):
        session.set_move("orbit:thirty")
    assert session.move == "truck:0.5" and session.trajectory is before


def test_the_first_key_stays_the_camera_of_the_picture(session):
    keys = session.first_keys().insert(1, Key(random_poses(1)[0]))
    with pytest.raises(SightlineError, match="the first key has moved"):
        session.set_keys(keys.change(0, camera_to_world=random_poses(1)[0]))
    session.set_keys(keys)
    session.set_lens(50.0)
    assert session.history.current.keys[0].focal_mm == 50.0
    assert float(session.trajectory.intrinsics[0, 0, 0]) == pytest.approx(50.0 * 128 / 36)


def test_keys_along_a_path_start_where_it_starts_and_end_where_it_ends(session):
    session.set_move("orbit:30")
    path = session.trajectory
    session.set_keys(session.keys_of_path(4))
    for frame in (0, -1):
        torch.testing.assert_close(session.trajectory.camera_to_world[frame], path.camera_to_world[frame])


def test_depth_sources(session):
    session.set_depth("box room", 1.5)
    assert float(session.depth().max()) == pytest.approx(3.0)
    session.set_depth("file", values=np.full((10, 20), 4.0, np.float32))
    assert float(session.depth().mean()) == 4.0
    for source in ("world", "sonar"):
        with pytest.raises(SightlineError, match="depth is"):
            session.set_depth(source)
    session.set_world(3, "orbit")
    assert session.depth_source == "world" and session.preview().depth.shape == (128, 128)
    session.set_picture(picture())
    assert session.depth_source == "plane"


def write_film(library, session, name, **sampling):
    job = session.job(library.folder / name, **sampling)
    folder = library.folder / name
    folder.mkdir(parents=True)
    made = {"num_frames": 33, "width": 128, "height": 128, "num_inference_steps": 12, "guidance_scale": 1.0}
    made["camera_guidance_scale"] = 1.0
    made |= {"prompt": "a", "negative_prompt": None, "seed": 7, "first_frame": True, "trajectory": "x"}
    settings = {
        "request": {**job.settings(), "model": None, "camera": None},
        "generated": made,
        "model": {},
        "result": {},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    session.trajectory.save(folder / "trajectory.json")
    return Film(folder)


@pytest.mark.parametrize("kind", ["orbit:20", "zoom:28>50", "keys", "file"])
@pytest.mark.parametrize("source", ["shipped", "picture", "world"])
def test_a_film_is_reopened_with_its_picture_path_and_settings(session, info, tmp_path, kind, source):
    if source == "picture":
        session.set_picture(picture())
    elif source == "world":
        session.set_world(4, "orbit")
    session.set_lens(35.0)
    path_of(session, kind)
    film = write_film(session.library, session, "film", seed=7)
    other = Session(info, Library(tmp_path))
    assert other.reopen(film)["seed"] == 7
    assert torch.equal(other.trajectory.camera_to_world, session.trajectory.camera_to_world)
    torch.testing.assert_close(other.trajectory.intrinsics, session.trajectory.intrinsics)
    assert np.array_equal(other.first_picture(), session.first_picture())
    assert (other.mode, len(other.history.current)) == (session.mode, 3 if kind == "keys" else 1)


def test_a_film_that_names_a_picture_elsewhere_is_not_reopened(session, tmp_path):
    outside = tmp_path.parent / "secret.png"
    picture().save(outside)
    film = write_film(session.library, session, "film")
    film.settings["request"]["image"] = str(outside)
    with pytest.raises(SightlineError, match="expected a picture that the studio keeps"):
        session.reopen(film)


def test_sessions_share_nothing(info, tmp_path):
    one, two = (Session(info, Library(tmp_path)) for _ in range(2))
    use_keys(one)
    one.set_world(3, "orbit")
    assert two.mode == "move" and two.world is None and len(two.history.current) == 1


def test_a_path_beyond_the_training_clips_is_warned_of(session, info):
    assert lab_range().extent > 0.5 and lab_range().focal_mm[0] < 28 < lab_range().focal_mm[1]
    session.set_move("orbit:20")
    assert path_warnings(session.trajectory, info) == []
    session.set_move("dolly:30")
    assert any("m from its start" in sentence for sentence in path_warnings(session.trajectory, info))
    session.set_move("pan:350")
    assert any("degrees in all" in sentence for sentence in path_warnings(session.trajectory, info))
    session.set_move("zoom:28>400")
    assert any("28 to 400 mm" in sentence for sentence in path_warnings(session.trajectory, info))
    session.set_size(49, 128, 128)
    assert any("49" in sentence for sentence in path_warnings(session.trajectory, info))


def test_a_lens_that_the_model_cannot_represent_is_warned_of(session, info):
    one_lens = replace(info, fixed_lens=True, centred_lens=True, pinhole_only=True)
    session.set_move("zoom:28>70")
    assert any(
        "no film can be generated: trajectory has a lens that changes" in sentence
        for sentence in path_warnings(session.trajectory, one_lens)
    )
    session.set_move("orbit:20")
    assert path_warnings(session.trajectory, one_lens) == []
    assert "no film can be generated" in path_warnings(session.trajectory.replace(xi=0.4), one_lens)[0]


def test_a_picture_of_another_shape_says_what_it_loses(session):
    for size, words in (((200, 200), ""), ((320, 200), "left and right"), ((200, 320), "top and bottom")):
        session.set_picture(Image.new("RGB", size))
        assert words in session.crop and bool(words) == bool(session.crop)
