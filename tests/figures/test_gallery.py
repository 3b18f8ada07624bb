"""The gallery: its panels of frusta at the size at which they are printed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sightline.cameras import moves
from sightline.figures.gallery import GalleryRow, draw_gallery


@pytest.mark.parametrize("move", ["truck:0.5, pan:-15", "crane:0.5", "dolly_zoom:0.6", "orbit:30", "pan:30"])
def test_the_numbers_of_a_panel_do_not_overlap(move, tmp_path):
    trajectory = moves.parse(move, frames=9, width=64, height=64)
    rows = [GalleryRow("film", {"": np.zeros((9, 64, 64, 3), np.uint8)}, {"": trajectory})] * 2
    figure = draw_gallery(rows, tmp_path / "gallery.png", columns=2)
    figure.canvas.draw()
    space = next(axes for axes in figure.axes if hasattr(axes, "zaxis"))
    labels = [
        label.get_window_extent()
        for axis in (space.xaxis, space.yaxis, space.zaxis)
        for label in axis.get_ticklabels()
        if label.get_visible() and label.get_text()
    ]
    assert labels
    assert not [(a, b) for a, b in combinations(labels, 2) if a.shrunk(0.9, 0.9).overlaps(b.shrunk(0.9, 0.9))]
