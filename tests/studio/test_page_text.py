"""What the page says: everything is escaped, and fields have the names that the page gives them."""

from __future__ import annotations

import pytest

from sightline.cameras import moves
from sightline.studio.page_text import code, counted, drop_area, page_words, path_table, sentence


@pytest.mark.parametrize(
    "error, shown",
    [
        ("focal_mm is 0: expected a finite number above 0.", "Lens (mm) is 0: expected a finite number above 0."),
        ("num_frames is 6: expected 4 n + 1.", "Frames is 6: expected 4 n + 1."),
        ("camera_guidance_scale is nan: expected 1.", "Camera guidance is nan: expected 1."),
        ("camera_to_world of frame 3 is at (1, 2, 3).", "The camera of frame 3 is at (1, 2, 3)."),
        (
            "a.tum, line 3: camera_to_world of frame 2 is at (1, 2, 3).",
            "a.tum, line 3: the camera of frame 2 is at (1, 2, 3).",
        ),
        ("a.json: it has NaN at camera_to_world[0][0].", "a.json: it has NaN at camera_to_world[0][0]."),
        ("say --num-frames 5.", "say --num-frames 5."),
        ("size is 130x128: expected multiples of 16x16.", "Size is 130x128: expected multiples of 16x16."),
        (
            "distance is 2, but the subject is at target_depth = 1: x.",
            "distance is 2, but the subject is at Distance = 1: x.",
        ),
    ],
)
def test_errors_call_a_field_by_its_label(error, shown):
    assert page_words(error) == shown and shown in sentence(error, "error")


def test_nothing_that_comes_from_elsewhere_is_run():
    assert "<script>" not in sentence("<script>alert(1)</script>", "error") and sentence("") == ""


def test_large_distances_are_written_out():
    table = path_table(moves.dolly(2_000_000, frames=5), 4)
    assert "2,000,000.00 units long" in table and "e+" not in table


def test_the_place_of_a_frame_has_no_minus_signs():
    path = moves.parse("truck:-0.2+pedestal:0.3+dolly:-1e-6", frames=3)
    assert "left 0.20, up 0.30, forward 0.00 units" in path_table(path, 2)


def test_a_dropped_file_goes_to_the_button_of_its_type():
    area = drop_area("image/png,image/webp")
    assert "accept=&quot;image/png,image/webp&quot;" in area and "Or drop one" in area


def test_a_bad_argument_is_called_as_its_field_and_plain_words_are_left_alone():
    assert page_words("frames is 1: expected 4.") == "Frames is 1: expected 4."
    assert page_words("size is 'abc': expected WIDTHxHEIGHT.").startswith("Size is 'abc'")
    assert page_words("depth is 'world' without a world: expected one.").startswith("Depth is")
    assert (
        page_words("there are 4 keys for 3 frames: the size is odd.")
        == "there are 4 keys for 3 frames: the size is odd."
    )
    assert [counted(number, "frame") for number in (0, 1, 2)] == ["0 frames", "1 frame", "2 frames"]


def test_copying_needs_no_clipboard_of_the_browser():
    assert "navigator.clipboard" in code("Python", "x") and "document.execCommand('copy')" in code("Python", "x")
