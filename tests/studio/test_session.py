"""A session: what is previewed is what is filmed, and two visitors do not share anything."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sightline.backbones.config_files import read_configs
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.shipped import base
from sightline.backbones.wan_configs import TI2V_5B
from sightline.cameras import moves
from sightline.errors import SightlineError
from sightline.generation.plan import make_plan
from sightline.studio.film_job import FilmInputs, film_job, keep_depth, reopened
from sightline.studio.keyframes import Key, Keyframes, keys_along
from sightline.studio.library import DEPTH, Film, Library
from sightline.studio.session import Session
from sightline.studio.trained_range import lab_range, path_warnings
from sightline.video import save_video
from tests.conftest import random_poses


@pytest.fixture(scope="module")
def info():
    return ModelInfo.from_configs(read_configs(str(base())))


@pytest.fixture
def session(info, tmp_path):
    return Session(info)


@pytest.fixture
def library(tmp_path):
    return Library(tmp_path)


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
def test_the_film_follows_exactly_the_trajectory_that_was_previewed(session, info, library, kind, source):
    if source == "picture":
        session.set_picture(picture())
    elif source == "world":
        session.set_world(3, "walkthrough")
        session.set_size(9, 64, 64)
    path_of(session, kind)
    plan = make_plan(film_job(session, library, library.folder / "film", seed=5), info)
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


def test_a_length_that_is_too_short_for_the_keys_leaves_the_session(session):
    use_keys(session)
    before = session.trajectory
    with pytest.raises(SightlineError, match="expected at least 3, one for each key"):
        session.set_size(1, 64, 64)
    assert (session.num_frames, session.width) == (33, 128) and session.trajectory is before


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
    session.set_keys(keys_along(session.trajectory, 4))
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
    job = film_job(session, library, library.folder / name, **sampling)
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
    (folder / DEPTH).write_text(json.dumps(keep_depth(session, library)))
    return Film(folder)


@pytest.mark.parametrize("kind", ["orbit:20", "zoom:28>50", "keys", "file"])
@pytest.mark.parametrize("source", ["shipped", "picture", "world"])
def test_a_film_is_reopened_with_its_picture_path_and_settings(session, info, library, kind, source):
    if source == "picture":
        session.set_picture(picture())
    elif source == "world":
        session.set_world(4, "orbit")
    session.set_lens(35.0)
    path_of(session, kind)
    film = write_film(library, session, "film", seed=7)
    other, sampling, note = reopened(film, info, library)
    assert sampling["seed"] == 7 and note == ""
    assert torch.equal(other.trajectory.camera_to_world, session.trajectory.camera_to_world)
    torch.testing.assert_close(other.trajectory.intrinsics, session.trajectory.intrinsics)
    assert np.array_equal(other.first_picture(), session.first_picture())
    assert (other.mode, len(other.history.current)) == (session.mode, 3 if kind == "keys" else 1)


@pytest.mark.parametrize("source", ["plane", "box room", "file", "model", "world"])
@pytest.mark.parametrize("kind", ["orbit:20", "keys"])
def test_a_film_is_reopened_with_its_depth(session, info, library, kind, source):
    values = np.random.default_rng(0).uniform(1, 9, (20, 30)).astype(np.float32)
    if source == "world":
        session.set_world(4, "orbit")
    session.set_depth(source, 1.35, values if source in ("file", "model") else None)
    session.depth_model = "owner/name" if source == "model" else session.depth_model
    path_of(session, kind)
    other = reopened(write_film(library, session, "film"), info, library).session
    assert (other.depth_source, other.distance, other.depth_model) == (source, 1.35, session.depth_model)
    assert torch.equal(other.depth(), session.depth())
    assert torch.equal(other.trajectory.camera_to_world, session.trajectory.camera_to_world)


def test_a_film_without_a_depth_of_the_studio_is_reopened_with_a_plane(session, info, library):
    session.set_depth("box room", 1.35)
    film = write_film(library, session, "film")
    (film.folder / DEPTH).unlink()  # as `sightline generate` leaves it
    other = reopened(film, info, library).session
    assert other.depth_source == "plane" and other.distance == 1.35  # the distance is that of the orbit


@pytest.mark.parametrize("name", ["../secret.npy", "/etc/passwd", "missing.npy", "."])
def test_the_depth_of_a_film_is_only_read_from_the_inputs(session, info, library, tmp_path, name):
    np.save(tmp_path / "secret.npy", np.ones((4, 4), np.float32))
    film = write_film(library, session, "film")
    content = {"source": "file", "distance": 2.0, "file": name, "model": None}
    (film.folder / DEPTH).write_text(json.dumps(content))
    with pytest.raises(SightlineError, match="expected"):
        reopened(film, info, library)


def test_a_film_that_names_a_picture_elsewhere_is_reopened_with_its_own_first_frame(session, info, library, tmp_path):
    """As of a film that `sightline generate` made from a picture anywhere, which the page must not read."""
    outside = tmp_path.parent / "secret.png"
    picture().save(outside)
    film = write_film(library, session, "film")
    film.settings["request"]["image"] = str(outside)
    save_video(np.full((33, 128, 128, 3), 90, np.uint8), film.folder / "video.mp4")
    other, _, note = reopened(film, info, library)
    assert abs(other.first_picture().astype(int) - 90).max() <= 3 and "secret.png, is not in the output folder" in note
    assert torch.equal(other.trajectory.camera_to_world, session.trajectory.camera_to_world)


def test_a_film_belongs_to_the_picture_and_the_path_it_was_started_with(session):
    started = FilmInputs.of(session)
    assert started.is_same(FilmInputs.of(session))
    session.set_move("pan:5")
    assert not started.is_same(FilmInputs.of(session))
    session.set_move("orbit:30")
    assert started.is_same(FilmInputs.of(session))
    session.set_picture(picture())
    assert not started.is_same(FilmInputs.of(session))


def test_sessions_share_nothing(info):
    one, two = (Session(info) for _ in range(2))
    use_keys(one)
    one.set_world(3, "orbit")
    assert two.mode == "move" and two.world is None and len(two.history.current) == 1


def test_a_path_beyond_the_training_clips_is_warned_of(session, info):
    assert lab_range().extent > 0.5 and lab_range().focal_mm[0] < 28 < lab_range().focal_mm[1]
    session.set_move("orbit:20")
    assert path_warnings(session.trajectory, info) == []
    session.set_move("dolly:30")
    assert any("moves 30 units from its start" in sentence for sentence in path_warnings(session.trajectory, info))
    session.set_move("pan:350")
    assert any("degrees in all" in sentence for sentence in path_warnings(session.trajectory, info))
    session.set_move("dolly:2000000")
    found = path_warnings(session.trajectory, info)
    assert len(found) == 1 and found[0].startswith("The camera moves 2,000,000 units from its start;")
    session.set_move("zoom:28>400")
    assert any("28 to 400 mm" in sentence for sentence in path_warnings(session.trajectory, info))
    for frames, warned in ((49, False), (65, True)):  # 49 are trained, too
        session.set_size(frames, 128, 128)
        assert any(f"{frames} frames" in sentence for sentence in path_warnings(session.trajectory, info)) == warned


def test_only_the_path_of_a_file_is_asked_about_its_file(session, info):
    far = moves.dolly(2000, frames=33, width=128, height=128)
    asked = [any("file" in sentence for sentence in path_warnings(far, info, from_file)) for from_file in (True, False)]
    assert asked == [True, False]
    larger = dataclasses.replace(info, trained_shapes=())  # whose training clips are not known
    assert path_warnings(far, larger) == [
        "The camera moves 2000 units from where it starts: expected less than 100, the extent of a large scene."
    ]


def test_a_lens_that_cannot_be_is_refused_without_a_matrix(session):
    with pytest.raises(SightlineError, match="expected focal lengths from") as caught:
        session.set_move("zoom:28>1e12")
    assert "[[" not in str(caught.value)


def test_a_size_whose_preview_would_fill_the_memory_is_refused():
    info = ModelInfo.from_configs(TI2V_5B.components())  # which could count the tokens of 32768x32768 pixels
    session = Session(info)
    session.set_size(5, 3840, 2176)
    with pytest.raises(SightlineError, match="size is 7040x7040: expected at most 9,000,000 pixels"):
        session.set_size(5, 7040, 7040)
    assert (session.width, session.height) == (3840, 2176)


def test_undo_takes_the_lens_back_too(session):
    use_keys(session)
    session.set_lens(50.0)
    assert session.undo() and session.focal_mm == 28.0
    assert float(session.trajectory.intrinsics[0, 0, 0]) == pytest.approx(28.0 * 128 / 36)
    assert session.redo() and session.focal_mm == 50.0 and not session.redo()


def test_undo_of_the_first_keys_brings_the_typed_moves_back(session):
    session.set_move("truck:0.4")
    typed = session.trajectory
    session.set_keys(keys_along(typed, 3))
    session.set_keys(session.history.current.change(1, seconds=2.0))
    assert session.undo() and session.mode == "keys"
    assert session.undo() and (session.mode, session.move) == ("move", "truck:0.4")
    assert torch.equal(session.trajectory.camera_to_world, typed.camera_to_world)
    assert session.history.has_path and not session.undo()  # so the page goes on to offer Redo
    assert session.redo() and session.mode == "keys" and len(session.history.current) == 3
    session.load(moves.arc(20, frames=50, width=320, height=240))
    followed = session.trajectory
    use_keys(session)
    assert session.undo() and session.mode == "file"
    assert torch.equal(session.trajectory.camera_to_world, followed.camera_to_world)


def dolly_zoom(session):
    session.set_depth("plane", 9.0)
    session.set_move("dolly_zoom:8")


def keys_of_a_longer_film(session):
    session.set_keys(keys_along(session.trajectory, 8))
    session.set_move("pan:10")
    session.set_size(5, 128, 128)


@pytest.mark.parametrize(
    "prepare, change",
    [
        (dolly_zoom, lambda session: session.set_depth("plane", 2.0)),  # the subject would be behind the camera
        (dolly_zoom, lambda session: session.set_world(3, "orbit")),
        (keys_of_a_longer_film, lambda session: session.undo()),  # fewer frames than keys
    ],
)
def test_a_change_that_leaves_no_path_is_refused_and_the_session_stays_as_it_was(session, prepare, change):
    prepare(session)
    fields = ("mode", "move", "world", "depth_source", "distance", "focal_mm", "history", "loaded")
    before, path = {name: getattr(session, name) for name in fields}, session.trajectory
    for _ in range(2):
        with pytest.raises(SightlineError, match="expected"):
            change(session)
        assert {name: getattr(session, name) for name in fields} == before
        assert torch.equal(session.trajectory.camera_to_world, path.camera_to_world)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                lambda session: session.set_move("dolly_zoom:1.5"),
                lambda session: session.set_move("static, pan:5, tilt:5, roll:5, truck:0.1"),
                lambda session: session.set_move("zoom:28>70"),
                lambda session: session.set_lens(50.0),
                lambda session: session.set_depth("plane", 1.0),
                lambda session: session.set_depth("box room", 40.0),
                lambda session: session.set_picture(None),
                lambda session: session.set_world(3, "orbit"),
                lambda session: session.set_size(5, 64, 64),
                lambda session: session.set_size(1, 64, 32),
                lambda session: session.set_keys(keys_along(session.trajectory, 7)),
                lambda session: session.set_keys(dataclasses.replace(session.history.current, loop=True)),
                lambda session: session.load(moves.arc(20, frames=3, width=32, height=24)),
                lambda session: session.undo(),
                lambda session: session.redo(),
            ]
        ),
        max_size=12,
    )
)
def test_whatever_is_done_and_undone_there_is_a_path_and_a_preview(info, actions):
    session = Session(info)
    session.set_size(5, 64, 64)
    for act in actions:
        with contextlib.suppress(SightlineError):
            act(session)
        path = session.trajectory
        assert (len(path), path.width, path.height) == (session.num_frames, session.width, session.height)
        assert torch.equal(path.camera_to_world[0], torch.eye(4, dtype=torch.float64))
        session.preview().frame(path, len(path) - 1)


def test_keys_along_a_zoom_have_its_lenses(session):
    session.set_move("zoom:50>70")
    path = session.trajectory
    session.set_keys(keys_along(path))
    torch.testing.assert_close(session.trajectory.intrinsics[[0, -1]], path.intrinsics[[0, -1]])
    assert session.focal_mm == pytest.approx(50.0)


def test_a_path_of_one_key_and_a_loop_of_two_are_filmed(session, info, library):
    session.set_size(5, 128, 128)
    session.set_keys(session.first_keys())
    for loop, count in ((False, 1), (True, 1), (True, 2)):
        keys = session.first_keys()
        keys = keys.insert(1, Key(random_poses(1, scale=0.2)[0])) if count == 2 else keys
        session.set_keys(Keyframes(keys.keys, loop))
        plan = make_plan(film_job(session, library, library.folder / "film"), info)
        assert torch.equal(plan.trajectory.camera_to_world, session.trajectory.camera_to_world)
        assert torch.equal(plan.trajectory.camera_to_world[-1], torch.eye(4, dtype=torch.float64))
        assert session.preview().frame(session.trajectory, 2)[0].shape == (128, 128, 3)


@pytest.mark.parametrize("size", [(1, 1), (1, 4000), (4000, 1)])
def test_a_picture_of_one_pixel_or_one_line_is_filmed(session, info, library, size):
    session.set_picture(Image.new("RGB", size, (200, 30, 40)))
    assert np.array_equal(session.first_picture(), np.full((128, 128, 3), (200, 30, 40), np.uint8))
    frame, holes = session.preview().frame(session.trajectory, 10)
    assert frame.shape == (128, 128, 3) and not holes.all()
    plan = make_plan(film_job(session, library, library.folder / "film"), info)
    assert np.array_equal(np.asarray(plan.image), session.first_picture())


def test_the_depths_of_a_file_and_of_a_model_are_kept_apart(session):
    session.set_depth("file", values=np.full((10, 20), 4.0, np.float32))
    with pytest.raises(SightlineError, match="without values"):
        session.set_depth("model")
    session.set_depth("model", values=np.full((10, 20), 6.0, np.float32))
    assert float(session.depth().mean()) == float(session.preview().depth.mean()) == 6.0
    session.set_depth("file")
    assert float(session.depth().mean()) == float(session.preview().depth.mean()) == 4.0


def test_a_depth_file_is_cropped_anew_for_another_size(session):
    columns = np.tile(np.arange(1, 201, dtype=np.float32), (100, 1))
    session.set_depth("file", values=columns)
    assert [float(session.depth()[0, column]) for column in (0, -1)] == [51.0, 150.0]
    session.set_size(33, 256, 128)
    assert [float(session.depth()[0, column]) for column in (0, -1)] == [1.0, 200.0]


def test_a_new_picture_of_the_same_size_has_a_new_preview(session):
    for colour in (10, 200):
        session.set_picture(Image.new("RGB", (128, 128), (colour,) * 3))
        assert int(session.preview().picture[0, 0, 0]) == colour


def test_the_preview_of_a_world_follows_the_number_of_frames(session):
    """Where the first camera of this world stands depends on the length of the clip."""
    session.set_world(3, "orbit")
    session.set_move("static")
    before = session.preview().picture
    session.set_size(5, session.width, session.height)
    assert np.array_equal(session.preview().picture, session.first_picture())
    assert np.array_equal(session.true_frame(0), session.first_picture())
    assert not np.array_equal(session.preview().picture, before)


def test_a_lens_that_the_model_cannot_represent_is_warned_of(session, info):
    one_lens = dataclasses.replace(info, fixed_lens=True, centred_lens=True, pinhole_only=True)
    session.set_move("zoom:28>70")
    assert any(
        "No film can be generated: trajectory has a lens that changes" in sentence
        for sentence in path_warnings(session.trajectory, one_lens)
    )
    session.set_move("orbit:20")
    assert path_warnings(session.trajectory, one_lens) == []
    assert "No film can be generated" in path_warnings(session.trajectory.replace(xi=0.4), one_lens)[0]


def test_a_picture_of_another_shape_says_what_it_loses(session):
    for size, words in (((200, 200), ""), ((320, 200), "left and right"), ((200, 320), "top and bottom")):
        session.set_picture(Image.new("RGB", size))
        assert words in session.crop and bool(words) == bool(session.crop)
