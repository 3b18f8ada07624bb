"""The line of text that names moves: its grammar, its errors, and the names that other tools use."""

from __future__ import annotations

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import moves
from sightline.errors import SightlineError
from tests.cameras.move_checks import same


@pytest.mark.parametrize(
    "text, expected",
    [
        ("static", lambda: moves.static()),
        ("orbit:30", lambda: moves.orbit(30)),
        ("pan:+20", lambda: moves.pan(20)),
        (" Dolly : 1e+0 ", lambda: moves.dolly(1)),
        ("orbit:-30:3", lambda: moves.orbit(-30, 3)),
        ("arc:30:target_depth=3", lambda: moves.arc(30, target_depth=3)),
        ("handheld:seed=5", lambda: moves.handheld(seed=5)),
        ("zoom:28>70", lambda: moves.zoom(28, 70)),
        ("zoom:35 > 70", lambda: moves.zoom(35, 70)),
        ("zoom:70", lambda: moves.zoom(to_mm=70)),
        ("dolly zoom:0.5", lambda: moves.dolly_zoom(0.5)),
        ("dolly:0.5+pan:20", lambda: moves.dolly(0.5).combine(moves.pan(20))),
        ("truck:1, pan:-30", lambda: moves.truck(1, frames=41).concatenate(moves.pan(-30, frames=41))),
        ("loop_truck:0.2 + handheld", lambda: moves.loop_truck(0.2).combine(moves.handheld())),
    ],
)
def test_parse(text: str, expected) -> None:  # type: ignore[no-untyped-def]
    assert same(moves.parse(text), expected())


def test_parse_passes_the_shot_on() -> None:
    trajectory = moves.parse("pan:20", frames=9, easing="ease", width=640, height=352, fps=24)
    assert same(trajectory, moves.pan(20, frames=9, easing="ease", width=640, height=352, fps=24))


@given(parts=st.integers(1, 6), spare=st.integers(0, 100))
def test_moves_in_a_row_share_the_frames(parts: int, spare: int) -> None:
    frames = parts + 1 + spare
    trajectory = moves.parse(", ".join(["truck:1"] * parts), frames=frames)
    assert len(trajectory) == frames
    assert float(trajectory.positions[-1, 0]) == pytest.approx(parts)
    steps = trajectory.positions[:, 0].diff()
    assert float(steps.min()) > 0
    assert float(1 / steps.min() - 1 / steps.max()) < 1 + 1e-6  # no part has more than one frame more than another


def test_a_row_keeps_the_lens_where_the_zoom_left_it() -> None:
    trajectory = moves.parse("truck:1, zoom:35>70, pan:30, zoom:50")
    mm = trajectory.intrinsics[:, 0, 0] * 36 / trajectory.width
    assert mm[[0, 20, 40, 60, 80]].tolist() == pytest.approx([35, 35, 70, 70, 50])
    with pytest.raises(SightlineError, match="from_mm is 35 but focal_mm is 28"):
        moves.parse("zoom:35>70", focal_mm=28)


