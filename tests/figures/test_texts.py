"""Names in figures: shown as they are written, and never the reason that a result is lost."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sightline.cameras import moves
from sightline.figures import (
    BarPanel,
    BoxPanel,
    HistoryLine,
    HistoryPanel,
    IntervalPanel,
    IntervalRow,
    LossCurve,
    VerdictPanel,
    contact_sheet,
    draw_bars,
    draw_boxes,
    draw_histories,
    draw_intervals,
    draw_loss_curves,
    draw_verdicts,
    picture_or_warning,
)
from tests.test_images import constant_video

NAMES = [r"costs $5 and $\frac", "x" * 20_000, "half \ud83d"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_drawn(name, tmp_path):
    moves.pan(20, frames=5).plot(tmp_path / "a.png", title=name)
    moves.pan(20, frames=5).plot(title=name).savefig(tmp_path / "b.png")  # as a notebook shows it
    draw_loss_curves([LossCurve(name, [(0, 1.0), (1, 0.5)], {"held out": [(1, 0.6)]})], tmp_path / "c.png")
    draw_boxes([BoxPanel(name, [(name, [1.0, 2.0])], None)], tmp_path / "d.png")
    draw_bars([BarPanel(name, [(name, 1.0), ("other", 2.0)])], tmp_path / "e.png", name)
    contact_sheet([constant_video()], [name]).save(tmp_path / "f.png")
    draw_intervals([IntervalPanel(name, [IntervalRow(name, 1.0, 0.5, 1.5)])], tmp_path / "g.png")
    draw_verdicts([VerdictPanel(name, [name, "b"], [["", "better"], ["worse", ""]])], tmp_path / "h.png")
    line = HistoryLine(name, np.arange(3.0), np.ones((2, 3)))
    draw_histories([HistoryPanel(name, name, [line])], tmp_path / "i.png")
    assert len(list(tmp_path.iterdir())) == 9


def test_a_long_caption_takes_no_time():
    started = time.process_time()
    contact_sheet([constant_video(width=1000)], ["word " * 400_000])
    assert time.process_time() - started < 5  # it was minutes


def test_a_picture_that_fails_is_a_warning(caplog):
    with picture_or_warning("out/sheet.png"):
        raise RuntimeError("no ink")
    assert "out/sheet.png cannot be drawn (no ink)" in caplog.text
    with pytest.raises(KeyboardInterrupt), picture_or_warning("out/sheet.png"):
        raise KeyboardInterrupt
