"""The line of text that names film moves: its grammar, its errors, and other tools' names."""

from __future__ import annotations

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import moves
from sightline.cameras.moves import language
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError


def same(a: Trajectory, b: Trajectory) -> bool:
    return all(
        torch.allclose(one, other, rtol=0, atol=1e-9)
        for one, other in ((a.camera_to_world, b.camera_to_world), (a.intrinsics, b.intrinsics))
    )


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
        ("wobble:3", "move is 'wobble': expected one of static, pan, tilt"),
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


# -- other tools' names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "alias, expected",
    [
        ("zoom in", lambda amount: moves.dolly(amount)),
        ("Zoom-Out", lambda amount: moves.dolly(-amount)),
        ("pan left", lambda amount: moves.truck(-amount)),
        ("pan_right", lambda amount: moves.truck(amount)),
        ("Pan Up", lambda amount: moves.pedestal(amount)),
        ("pan down", lambda amount: moves.pedestal(-amount)),
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
    assert same(moves.get_move("zoom out")(), moves.dolly(-0.5))
    assert same(moves.get_move("orbit left")(degrees=20, target_depth=3, frames=5), moves.orbit(-20, 3, frames=5))


@pytest.mark.parametrize("alias", moves.ALIASES)
def test_every_alias_leads_to_a_move(alias: str) -> None:
    assert alias not in moves.MOVES
    assert len(moves.get_move(alias)(frames=3)) == 3


def test_an_alias_says_once_what_it_means(caplog: pytest.LogCaptureFixture) -> None:
    language._log_alias.cache_clear()
    with caplog.at_level(logging.INFO, logger="sightline"):
        moves.parse("zoom in:0.5")
        moves.parse("zoom_in:1")
        moves.parse("push in:1")
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == [
        (
            "WARNING",
            "zoom in is read as dolly (the camera moves forward); for a change of focal length say zoom:28>70.",
        ),
        ("INFO", "push in is read as dolly (the camera moves forward)."),
    ]
