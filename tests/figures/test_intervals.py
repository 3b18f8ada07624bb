"""Means with intervals, matrices of verdicts, and values over training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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


def test_an_outlier_does_not_squeeze_the_other_rows(tmp_path: Path) -> None:
    rows = [IntervalRow(f"row {index}", 0.0, -0.1, 0.1) for index in range(4)]
    rows += [IntervalRow("far", -30.0, -50.0, -10.0), IntervalRow("wide", 0.1, -9.0, 9.0)]
    cut, whole = draw_intervals(
        [IntervalPanel("difference", rows, zero=True), IntervalPanel("mean", rows)], tmp_path / "a.png"
    ).axes
    low, high = cut.get_xlim()
    assert -0.6 < low < high < 0.6
    assert [text.get_text() for text in cut.texts] == [
        "\N{MINUS SIGN}30 [\N{MINUS SIGN}50, \N{MINUS SIGN}10]", "0.1 [\N{MINUS SIGN}9, 9]",
    ]  # fmt: skip
    assert [line.get_marker() for line in cut.lines if line.get_marker() in ("<", ">")] == ["<", "<", ">"]
    assert whole.get_xlim()[0] < -50 and not whole.texts
    [few] = draw_intervals([IntervalPanel("difference", rows[3:5], zero=True)], tmp_path / "a.png").axes
    assert few.get_xlim()[0] < -50  # of two rows, none is the outlier


def test_a_line_of_panels_is_as_high_as_its_highest(tmp_path: Path) -> None:
    def panel(rows: int) -> IntervalPanel:
        return IntervalPanel(str(rows), [IntervalRow(str(index), float(index)) for index in range(rows)])

    figure = draw_intervals([panel(10), panel(9), panel(9), panel(1)], tmp_path / "a.png")
    assert figure.get_figheight() == pytest.approx(0.9 + 0.3 * 10 + 0.9 + 0.3)
    high, low = (figure.axes[index].get_position().height for index in (0, 3))
    assert high > 3 * low


def test_a_few_verdicts_are_not_drawn_huge(tmp_path: Path) -> None:
    few = VerdictPanel("loss", ["a", "b"], [["", "better"], ["worse", ""]])
    figure = draw_verdicts([few], tmp_path / "a.png")
    figure.draw_without_rendering()
    [axes] = figure.axes
    (left, _), (right, _) = axes.transData.transform([(0, 0), (1, 0)])
    assert (right - left) / figure.dpi < 0.5  # inches


def test_steps_are_whole_numbers_and_axes_have_no_offset(tmp_path: Path) -> None:
    line = HistoryLine("SCoPE", np.array([1.0, 2.0, 3.0]), np.array([[0.5, 0.50001, 0.50002]]))
    figure = draw_histories([HistoryPanel("gate", "step", [line])], tmp_path / "a.png")
    figure.draw_without_rendering()
    [axes] = figure.axes
    assert {tick % 1 for tick in axes.get_xticks()} == {0.0}
    assert axes.yaxis.get_offset_text().get_text() == ""


def test_a_cut_panel_says_so(tmp_path: Path) -> None:
    falling = HistoryLine("a", np.arange(8.0), np.array([[9.0, 5, 3, 2, 1.9, 1.8, 1.7, 1.6]]))
    flat = HistoryLine("a", np.arange(8.0), np.array([[1.0, 1, 1, 2, 1, 1, 1, 1]]))
    for line, title in ((falling, "loss (the early part is cut)"), (flat, "loss")):
        [axes] = draw_histories([HistoryPanel("loss", "step", [line], late=True)], tmp_path / "a.png").axes
        assert axes.get_title(loc="left") == title


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


def test_long_titles_and_names_of_pairs_are_not_cut(tmp_path: Path) -> None:
    name = "FreqSplit, 4-DOF Pluecker\nagainst FreqSplit, learned Pluecker"
    title = "main-seconds, reported: PSNR where the view has moved (%)"
    figure = draw_intervals([IntervalPanel(title, [IntervalRow(name, 1.0, 0.5, 1.5)])] * 3, tmp_path / "a.png")
    figure.draw_without_rendering()
    for axes in figure.axes:
        (label,) = axes.get_yticklabels()
        assert label.get_text() == name and " ".join(axes.get_title("left").split()) == title
        drawn = [
            text.get_window_extent()
            for text in (label, *(t for t in axes.get_children() if t.__class__.__name__ == "Text"))
        ]
        assert min(box.x0 for box in drawn) >= 0 and max(box.x1 for box in drawn) <= figure.bbox.width
