"""What the plots of a study are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sightline.figures import HistoryPanel
from sightline.study.comparison import compare_tables
from sightline.study.plots import draw_plots
from tests.study.examples import invent_runs


def test_losses_over_time_span_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds whose steps took different times are compared step by step: their means over steps and over time are the same."""
    runs = invent_runs({"SCoPE": 0.0, "UCPE": 0.1}, metrics=("loss",))
    for run in runs:
        run.cost["step_seconds"] = 0.1 * 4.0**run.seed  # on a GPU that others share
    drawn: dict[str, list[HistoryPanel]] = {}
    monkeypatch.setattr(
        "sightline.study.plots.draw_histories", lambda panels, file: drawn.setdefault(file.name, panels)
    )
    [table] = compare_tables(runs)
    captions = draw_plots(table, runs, tmp_path, "metre")
    for over_steps, over_time in zip(drawn["metre-loss.png"][::2], drawn["metre-loss.png"][1::2], strict=True):
        assert (over_steps.xlabel, over_time.xlabel) == ("step", "training time (s)")
        for steps, time in zip(over_steps.lines, over_time.lines, strict=True):
            np.testing.assert_allclose(time.x, 0.7 * steps.x)  # the mean of 0.1, 0.4 and 1.6
            np.testing.assert_allclose(time.values, steps.values)
    assert any("Holm's correction" in caption for caption in captions)
    assert [panel.title for panel in drawn["metre-layers.png"]] == ["alpha of queries"]


def test_gates_have_plain_titles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = invent_runs({"SCoPE": 0.0}, metrics=("loss",))
    for run in runs:
        run.history["gate_at_10/0"] = [(0, 0.5), (20, 0.6)]
    drawn: dict[str, list[HistoryPanel]] = {}
    monkeypatch.setattr(
        "sightline.study.plots.draw_histories", lambda panels, file: drawn.setdefault(file.name, panels)
    )
    [table] = compare_tables(runs)
    draw_plots(table, runs, tmp_path, "metre")
    assert drawn["metre-layers.png"][1].title == "gate of rays with a moment of 10"
    assert drawn["metre-parameters.png"][1].title == "gate of rays with a moment of 10, mean of absolute values"
