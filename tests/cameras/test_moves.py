"""Camera moves: their directions, what they keep in the picture, and errors for bad numbers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.cameras import moves, se3
from sightline.cameras.moves.shot import Shot, ShotOptions
from sightline.errors import SightlineError
from tests.cameras.move_checks import DOWN, EASINGS, FORWARD, LEFT, RIGHT, UP, close, focal_mm, seen

# -- what all moves share ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", moves.MOVES)
@pytest.mark.parametrize("frames", [1, 2, 9])
def test_every_move_has_defaults_and_starts_at_the_identity(name: str, frames: int) -> None:
    trajectory = moves.MOVES[name](frames=frames)
    assert len(trajectory) == frames
    assert torch.equal(trajectory.camera_to_world[0], torch.eye(4).double())


@pytest.mark.parametrize("name", moves.MOVES)
def test_default_picture_is_81_frames_of_832x480_at_16_fps_through_28_mm(name: str) -> None:
    trajectory = moves.MOVES[name]()
    assert (len(trajectory), trajectory.width, trajectory.height, trajectory.fps) == (81, 832, 480, 16.0)
    assert float(focal_mm(trajectory)[0]) == pytest.approx(28.0)
    assert trajectory.intrinsics[0, :2, 2].tolist() == [416.0, 240.0]


@pytest.mark.parametrize("name", moves.MOVES)
def test_every_move_documents_itself_and_takes_the_shot_keywords(name: str) -> None:
    move = moves.MOVES[name]
    assert move.__doc__
    trajectory = move(frames=5, easing="ease", focal_mm=35, width=640, height=352, fps=24)
    assert (len(trajectory), trajectory.width, trajectory.height, trajectory.fps) == (5, 640, 352, 24.0)
    assert float(focal_mm(trajectory)[0]) == pytest.approx(35.0)


def test_the_shot_keywords_are_the_fields_of_the_setup() -> None:
    assert list(ShotOptions.__annotations__) == [field.name for field in dataclasses.fields(Shot)]


@pytest.mark.parametrize("name", moves.MOVES)
def test_an_option_that_no_move_has_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(SightlineError, match="no option 'num_frames': expected its own, or frames, easing"):
        moves.MOVES[name](num_frames=33)


# -- directions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, axis", [("truck", RIGHT), ("pedestal", UP), ("dolly", FORWARD)])
@given(distance=st.floats(-5, 5))
def test_moving_without_turning(name: str, axis: torch.Tensor, distance: float) -> None:
    trajectory = moves.MOVES[name](distance, frames=5)
    assert close(trajectory.positions, torch.linspace(0, distance, 5, dtype=torch.float64)[:, None] * axis)
    assert torch.equal(trajectory.rotations, torch.eye(3).double().expand(5, 3, 3))


@pytest.mark.parametrize("name, towards", [("pan", RIGHT), ("tilt", UP)])
@given(degrees=st.floats(-80, 80))
def test_turning_on_the_spot(name: str, towards: torch.Tensor, degrees: float) -> None:
    trajectory = moves.MOVES[name](degrees, frames=5)
    angle = torch.deg2rad(torch.linspace(0, degrees, 5, dtype=torch.float64))[:, None]
    assert close(trajectory.rotations[:, :, 2], angle.cos() * FORWARD + angle.sin() * towards)
    assert not trajectory.positions.any()


def test_roll_is_clockwise_from_behind_the_camera() -> None:
    trajectory = moves.roll(90, frames=2)
    assert close(trajectory.rotations[-1, :, 2], FORWARD)
    assert close(trajectory.rotations[-1, :, 0], DOWN)  # the camera's right side now points down
    horizon = seen(moves.roll(10, frames=2), [1.0, 0.0, 2.0])
    assert horizon[-1, 1] < horizon[0, 1]  # its right end climbs in the picture


def test_contents_move_against_the_camera() -> None:
    for trajectory, axis, sign in [
        (moves.pan(10), 0, -1), (moves.tilt(10), 1, +1), (moves.truck(0.5), 0, -1), (moves.pedestal(0.3), 1, +1),
    ]:  # fmt: skip
        pixels = seen(trajectory, [0, 0, 2.0])
        assert sign * (pixels[-1, axis] - pixels[0, axis]) > 10
    pixels = seen(moves.dolly(0.5), [0.2, 0, 2.0])
    assert pixels[-1, 0] > pixels[0, 0]  # approaching spreads the picture


# -- around a subject ----------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(degrees=st.floats(-400, 400), depth=st.floats(0.1, 50), easing=st.sampled_from(EASINGS))
def test_orbit_keeps_the_subject_centred_at_one_distance(degrees: float, depth: float, easing: moves.Easing) -> None:
    trajectory = moves.orbit(degrees, depth, frames=13, easing=easing)
    assert close(seen(trajectory, [0, 0, depth]), torch.tensor([416.0, 240.0]).double(), 1e-6)
    distance = (trajectory.positions - depth * FORWARD).norm(dim=-1)
    assert close(distance / depth, torch.ones(13).double())


def test_orbit_goes_right_and_counter_clockwise_from_above() -> None:
    trajectory = moves.orbit(90, 2.0, frames=3)
    assert close(trajectory.positions[-1], torch.tensor([2.0, 0, 2.0]).double())
    assert close(trajectory.rotations[-1, :, 2], LEFT)  # from the right side it looks left
    assert close(moves.orbit(-90, 2.0, frames=3).rotations[-1, :, 2], RIGHT)


def test_arc_climbs_on_the_sphere_without_roll() -> None:
    trajectory = moves.arc(40, 30, 2.0)
    assert close((trajectory.positions - 2.0 * FORWARD).norm(dim=-1), torch.full((81,), 2.0).double())
    assert close(seen(trajectory, [0, 0, 2.0]), torch.tensor([416.0, 240.0]).double(), 1e-6)
    assert float(trajectory.positions[-1, 1]) == pytest.approx(-2.0 * 0.5)  # 30 degrees up at radius 2
    assert close(trajectory.rotations[:, 1, 0], torch.zeros(81).double())  # the camera's x axis stays level


def test_spiral_ends_nearer_by_the_approach() -> None:
    trajectory = moves.spiral(270, 0.5, 2.0)
    distance = (trajectory.positions - 2.0 * FORWARD).norm(dim=-1)
    assert float(distance[-1]) == pytest.approx(1.5)
    assert (distance.diff() < 0).all()
    assert close(seen(trajectory, [0, 0, 2.0]), torch.tensor([416.0, 240.0]).double(), 1e-6)
    assert trajectory.positions[5, 0] > 0


def test_crane_rises_straight_and_looks_down_at_the_subject() -> None:
    trajectory = moves.crane(1.0, 2.0)
    assert close(trajectory.positions[-1], UP)
    assert close(seen(trajectory, [0, 0, 2.0]), torch.tensor([416.0, 240.0]).double(), 1e-6)
    assert trajectory.rotations[-1, 1, 2] > 0


# -- the lens --------------------------------------------------------------------------------------------------------


def test_zoom_changes_only_the_lens_by_an_even_factor() -> None:
    trajectory = moves.zoom(from_mm=28, to_mm=70, frames=11)
    assert torch.equal(trajectory.camera_to_world, moves.static(frames=11).camera_to_world)
    assert focal_mm(trajectory)[[0, -1]].tolist() == pytest.approx([28.0, 70.0])
    factor = focal_mm(trajectory)[1:] / focal_mm(trajectory)[:-1]
    assert close(factor, factor[:1].expand(10))
    assert focal_mm(moves.zoom(to_mm=70, focal_mm=35))[0] == pytest.approx(35.0)


def test_zoom_refuses_two_starts() -> None:
    with pytest.raises(SightlineError, match="from_mm is 35 but focal_mm is 28"):
        moves.zoom(from_mm=35, to_mm=70, focal_mm=28)


@given(distance=st.floats(-3, 1.8), depth=st.just(2.0))
def test_dolly_zoom_keeps_the_subject_s_size(distance: float, depth: float) -> None:
    trajectory = moves.dolly_zoom(distance, depth, frames=7)
    size = (seen(trajectory, [0.3, 0.2, depth]) - seen(trajectory, [-0.3, -0.2, depth])).abs()
    assert close(size, size[:1].expand(7, 2), 1e-6)
    if abs(distance) > 1e-3:
        behind = seen(trajectory, [0.3, 0, 2 * depth])[:, 0]
        assert float(behind[-1] - behind[0]) * distance < 0  # going in, the background shrinks


# -- handheld --------------------------------------------------------------------------------------------------------


def test_handheld_is_the_same_for_a_seed_and_starts_like_a_shorter_take() -> None:
    again = moves.handheld(seed=3)
    assert torch.equal(moves.handheld(seed=3).camera_to_world, again.camera_to_world)
    assert not torch.equal(moves.handheld(seed=4).camera_to_world, again.camera_to_world)
    assert torch.equal(moves.handheld(seed=3, frames=20).camera_to_world, again.camera_to_world[:20])


def test_handheld_is_frozen() -> None:
    """These numbers must come out on any machine and any version."""
    last = moves.handheld(1.0, 0.1, seed=7, frames=17).camera_to_world[-1]
    assert last[:3, 3].tolist() == pytest.approx(
        [-0.2722095445815098, 0.03135168024538354, 0.18327325208337789], rel=1e-9
    )


def test_handheld_has_the_size_it_says_and_is_smooth() -> None:
    trajectory = moves.handheld(degrees=0.5, sway=0.02, seed=1, frames=6001, fps=16)
    assert close(trajectory.positions.std(dim=0) / 0.02, torch.ones(3).double(), 0.1)
    pan = torch.atan2(trajectory.rotations[:, 0, 2], trajectory.rotations[:, 2, 2]).rad2deg()
    assert float(pan.std()) == pytest.approx(0.5, rel=0.1)
    spectrum = torch.fft.rfft(trajectory.positions[:, 0] - trajectory.positions[:, 0].mean()).abs().square()
    hertz = torch.fft.rfftfreq(6001, 1 / 16)
    assert float(spectrum[hertz > 2.8].sum() / spectrum.sum()) < 1e-3


# -- easing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("easing", EASINGS)
@pytest.mark.parametrize("frames", [2, 3, 81])
def test_easing_goes_from_start_to_end_and_never_back(easing: moves.Easing, frames: int) -> None:
    x = moves.truck(2.0, frames=frames, easing=easing).positions[:, 0]
    assert float(x[0]) == 0.0
    assert float(x[-1]) == 2.0
    assert (x.diff() > 0).all()


def test_easing_is_gentle_where_it_says() -> None:
    def first_and_last_step(easing: moves.Easing) -> tuple[float, float]:
        steps = moves.truck(80.0, easing=easing).positions[:, 0].diff()
        return float(steps[0]), float(steps[-1])

    assert first_and_last_step("linear") == pytest.approx((1.0, 1.0))
    assert max(first_and_last_step("ease")) < 0.1
    assert first_and_last_step("ease_in") == pytest.approx((0.0125, 1.9875))
    assert first_and_last_step("ease_out") == pytest.approx((1.9875, 0.0125))


# -- bad numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, argument",
    [
        (lambda: moves.pan(float("nan")), "degrees"),
        (lambda: moves.truck(float("inf")), "distance"),
        (lambda: moves.orbit(30, 0), "target_depth"),
        (lambda: moves.crane(1, -1), "target_depth"),
        (lambda: moves.loop_orbit(30, 0), "target_depth"),
        (lambda: moves.loop_nonpalindromic(4, 2), "distance"),
        (lambda: moves.arc(elevation=90), "elevation"),
        (lambda: moves.spiral(approach=2), "approach"),
        (lambda: moves.dolly_zoom(2, 2), "distance"),
        (lambda: moves.zoom(to_mm=0), "to_mm"),
        (lambda: moves.zoom(from_mm=-1), "from_mm"),
        (lambda: moves.handheld(seed=0.5), "seed"),  # type: ignore[arg-type]
        (lambda: moves.handheld(sway=float("nan")), "sway"),
        (lambda: moves.static(frames=0), "frames"),
        (lambda: moves.static(frames=2.0), "frames"),  # type: ignore[arg-type]
        (lambda: moves.static(focal_mm=-28), "focal_mm"),
        (lambda: moves.static(fps=0), "fps"),
        (lambda: moves.static(width=0), "width"),
        (lambda: moves.static(easing="bouncy"), "easing"),  # type: ignore[arg-type]
    ],
)
def test_bad_numbers_name_their_argument(make, argument: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SightlineError, match=rf"^{argument} is .*expected"):
        make()


def test_composition_keeps_frames_and_adds_up() -> None:
    both = moves.dolly(1, frames=9).combine(moves.truck(1, frames=9))
    assert len(both) == 9
    assert close(both.positions[-1], FORWARD + RIGHT)
    row = moves.pan(90, frames=9).concatenate(moves.dolly(1, frames=5))
    assert len(row) == 13
    assert close(row.positions[-1], RIGHT)  # after the pan, forward is to the right
    assert close(se3.rotation_angle(row.rotations[-1]).rad2deg(), torch.tensor(90.0).double())
