"""Contact sheets, films side by side, and the distance between films."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import SightlineError
from sightline.images import psnr
from sightline.pictures import contact_sheet, side_by_side


def film(frames=7, height=20, width=30, value=0):
    return np.full((frames, height, width, 3), value, dtype=np.uint8)


def test_a_sheet_has_a_row_for_each_film_and_fits_a_page():
    sheet = contact_sheet([film(), film(value=200)], ["first", "second"])
    assert sheet.size == (6 * 34 + 4, 2 * 42 + 4)
    assert sheet.getpixel((6, 6)) == (0, 0, 0) and sheet.getpixel((6, 48)) == (200, 200, 200)
    assert contact_sheet([film(3)], [""]).width == 3 * 34 + 4  # no more columns than frames
    assert contact_sheet([film(7, 480, 832)], ["a long caption " * 99]).width <= 1600


def test_films_beside_each_other_and_how_far_they_are_apart():
    assert side_by_side(film(), film(width=10)).shape == (7, 20, 40, 3)
    with pytest.raises(SightlineError, match="expected one length and height"):
        side_by_side(film(), film(6))
    assert psnr(film(), film()).tolist() == [100.0] * 7
    assert psnr(film(), film(value=255)) == pytest.approx(0.0)
    with pytest.raises(SightlineError, match="video has shape"):
        psnr(film(), film(6))
