"""The player's sheet of pictures."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.studio.player import side_by_side


@pytest.mark.parametrize("size", [(128, 128), (832, 480), (1280, 704)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_labels_are_as_large_on_the_page_whatever_the_size_of_the_film(size, count):
    """The page shows every sheet equally wide, so a label must take the same part of it."""
    width, height = size
    names = ("preview", "true view", "film")[:count]
    sheet = side_by_side({name: np.zeros((height, width, 3), np.uint8) for name in names})
    columns, rows = min(count, 2), -(-count // 2)
    scale = (sheet.shape[1] - 6 * (columns - 1)) / columns / width
    label = (sheet.shape[0] / rows - scale * height) / sheet.shape[1]
    assert label == pytest.approx(17 / 384, rel=0.03)
    below = sheet[round(scale * height) : round(scale * height + label * sheet.shape[1]), : sheet.shape[1] // columns]
    letters = np.flatnonzero((below < 128).any((1, 2)))
    assert 0.4 < (np.ptp(letters) + 1) / len(below) < 0.9  # and the letters fill it