@pytest.mark.parametrize(
    "text, message",
    [
        ("wobble:3", "move is 'wobble:3': found the word 'wobble', expected one of static, pan, tilt"),
        ("", "move is ''"),
        ("pan:30,", "move is ''"),
        ("+pan:30", "move is ''"),
        ("pan:x", "pan has the amount 'x': expected a number"),
        ("pan:30+", "pan has the amount '30+'"),
        ("pan:", "pan has the amount ''"),
        ("pan:1:2", "pan has the amount '2': expected degrees"),
        ("pan:1:degrees=2", "pan has the amount 'degrees=2'"),
        ("static:4", "static has the amount '4': expected none"),
        ("orbit:30:frames=3", "orbit has the amount 'frames=3': expected degrees, target_depth"),
        ("pan:28>70", "pan has the amount '28>70': expected a number"),
        ("zoom:28>x", "zoom has the amount 'x'"),
        ("zoom:28>-1", "to_mm is -1"),
        ("orbit:nan", "degrees is nan"),
    ],
)
def test_parse_errors_are_one_sentence(text: str, message: str) -> None:
    with pytest.raises(SightlineError) as caught:
        moves.parse(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_few_frames_for_a_row() -> None:
    with pytest.raises(SightlineError, match="frames is 2: expected at least 3"):
        moves.parse("pan, tilt", frames=2)


# -- old strings -------------------------------------------------------------------------------------------------------

_AMOUNTS = {
    "static": (), "pan": ("degrees",), "tilt": ("degrees",), "roll": ("degrees",), "truck": ("distance",),
    "pedestal": ("distance",), "dolly": ("distance",), "orbit": ("degrees", "target_depth"),
    "arc": ("degrees", "elevation", "target_depth"), "spiral": ("degrees", "approach", "target_depth"),
    "crane": ("rise", "target_depth"), "handheld": ("degrees", "sway"), "loop_truck": ("distance",),
    "loop_orbit": ("degrees", "target_depth"),
}  # fmt: skip


@st.composite
def old_moves(draw: st.DrawFn) -> tuple[str, str, dict[str, float]]:
    """A move in the syntax of names, colons and numbers, and the call that it stands for."""
    name = draw(st.sampled_from(sorted(_AMOUNTS)))
    text, amounts = name, {}
    for amount in _AMOUNTS[name][: draw(st.integers(0, 3))]:
        low = 2.0 if amount == "target_depth" else -1.5
        value = draw(st.floats(low, 9.0 if amount in ("degrees", "elevation", "target_depth") else 1.5))
        amounts[amount] = value
        text += draw(st.sampled_from([f":{value!r}", f" : {value!r} ", f":{amount}={value!r}"]))
    return draw(st.sampled_from([text, text.title() if not amounts else text])), name, amounts


@given(rows=st.lists(st.lists(old_moves(), min_size=1, max_size=3), min_size=1, max_size=4), frames=st.integers(5, 40))
def test_names_colons_and_numbers_mean_what_they_always_meant(
    rows: list[list[tuple[str, str, dict[str, float]]]], frames: int
) -> None:
    text = ", ".join("+".join(move for move, _, _ in row) for row in rows)
    steps, expected = frames - 1, None
    for index, row in enumerate(rows):
        own = steps * (index + 1) // len(rows) - steps * index // len(rows) + 1
        part = None
        for _, name, amounts in row:
            one = moves.MOVES[name](**amounts, frames=own)
            part = one if part is None else part.combine(one)
        expected = part if expected is None else expected.concatenate(part)
    result = moves.parse(text, frames=frames)
    assert torch.equal(result.camera_to_world, expected.camera_to_world)
    assert same(result, expected)  # the lens too


# -- other tools' names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "alias, expected",
    [
        ("pan left", lambda amount: moves.pan(-amount)),
        ("pan_right", lambda amount: moves.pan(amount)),
        ("Pedestal-Down", lambda amount: moves.pedestal(-amount)),
        ("move forward", lambda amount: moves.dolly(amount)),
        ("push in", lambda amount: moves.dolly(amount)),
        ("pull out", lambda amount: moves.dolly(-amount)),
        ("track", lambda amount: moves.truck(amount)),
        ("boom", lambda amount: moves.pedestal(amount)),
        ("yaw", lambda amount: moves.pan(amount)),
        ("pitch", lambda amount: moves.tilt(amount)),
        ("tilt down", lambda amount: moves.tilt(-amount)),
        ("anticlockwise", lambda amount: moves.roll(-amount)),
        ("orbit left", lambda amount: moves.orbit(-amount)),
    ],
)
def test_aliases(alias: str, expected) -> None:  # type: ignore[no-untyped-def]
    assert same(moves.parse(f"{alias}:0.7"), expected(0.7))
    assert same(moves.get_move(alias)(0.7), expected(0.7))


def test_an_opposite_alias_keeps_the_default_amount_and_the_other_arguments() -> None:
    assert same(moves.get_move("pull out")(), moves.dolly(-0.5))
    assert same(moves.get_move("orbit left")(degrees=20, target_depth=3, frames=5), moves.orbit(-20, 3, frames=5))


@pytest.mark.parametrize("verb", moves.VERBS)
def test_every_verb_and_direction_leads_to_a_move(verb: str) -> None:
    for direction in moves.VERBS[verb]:
        assert len(moves.get_move(f"{verb} {direction}")(frames=3)) == 3
        assert len(moves.parse(f"{verb} {direction}", frames=3)) == 3


def test_an_alias_says_once_in_each_line_what_it_means(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="sightline"):
        moves.parse("zoom in 50, zoom_in:70")
        moves.parse("zoom_in:70")
        moves.parse("push in:1")
        moves.parse("tilt up 3")
    assert [record.getMessage() for record in caplog.records] == [
        "zoom in changes the lens; to move the camera say dolly in.",
        "zoom in changes the lens; to move the camera say dolly in.",
        "push in is read as dolly in.",
    ]
    line = moves.MoveLine.read("push in 1, then pan left 20, then push in 2")
    assert line.notes == ["push in is read as dolly in.", "pan left turns the camera; to move it say truck left."]


def test_a_speed_without_effect_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="sightline"):
        moves.parse("slow tilt up 30")
    assert "the speed in 'slow tilt up 30' has no effect" in caplog.text
