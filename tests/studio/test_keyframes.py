"""Keyframes: the spline passes through every key, and editing can be undone."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import lens, moves, se3
from sightline.errors import SightlineError
from sightline.studio.history import History
from sightline.studio.keyframes import Key, Keyframes, keys_along
from sightline.studio.rotations import exp_rotation, log_rotation
from tests.conftest import random_poses

EASINGS = st.sampled_from(["linear", "ease", "ease_in", "ease_out"])


@st.composite
def keyframes(draw):
    count = draw(st.integers(1, 6))
    poses = random_poses(count, seed=draw(st.integers(0, 10_000)))
    keys = [Key(pose, draw(st.floats(10, 200)), draw(st.floats(0.05, 5)), draw(EASINGS)) for pose in poses]
    return Keyframes(tuple(keys), loop=draw(st.booleans()))


@given(keyframes(), st.integers(7, 81))
def test_the_spline_passes_through_every_key_and_the_last_frame_is_the_last_key(path, frames):
    trajectory = path.trajectory(frames, 64, 48)
    at = path.key_frames(frames)
    assert len(trajectory) == frames and at[0] == 0 and all(a < b for a, b in pairwise(at))
    expected = [*path.keys, path.keys[0]] if path.loop and len(path) > 1 else path.keys
    for frame, key in zip(at, expected, strict=True):
        torch.testing.assert_close(trajectory.camera_to_world[frame], key.camera_to_world, atol=1e-12, rtol=0)
        focal = trajectory.intrinsics[frame, 0, 0] * lens.FULL_FRAME_MM / 64
        assert float(focal) == pytest.approx(key.focal_mm, rel=1e-12)
    if len(path) > 1:
        assert at[-1] == frames - 1


@given(keyframes(), st.integers(7, 81))
def test_the_lens_stays_between_the_lenses_of_the_keys(path, frames):
    focal = path.trajectory(frames, 64, 48).intrinsics[:, 0, 0] * lens.FULL_FRAME_MM / 64
    lenses = [key.focal_mm for key in path.keys]
    assert min(lenses) * (1 - 1e-9) <= float(focal.min()) and float(focal.max()) <= max(lenses) * (1 + 1e-9)


def line(*positions, seconds=1.0, loop=False):
    poses = se3.from_parts(torch.eye(3, dtype=torch.float64), torch.tensor(positions, dtype=torch.float64))
    return Keyframes(tuple(Key(pose, seconds=seconds) for pose in poses), loop)


def test_keys_on_a_line_at_even_times_give_constant_speed():
    steps = line([0, 0, 0], [1, 0, 0], [2, 0, 0]).trajectory(33).positions.diff(dim=0)
    torch.testing.assert_close(steps, torch.tensor([2 / 32, 0, 0], dtype=torch.float64).expand(32, 3))


def test_the_path_is_smooth_at_a_key_and_a_camera_that_stays_does_not_sway():
    steps = line([0, 0, 0], [1, 0, 0], [1, 1, 0]).trajectory(129).positions.diff(dim=0)
    middle = steps[62:66] / steps[62:66].norm(dim=-1, keepdim=True)
    assert float((middle[1] * middle[2]).sum()) > 0.99
    still = line([0, 0, 0], [1, 0, 0], [1, 0, 0], [2, 0, 0]).trajectory(97).positions
    assert float((still[32:65] - still[32]).norm(dim=-1).max()) < 1e-12


def test_easing_slows_the_ends_of_a_transition():
    path = line([0, 0, 0], [1, 0, 0])
    eased = path.change(0, easing="ease").trajectory(33).positions[:, 0]
    assert float(eased[1] - eased[0]) < 0.2 / 32 and float(eased[17] - eased[16]) > 1.4 / 32


def test_seconds_decide_when_a_key_is_reached_and_every_key_gets_a_frame():
    path = line([0, 0, 0], [1, 0, 0], [2, 0, 0]).change(0, seconds=3.0)
    assert path.seconds == 4.0 and path.key_frames(33) == [0, 24, 32]
    hurried = line([0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]).change(0, seconds=1000.0)
    assert hurried.key_frames(5) == [0, 2, 3, 4]
    with pytest.raises(SightlineError, match="frames is 3: expected at least 4, one for each key"):
        hurried.trajectory(3)


def test_a_loop_returns_to_its_first_key():
    path = line([0, 0, 0], [1, 0, 0], [1, 1, 0], loop=True)
    trajectory = path.trajectory(49)
    assert path.seconds == 3.0
    assert torch.equal(trajectory.camera_to_world[-1], path.keys[0].camera_to_world)


def test_insert_delete_and_change_leave_the_other_keys_alone():
    path = line([0, 0, 0], [1, 0, 0])
    longer = path.insert(1, path.keys[0].replace(focal_mm=50.0))
    assert [key.focal_mm for key in longer.keys] == [28.0, 50.0, 28.0]
    assert longer.delete(1).keys == path.keys
    for wrong in (lambda: path.delete(2), lambda: path.insert(5, path.keys[0]), lambda: path.delete(0).delete(0)):
        with pytest.raises(SightlineError, match="expected"):
            wrong()


@pytest.mark.parametrize("field, value", [("focal_mm", 0), ("seconds", float("nan")), ("easing", "bounce")])
def test_a_bad_field_is_refused_by_name(field, value):
    with pytest.raises(SightlineError, match=field):
        Key(torch.eye(4)).replace(**{field: value})


@given(st.lists(st.sampled_from(["change", "undo", "redo"]), max_size=40))
def test_undo_and_redo_walk_along_the_states_that_were_made(actions):
    history, states, place, counter = History(line([0, 0, 0], [1, 0, 0])), [], 0, 0
    states = [history.current]
    for action in actions:
        if action == "change":
            counter += 1
            history.apply(history.current.change(1, focal_mm=20.0 + counter))
            states, place = [*states[: place + 1], history.current], place + 1
        elif action == "undo":
            assert history.undo() == ("keys" if place > 0 else None)
            place = max(place - 1, 0)
        else:
            assert history.redo() == ("keys" if place < len(states) - 1 else None)
            place = min(place + 1, len(states) - 1)
        assert history.current is states[place]


def test_rotation_vectors_invert():
    vectors = torch.rand(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3 - 1.5
    vectors = torch.cat([vectors, torch.zeros(1, 3, dtype=torch.float64), 1e-14 * vectors[:1]])
    torch.testing.assert_close(log_rotation(exp_rotation(vectors)), vectors, atol=1e-12, rtol=1e-9)


def test_a_path_of_one_key_stays_where_it_is():
    for loop in (False, True):
        path = line([0, 0, 0], loop=loop)
        trajectory = path.trajectory(9)
        assert path.seconds == 0.0 and path.key_frames(9) == [0]
        assert torch.equal(trajectory.camera_to_world, torch.eye(4, dtype=torch.float64).expand(9, 4, 4))
        assert len(path.trajectory(1)) == 1
    with pytest.raises(SightlineError, match="there are 0 keys"):
        path.delete(0)


def test_a_loop_of_two_keys_goes_there_and_back():
    path = line([0, 0, 0], [1, 0, 0], loop=True)
    x = path.trajectory(33).positions[:, 0]
    assert path.seconds == 2.0 and path.key_frames(33) == [0, 16, 32]
    assert float(x[0]) == float(x[-1]) == 0.0 and float(x[16]) == 1.0 == float(x.max())
    torch.testing.assert_close(x, x.flip(0), atol=1e-12, rtol=0)
    with pytest.raises(SightlineError, match="frames is 2: expected at least 3"):
        path.trajectory(2)


def test_keys_along_a_path_of_one_frame_or_two():
    assert [len(keys_along(moves.truck(1.0, frames=frames))) for frames in (2, 3, 33)] == [2, 3, 4]
    with pytest.raises(SightlineError, match="the film has 1 frame: expected at least 2"):
        keys_along(moves.static(frames=1))
