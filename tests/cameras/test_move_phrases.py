"""Moves as film makers write them: what is understood, and what is refused with a suggestion."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import moves
from sightline.cameras.moves.spelled_numbers import with_digits
from sightline.errors import SightlineError
from tests.cameras.move_checks import same


@pytest.mark.parametrize(
    "text, expected",
    [
        ("pan left 30", lambda: moves.pan(-30)),
        ("pan left:30", lambda: moves.pan(-30)),
        ("pan:30 left", lambda: moves.pan(-30)),
        ("Pan to the left by 30 degrees", lambda: moves.pan(-30)),
        ("pan left 30\N{DEGREE SIGN}", lambda: moves.pan(-30)),
        ("camera pans left", lambda: moves.pan(-30)),
        ("tilt down 10 deg", lambda: moves.tilt(-10)),
        ("roll counter-clockwise 5", lambda: moves.roll(-5)),
        ("dolly-in 0.5", lambda: moves.dolly(0.5)),
        ("dolly left 1", lambda: moves.truck(-1)),
        ("boom up", lambda: moves.pedestal(0.3)),
        ("move closer 0.2 m", lambda: moves.dolly(0.2)),
        ("pull back 1", lambda: moves.dolly(-1)),
        ("crane down 0.4", lambda: moves.crane(-0.4)),
        ("orbit left 45 radius 3 m", lambda: moves.orbit(-45, 3)),
        ("loop truck left 0.3", lambda: moves.loop_truck(-0.3)),
        ("dolly zoom out 0.5", lambda: moves.dolly_zoom(-0.5)),
        ("locked off", lambda: moves.static()),
        ("anticlockwise", lambda: moves.roll(-15)),
        ("zoom in", lambda: moves.zoom(28, 56)),
        ("zoom out 2x", lambda: moves.zoom(28, 14)),
        ("zoom in to 70 mm", lambda: moves.zoom(28, 70)),
        ("zoom from 35 to 70", lambda: moves.zoom(35, 70)),
        ("slow push in", lambda: moves.dolly(0.25)),
        ("tilt down quickly", lambda: moves.tilt(-30)),
        ("dolly in 0.5 and tilt up 10", lambda: moves.dolly(0.5).combine(moves.tilt(10))),
        ("dolly in 0.5, while panning left 20", lambda: moves.dolly(0.5).combine(moves.pan(-20))),
        (
            "dolly in 0.5, then tilt up 10",
            lambda: moves.dolly(0.5, frames=41).concatenate(moves.tilt(10, frames=41)),
        ),
        ("truck left 2 m for 2 seconds", lambda: moves.truck(-2, frames=33)),
        (
            "slow push in then orbit right 45 over 3 s",
            lambda: moves.dolly(0.25, frames=33).concatenate(moves.orbit(45, frames=49)),
        ),
        (
            "pan left 30 for 1 s; hold for 0.5 s followed by tilt up 5 for 2.5 s",
            lambda: moves.pan(-30, frames=17).concatenate(moves.static(frames=9)).concatenate(moves.tilt(5, frames=41)),
        ),
        ("Push in, then pan left.", lambda: moves.parse("dolly in, pan left")),
        (
            "whip pan left 30, tilt up 10",  # a third of the other's time
            lambda: moves.pan(-30, frames=21).concatenate(moves.tilt(10, frames=61)),
        ),
        ("whip pan left", lambda: moves.pan(-90)),
        ("swish-pan to the right", lambda: moves.pan(90)),
        ("dutch tilt left 20", lambda: moves.roll(-20)),
        ("Dutch angle", lambda: moves.roll()),
        ("truck left 10 ft", lambda: moves.truck(-3.048)),
        ("dolly in 1 foot", lambda: moves.dolly(0.3048)),
        ("orbit left 45 radius 6 feet", lambda: moves.orbit(-45, 6 * 0.3048)),
        ("push in 50 cm", lambda: moves.dolly(0.5)),
        ("tracking shot left", lambda: moves.truck(-0.5)),
        ("locked-off shot", lambda: moves.static()),
        ("orbit left around the subject by 45 degrees with a radius of 3", lambda: moves.orbit(-45, 3)),
        ("push in on the subject", lambda: moves.dolly(0.5)),
        ("orbit the subject", lambda: moves.orbit(30)),
        ("orbit left around it by 45", lambda: moves.orbit(-45)),
        ("orbit 30 at 2 m", lambda: moves.orbit(30, 2)),
        ("move towards the subject 1 m", lambda: moves.dolly(1)),
        ("dolly to the subject", lambda: moves.dolly(0.5)),
        ("step back from it 1 m", lambda: moves.dolly(-1)),
        ("zoom away from the subject", lambda: moves.zoom(28, 14)),
        ("pan from left to right 20", lambda: moves.pan(20)),
        ("pan left-to-right", lambda: moves.pan(30)),
        ("zoom into the subject", lambda: moves.zoom(28, 56)),  # a zoom in, whatever the lens
        ("zoom in on the subject 3x", lambda: moves.zoom(28, 84)),
        ("dolly zoom out on the subject", lambda: moves.dolly_zoom(-0.5)),
        ("tilt from top to bottom", lambda: moves.tilt(-15)),
        ("fly forward 2 m", lambda: moves.dolly(2)),
        ("rise 1 m", lambda: moves.pedestal(1)),
        ("lower the camera slowly", lambda: moves.pedestal(-0.15)),
        ("orbit left 45 in 3 seconds", lambda: moves.orbit(-45, frames=49)),
        ("dolly out 0.5 in 2 s", lambda: moves.dolly(-0.5, frames=33)),
        ("truck 2 m in 3 s", lambda: moves.truck(2, frames=49)),
        ("push in 3 s", lambda: moves.dolly(0.5, frames=49)),  # a direction and a time
        ("zoom in 3 s", lambda: moves.zoom(28, 56, frames=49)),
        ("go forward half a meter", lambda: moves.dolly(0.5)),
        ("track right two feet", lambda: moves.truck(0.6096)),
        ("truck right 6 inches", lambda: moves.truck(0.1524)),
        ("truck left 6' 3\"", lambda: moves.truck(-1.905)),
        ("boom down 20 centimeters", lambda: moves.pedestal(-0.2)),
        ("pull out a yard", lambda: moves.dolly(-0.9144)),
        ("pan right forty-five degrees in two seconds", lambda: moves.pan(45, frames=33)),
        (
            "slow push in over two seconds then hold for a second",
            lambda: moves.dolly(0.25, frames=33).concatenate(moves.static(frames=17)),
        ),
        ("2-second push in", lambda: moves.dolly(0.5, frames=33)),
        ("wait 1 s, then ped up 0.5", lambda: moves.parse("static over 1 s, then pedestal up 0.5")),
        ("360 around the subject", lambda: moves.orbit(360)),
        ("a three-sixty around the subject", lambda: moves.orbit(360)),
        ("orbit left one eighty", lambda: moves.orbit(-180)),
        ("pan right one twenty five degrees", lambda: moves.pan(125)),
        ("90 to the left around it", lambda: moves.orbit(-90)),
        ("fly around the subject 180", lambda: moves.orbit(180)),
        ("the camera moves left around it by 20", lambda: moves.orbit(-20)),
        ("truck left two feet as it pans right", lambda: moves.truck(-0.6096).combine(moves.pan(30))),
        ("orbit 45\N{DEGREE SIGN} at a distance of 3 m", lambda: moves.orbit(45, 3)),
        ("arc left 45 at 3 m", lambda: moves.arc(-45, 0, 3)),  # level, as film makers mean it
        ("arc right", lambda: moves.arc(30, 0)),
        ("arc:45", lambda: moves.arc(45)),  # the move of that name, which climbs
        ("zoom 35-85mm", lambda: moves.zoom(35, 85)),
        ("zoom 35 mm \N{EN DASH} 85 mm", lambda: moves.zoom(35, 85)),
        ("zoom in to seventy millimeters", lambda: moves.zoom(28, 70)),
        ("35mm to 85mm zoom", lambda: moves.zoom(35, 85)),
        ("zoom in by a factor of 3", lambda: moves.zoom(28, 84)),
        ("push in with a pan left of 20", lambda: moves.dolly(0.5).combine(moves.pan(-20))),
        ("push in 1 m, as the camera pans left 20", lambda: moves.dolly(1).combine(moves.pan(-20))),
        ("handheld push in 1 m", lambda: moves.handheld().combine(moves.dolly(1))),
        ("hand-held slow pan left", lambda: moves.handheld().combine(moves.pan(-15))),
        # The tilt says where the camera looks: the crane has no tilt of its own beside it, unless it names its subject.
        ("crane up 1.5 m while tilting down 20", lambda: moves.pedestal(1.5).combine(moves.tilt(-20))),
        ("crane down and tilt up 20", lambda: moves.pedestal(-0.5).combine(moves.tilt(20))),
        ("crane:1.5+tilt:-20", lambda: moves.crane(1.5).combine(moves.tilt(-20))),
        ("crane up 1.5 radius 3 and tilt down 20", lambda: moves.crane(1.5, 3).combine(moves.tilt(-20))),
        (
            "slow pan left 30, tilt up 10",  # the slow one gets twice the time
            lambda: moves.pan(-30, frames=54).concatenate(moves.tilt(10, frames=28)),
        ),
    ],
)
def test_words(text: str, expected) -> None:  # type: ignore[no-untyped-def]
    assert same(moves.parse(text), expected())


@pytest.mark.parametrize(
    "text, message",
    [
        ("orbti right 3", "found the word 'orbti', expected one of static, pan, .*; the nearest word is 'orbit'"),
        ("smooth pan left 30", "move is 'smooth pan left 30': found the word 'smooth', expected the option --easing"),
        ("rotate left", "found the word 'rotate', expected pan .sideways., tilt .up or down. or roll"),
        ("crash zoom in", "found the word 'crash', expected fast zoom in"),
        ("pan left and up", "found the direction 'up' alone, expected a verb with it, such as tilt up or pedestal up"),
        ("pan left around the room", "found 'around the room', expected an orbit or arc with it"),
        ("truck left on the subject", "found 'on the subject', expected a move in with it, such as push in"),
        ("pan left 30 to the subject", "found 'to the subject', expected a move in with it"),
        ("move the subject left", "found 'the subject', expected an orbit or arc with it"),
        ("push in from the subject", "found 'from the subject' with a move towards it, expected a move out"),
        (
            "crane up 1 m 50 cm",
            "found '1 m' and '50 cm', expected one amount, or a name with the second .target_depth=.",
        ),
        ("arc left 45 30", "found '45' and '30', expected one amount"),
        ("arc 45 -30", "found '45' and '-30', expected one amount"),  # no range
        ("spiral left 180 2 m", "found '180' and '2 m', expected one amount"),  # how far in, or its radius?
        ("pan right to left to right", "found 'right' twice, expected one direction"),
        ("zoom at 35 mm", "found 'at 35 mm', expected to 35 mm, or the option --focal-mm"),
        ("pan left at 2 s", "found 'at 2 s', expected over 2 s, or a move before it"),
        ("rise down", "found the direction 'down', expected up with rise"),
        ("pan left 30 ease out", "found the word 'ease', expected the option --easing: ease, ease_in, ease_out"),
        ("truck left 1 m panning right 20", "found truck and panning, expected one move, or 'and'"),
        ("truck left 1 m, then back", "found the direction 'back' alone, .* .to return: a loop, such as loop truck."),
        ("push in then pull back to start", "found the word 'start', expected .* a loop, such as loop truck"),
        ("pan left 30 in two shots", "found the word .two., expected one of"),
        ("orbit left 1/4", "found '/4'"),  # of a circle, not of a degree
        (
            "crane up 1 m, tilting down 20",
            "', tilting down 20': expected ', then' .afterwards., or 'and' without a comma",
        ),
        ("dolly in half the distance", "found the word 'half', expected an amount, such as half a metre"),
        ("dolly in a couple of feet", "found the word 'couple', expected an amount, such as 20 cm"),
        ("go sideways 1 m", "found the word 'sideways', expected left or right"),
        ("riseng 1 m", "the nearest word is 'rise'"),  # no form that is not a word, such as riseing
        ("zoom in on the face", "found the word 'on', expected on the subject, or on it"),
        (".", "move is ''"),
        ("pan lefft 3", "the nearest word is 'left'"),
        ("pan left 30 ovr 3 s", "the nearest word is 'over'"),
        ("pan up 20", "expected tilt up .the camera turns. or pedestal up"),
        ("orbit clockwise", "expected orbit left, which is clockwise seen from above"),
        ("pan tilt 3", "found pan and tilt, expected one move, or 'and'"),
        ("pan left right", "found the directions 'left' and 'right'"),
        ("dolly out 0.5 in 2 m", "a time is written over 2 s"),
        ("pan left -30", "found -30 with 'left', expected an amount above 0"),
        ("whip dolly in", "found 'whip', expected a pan or tilt with it, or 'fast'"),
        ("pan left 2 ft", "pan left has the amount '2 ft': expected degrees"),
        ("pan left 2 m", "pan left has the amount '2 m': expected degrees"),
        ("truck left 30 degrees", "truck left has the amount '30 degrees': expected scene units"),
        ("pan left 30 20", "pan left has the amount '20': expected degrees, each at most once"),
        ("pan to 30", "found 'to 30', expected how far to go"),
        ("zoom in:0.5 mm", "from 28 to 0.5 mm: expected more than 28 mm, .*say dolly in"),
        ("zoom 2", "found '2', expected a unit: 2x or 2 mm"),
        ("zoom out 1.5 over 2 s", "found '1.5', expected a unit: 1.5x or 1.5 mm"),
        ("dolly in 6 in", "found '6 in', expected 'in' before the amount, or 6 inches"),
        ("truck right 6 in", "found '6 in', expected 6 inches"),
        ("push:6 in", "found '6 in', expected 'in' before the amount"),
        ("pull back into the room", "found 'into the room' with a move away from it, expected a move in"),
        ("dolly -0.5 towards the subject", "found 'towards the subject' with a move away from it"),
        ("zoom out on the subject", "found 'on the subject' with a move away from it"),
        ("zoom out 70", "expected less than 28 mm"),
        ("turn", "found 'turn' alone, expected a direction: right, left, up, down"),
        ("dolly in, and pan left", "expected ', then' .afterwards., or 'and' without a comma"),
        ("dolly in over", "found nothing after 'over'"),
        ("dolly in over 3", "found '3' after 'over', expected seconds"),
        ("dolly in for 1 s 2 s", "found more than one time"),
        ("pan left for 1 s and tilt up for 2 s", "expected one time and one speed for moves at the same time"),
        ("pan left for 0 s", "expected seconds above 0"),
        ("dolly in 0,5", "found '0,5', expected a number with a point, or a space after the comma"),
        ("pan left 30, then", "move is ''"),
        ("pan left! 30", "found '!'"),
        ("pan right for 100 s, tilt up", "frames is 81, 5 s at 16 fps: expected more than 1601"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_suggestion(text: str, message: str) -> None:
    with pytest.raises(SightlineError, match=message):
        moves.parse(text)


def test_seconds_must_fit_the_frames() -> None:
    with pytest.raises(SightlineError, match=r"the moves last 0\.02 s, one frame at 16 fps: expected more"):
        moves.parse("pan left for 0.02 s")
    assert len(moves.parse("pan left for 2 s", fps=24)) == 49
    assert len(moves.parse("pan left for 2 s", frames=35)) == 35  # stretched by two frames, to 4 n + 1 of a model
    with pytest.raises(SightlineError, match="frames is 81, 5 s at 16 fps: expected 33, since the moves last 2 s"):
        moves.parse("pan left for 2 s", frames=81)


@given(st.text(alphabet="apnoribt lefdy:+,=>0123.-\N{DEGREE SIGN}xms", max_size=30))
def test_any_text_is_a_trajectory_or_one_sentence(text: str) -> None:
    with suppress(SightlineError):
        assert len(moves.parse(text, frames=5)) == 5


def test_the_subject_of_a_line_is_used_where_a_move_names_none() -> None:
    line = "orbit:30, orbit:30:5"
    expected = moves.orbit(30, 3, frames=41).concatenate(moves.orbit(30, 5, frames=41))
    assert same(moves.parse(line, target_depth=3), expected)
    read = moves.MoveLine.read(line)
    assert read.needs_subject and read.target_depths == [5] and not moves.MoveLine.read("pan:3").needs_subject


@pytest.mark.parametrize(
    "text, understood",
    [
        ("pan:-30", "pan left 30 degrees"),
        ("slow push in then orbit right 45 over 3 s", "dolly in 0.25, then orbit right 45 degrees over 3 s"),
        ("dolly:1+zoom:28>70", "dolly in 1 and zoom 28 to 70 mm"),
        ("static", "static"),
        ("go forward half a meter", "dolly in 0.5"),
        ("crane up 1.5 m and tilt down 20", "pedestal up 1.5 and tilt down 20 degrees"),
    ],
)
def test_a_line_says_how_it_was_understood(text: str, understood: str) -> None:
    assert str(moves.MoveLine.read(text)) == understood
    assert same(moves.parse(understood), moves.parse(text))


@pytest.mark.parametrize(
    "text, digits",
    [
        ("go forward half a meter", "go forward 0.5 meter"),
        ("push in a quarter of a metre", "push in 0.25 metre"),
        ("dolly in three quarters of a meter", "dolly in 0.75 meter"),
        ("dolly in half-a-foot over half a second", "dolly in 0.5 foot over 0.5 second"),
        ("track right two feet", "track right 2 feet"),
        ("dolly in two and a half meters", "dolly in 2.5 meters"),
        ("dolly in a foot and a half", "dolly in 1.5 foot"),
        ("dolly in 1/2 m", "dolly in 0.5 m"),
        ("dolly in 1\u00bd m", "dolly in 1.5 m"),
        ("pan right forty-five degrees", "pan right 45 degrees"),
        ("three hundred and sixty degree orbit", "360 degree orbit"),
        ("dolly in a hundred cm", "dolly in 100 cm"),
        ("lower the camera by a foot", "lower the camera by 1 foot"),
        ("truck right 6' 3\"", "truck right 75 inches"),
        ("truck right 5\u2032", "truck right 5 feet"),
        ("truck right 2 ft 6 in", "truck right 30 inches"),
        ("Two-second hold for a second", "2 second hold for 1 second"),
        ("dolly in about 1 m, orbit ~90", "dolly in 1 m, orbit 90"),
        ("push in on the two shot", "push in on the two shot"),  # a picture of two people
        ("push in, then a second pan", "push in, then a second pan"),
        ("crane up and tilt down", "crane up and tilt down"),
        ("orbit:thirty", "orbit:thirty"),
    ],
)
def test_amounts_in_words_are_digits(text: str, digits: str) -> None:
    assert with_digits(text) == digits
