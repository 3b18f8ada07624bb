"""Means with intervals, matrices of verdicts, and values over training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sightline.figures import (
    HistoryLine,
    HistoryPanel,
    IntervalPanel,
    IntervalRow,
    VerdictPanel,
    draw_histories,
    draw_intervals,
    draw_verdicts,
)


def test_a_bar_spans_its_interval(tmp_path: Path) -> None:
    rows = [IntervalRow("a", 2.0, 1.0, 4.0, "best", (1.5, 2.5)), IntervalRow("b", 3.0)]
    figure = draw_intervals([IntervalPanel("loss", rows, zero=True), IntervalPanel("PSNR", rows)], tmp_path / "a.png")
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["a", "b"]
    spans = [list(line.get_xdata()) for line in first.lines]
    assert spans == [
        [1.0, 4.0],
        [1.5, 2.5],
        [2.0],
        [],
        [3.0],
        [0, 0],
    ]  # b has neither interval nor seeds; then the zero
    assert second.get_title(loc="left") == "PSNR" and len(second.lines) == len(first.lines) - 1


def test_a_verdict_is_on_the_row_at_the_left(tmp_path: Path) -> None:
    panel = VerdictPanel(
        "loss", ["good", "bad", "same"], [["", "better", ""], ["worse", "", "no difference shown"], ["", "", ""]]
    )
    [axes] = draw_verdicts([panel], tmp_path / "a.png").axes
    signs = {(text.get_position()[1], text.get_position()[0]): text.get_text() for text in axes.texts}
    assert (signs[0, 1], signs[1, 0], signs[1, 2], signs[0, 0]) == ("+", "\u2212", "\u00b7", "")
    assert axes.yaxis_inverted()


def test_a_history_is_the_mean_of_its_seeds(tmp_path: Path) -> None:
    line = HistoryLine("SCoPE", np.arange(8.0), np.stack([np.arange(8.0), np.arange(8.0) + 2]))
    figure = draw_histories([HistoryPanel("loss", "step", [line], late=True)], tmp_path / "a.png")
    [axes] = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), np.arange(8.0) + 1)
    low, high = axes.get_ylim()
    assert 1 < low < 2 and 9 < high < 10  # of the last three quarters
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["SCoPE"]
