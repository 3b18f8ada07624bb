"""Contact sheets, and videos side by side."""

from __future__ import annotations

import pytest

from sightline.errors import SightlineError
from sightline.figures import contact_sheet, side_by_side
from tests.test_images import constant_video


def test_a_sheet_has_a_row_for_each_video_and_fits_a_page():
    sheet = contact_sheet([constant_video(), constant_video(value=200)], ["first", "second"])
    assert sheet.size == (6 * 34 + 4, 2 * 42 + 4)
    assert sheet.getpixel((6, 6)) == (0, 0, 0) and sheet.getpixel((6, 48)) == (200, 200, 200)
    assert contact_sheet([constant_video(3)], [""]).width == 3 * 34 + 4  # no more columns than frames
    assert contact_sheet([constant_video(7, 480, 832)], ["a long caption " * 99]).width <= 1600


def test_videos_side_by_side():
    assert side_by_side(constant_video(), constant_video(width=10)).shape == (7, 20, 40, 3)
    with pytest.raises(SightlineError, match="expected one length and height"):
        side_by_side(constant_video(), constant_video(6))
