"""Verdicts on pairs of rows."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import SightlineError
from sightline.study.comparison import compare_tables, holm
from sightline.study.results import RunResult

CLIPS = {"loss": [f"clip {index}" for index in range(20)], "video": [f"video {index}" for index in range(10)]}


def runs_of(effects: dict[str, float], seeds: int = 3, table: str = "metre") -> list[RunResult]:
    """Rows whose loss and PSNR are better by their effect."""
    random = np.random.default_rng(0)
    base = random.uniform(0.3, 0.6, 20)
    runs = []
    for row, effect in effects.items():
        for seed in range(seeds):
            loss = base - effect + 0.002 * random.normal(size=20) + 0.001 * random.normal()
            psnr = 20 + 10 * effect + 0.02 * random.normal(size=10)
            metrics: dict[str, list[float | None]] = {"loss": loss.tolist(), "psnr_moved": psnr.tolist()}
            runs.append(
                RunResult("main", row, seed, table, dict(CLIPS), metrics, {"step_seconds": 0.1, "peak_gib": 2.0}, 1e-3)
            )
    return runs


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_verdicts_follow_the_direction_of_the_metric() -> None:
    [table] = compare_tables(runs_of({"good": 0.05, "twin": 0.05, "bad": 0.0}))
    for metric in ("loss", "psnr_moved"):
        compared = table.metrics[metric]
        pair = compared.pair("good", "bad")
        assert pair is not None and pair.verdict == "better"
        turned = compared.pair("bad", "good")
        assert turned is not None and turned.verdict == "worse" and turned.difference == -pair.difference
        assert turned.interval == (-pair.interval[1], -pair.interval[0])  # type: ignore[operator]
        twins = compared.pair("good", "twin")
        assert twins is not None and twins.verdict == "no difference shown"
        assert twins.corrected is not None and twins.p_value is not None and twins.corrected >= twins.p_value
        assert compared.best == ["good", "twin"]


def test_any_false_finding_in_a_table_is_rare() -> None:
    """Five equal rows have ten pairs: without Holm's correction, a table in three would show a difference."""
    random, false, tables = np.random.default_rng(1), 0, 60
    for _ in range(tables):
        runs = []
        base = random.normal(size=20)
        for row in "abcde":
            for seed in range(3):
                values = (base + 0.1 * random.normal() + 0.1 * random.normal(size=20)).tolist()
                runs.append(RunResult("main", row, seed, "metre", CLIPS, {"loss": values}))
        [table] = compare_tables(runs, resamples=2000)
        false += len(table.metrics["loss"].best) < 5
    assert false / tables <= 0.13


def test_failed_rows_keep_their_sentence() -> None:
    runs = runs_of({"good": 0.1, "half": 0.0})
    runs += [RunResult("main", "wide", seed, "metre", failure="The heads are too narrow.") for seed in range(3)]
    runs[-4] = RunResult("main", "half", 2, "metre", failure="It ran out of memory.")
    [table] = compare_tables(runs)
    assert table.rows == ["good", "half", "wide"]
    assert table.failures == {"half": "Seed 2: It ran out of memory.", "wide": "The heads are too narrow."}
    pair = table.metrics["loss"].pair("good", "half")
    assert pair is not None and pair.seeds == 2 and pair.verdict == "better"
    assert table.learning_rates == {"good": ["0.001"], "half": ["0.001"], "wide": []}


def test_one_seed_is_tested_over_its_clips() -> None:
    [table] = compare_tables(runs_of({"good": 0.1, "bad": 0.0}, seeds=1))
    pair = table.metrics["loss"].pair("good", "bad")
    assert pair is not None and pair.seeds == 1 and pair.verdict == "better"
    counts = table.metrics["peak_gib"].pair("good", "bad")
    assert counts is not None and counts.verdict == "not tested" and counts.interval == (None, None)
    assert table.metrics["peak_gib"].best == []


def test_tables_are_compared_apart() -> None:
    runs = runs_of({"a": 0.1}) + runs_of({"b": 0.1}, table="sfm")
    assert [(table.table, table.rows) for table in compare_tables(runs)] == [("metre", ["a"]), ("sfm", ["b"])]
    with pytest.raises(SightlineError, match="results is empty"):
        compare_tables([])


def test_a_time_that_was_measured_once_is_not_tested() -> None:
    """A row's seeds share one measurement of time, which is no evidence of how it varies; a count needs no evidence."""
    runs = runs_of({"a": 0.0, "b": 0.0})
    for run in runs:
        run.cost.update(
            {
                "step_seconds": 0.1 if run.row == "a" else 0.1001,
                "denoise_seconds": 0.1,
                "new_parameters": 10.0 if run.row == "a" else 11.0,
            }
        )
    [table] = compare_tables(runs)
    times, counts = (table.metrics[name].pair("a", "b") for name in ("step_seconds", "new_parameters"))
    assert times is not None and times.verdict == "not tested" and times.seeds == 1
    assert counts is not None and counts.verdict == "better"


def test_times_of_a_shared_device_have_no_verdict() -> None:
    """They differ between two runs of the same code: with three seeds each, a difference would seem to be shown."""
    runs = runs_of({"a": 0.0, "b": 0.0})
    for run in runs:
        time = (1.0 if run.row == "a" else 2.0) + 1e-3 * run.seed
        run.cost.update({"step_seconds": time, "train_seconds": 100 * time})
    [table] = compare_tables(runs)
    for name in ("step_seconds", "train_seconds"):
        assert table.metrics[name].pairs == [] and table.metrics[name].best == []
        assert table.metrics[name].summaries["a"].mean < table.metrics[name].summaries["b"].mean


def test_clips_whose_cameras_were_not_asked_for_are_no_failures() -> None:
    runs = runs_of({"a": 0.0, "b": 0.1})
    for run in runs:
        run.clips["poses"] = ["video 0", "video 4", "video 8"]
        run.metrics["rot_err"] = [0.1 if index in (0, 4, 8) else None for index in range(10)]
    runs[0].metrics["rot_err"][4] = None
    [table] = compare_tables(runs)
    compared = table.metrics["rot_err"]
    assert compared.asked == 3 and compared.values == {"a": (8, 9), "b": (9, 9)}
    assert compared.summaries["a"].clips == 2 and compared.summaries["b"].clips == 3
    assert table.metrics["psnr_moved"].asked == 10
    for run in runs:  # results of before `poses` was noted: what any run has found was asked for
        del run.clips["poses"]
    [table] = compare_tables(runs)
    assert table.metrics["rot_err"].asked == 3 and table.metrics["rot_err"].values["a"] == (8, 9)


def test_learning_rates_name_that_of_the_encoding() -> None:
    runs = runs_of({"a": 0.0})
    runs[0].facts["encoding_lr_scale"] = 20.0
    [table] = compare_tables(runs)
    assert table.learning_rates == {"a": ["0.001", "0.001 x 20"]}


def test_a_row_may_lack_a_metric_that_the_others_have() -> None:
    """A row without a camera has clips of the group `loss`, but no loss with another clip's camera."""
    runs = runs_of({"camera": 0.1, "without a camera": 0.0})
    for run in runs:
        if run.row == "camera":
            run.metrics["loss_another_camera"] = [2.0] * 20
    [table] = compare_tables(runs)
    assert list(table.metrics["loss_another_camera"].summaries) == ["camera"]
    assert list(table.metrics["loss"].summaries) == ["camera", "without a camera"]
