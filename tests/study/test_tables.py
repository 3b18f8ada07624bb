"""Tables in the paper's layout, and their files."""

from __future__ import annotations

import csv
import dataclasses
import io

import pytest

from sightline.study.comparison import compare_tables
from sightline.study.layout import layouts
from sightline.study.results import METRICS, RunResult
from sightline.study.table_files import csv_text, escape, latex, markdown, pairs_csv, pairs_rows
from sightline.study.tables import format_mean, make_sheets
from tests.study.examples import invent_runs


def test_layouts_are_the_paper_s() -> None:
    everything = list(METRICS)
    main, rescaled, revisit, others = layouts("main", everything)
    assert [heading for heading, _ in main.groups] == ["Quality", "Camera controllability"]
    assert main.metrics == ["loss", "psnr_moved", "rot_err", "trans_err", "cam_mc", "ate"]
    assert rescaled.metrics == ["rot_err", "trans_err_rescaled", "cam_mc_rescaled", "ate_rescaled"]
    assert revisit.groups[0] == ("Camera return", ("return_ratio", "return_rotation", "normalised_ate"))
    assert others.metrics == ["loss_another_camera"]
    assert layouts("components-5b", everything)[0].metrics == ["loss", "psnr_moved", "rot_err", "cam_mc", "ate"]
    assert layouts("components", everything)[0].rows == "Variant"
    assert layouts("revisit", everything)[0].metrics[0] == "return_ratio"
    assert layouts("efficiency", ["step_seconds", "peak_gib", "loss"])[0].metrics == ["step_seconds", "peak_gib"]


@pytest.mark.parametrize(
    "study", ["main", "pe-design", "components", "data", "revisit", "efficiency", "scale", "my own"]
)
def test_nothing_measured_is_hidden(study: str) -> None:
    shown = {metric for layout in layouts(study, list(METRICS)) for metric in layout.metrics}
    assert shown >= set(METRICS)


def test_a_rescaled_table_does_not_only_repeat_the_rotation() -> None:
    assert [layout.name for layout in layouts("main", ["rot_err", "trans_err"])] == [""]


@pytest.mark.parametrize(
    "mean, interval, expected",
    [
        (0.46021, (0.44644, 0.47549), ("0.460", "[0.446, 0.475]")),
        (19.0878, (17.685, 20.542), ("19.1", "[17.7, 20.5]")),
        (0.00012345, (0.0001, 0.00015), ("0.000123", "[0.000100, 0.000150]")),
        (-0.0001, (-0.02, 0.02), ("0.000", "[-0.020, 0.020]")),
        (3.2, (None, None), ("3.2", "")),
        (3.2000000000000006, (3.2, 3.2000000000000006), ("3.2", "")),
    ],
)
def test_as_many_digits_as_the_interval_supports(
    mean: float, interval: tuple[float | None, float | None], expected: tuple[str, str]
) -> None:
    assert format_mean(mean, interval) == expected


def test_bold_cells_costs_and_failures() -> None:
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.1, "twin": 0.1}, random_seed=2)
    runs += [
        RunResult("main", "ReRoPE", seed, "metre", failure="Heads of 24 channels are too narrow.") for seed in range(3)
    ]
    runs[0].metrics["rot_err"][2] = None
    [table] = compare_tables(runs)
    main, revisit = make_sheets(table)
    assert main.head[0] == "Method" and main.head[-4:] == ["new parameters", "step (s)", "learning rate", "seeds"]
    by_row = {row[0].text: row for row in main.rows}
    assert [by_row[row][1].bold for row in ("UCPE", "SCoPE", "twin", "ReRoPE")] == [False, True, True, False]
    assert [cell.text for cell in by_row["SCoPE"][-4:]] == ["2,000", "0.110", "0.001", "3"]
    assert main.head[-5] == revisit.head[-5] == "cameras found"
    assert [by_row[row][-5].text for row in ("UCPE", "SCoPE", "ReRoPE")] == ["17 of 18", "18 of 18", "-"]
    assert (main.numbers[0]["cameras_found"], main.numbers[0]["cameras_asked"]) == (17, 18)
    assert {cell.text for cell in by_row["ReRoPE"][1:-1]} == {"-"} and by_row["ReRoPE"][-1].text == "0"
    assert main.notes == [
        "Measured on fewer than 6 clips, because some have no value: RotErr (UCPE 5). A pair is compared on the clips that "
        "both rows have.",
        "ReRoPE: Heads of 24 channels are too narrow.",
    ]
    assert "3 seeds" in main.method and "3 pairs of rows" in main.method
    assert revisit.groups == [("", 1), ("Camera return", 1), ("", 5)]


def test_metrics_without_a_value_are_named() -> None:
    runs = invent_runs({"a": 0.0, "b": 0.0}, metrics=("loss", "rot_err", "ate"))
    for run in runs:
        run.metrics["ate"][:] = [None] * 6
        if run.row == "a":
            run.metrics["rot_err"][:] = [None] * 6
    [table] = compare_tables(runs)
    [sheet] = make_sheets(table)
    assert [cell.text for cell in sheet.rows[0]][2] == "-"
    assert sheet.notes[0].startswith("Measured on fewer than 6 clips, because some have no value: RotErr (a 0).")
    assert sheet.notes[1] == "Without a value on any clip of any row: ATE."


def test_what_was_not_asked_for_is_not_missing() -> None:
    runs = invent_runs({"a": 0.0, "b": 0.0}, metrics=("loss", "loss_another_camera", "rot_err"))
    for run in runs:
        run.metrics["rot_err"][3:] = [None] * 3
        run.clips["poses"] = run.clips["video"][:3]
        if run.row == "a":  # trained without a camera: there is no other one to give it
            del run.metrics["loss_another_camera"]
    [table] = compare_tables(runs)
    assert [sheet.notes for sheet in make_sheets(table)] == [[], []]
    assert make_sheets(table)[1].rows[0][1].text == "-"


def test_times_that_were_measured_once_say_so() -> None:
    runs = invent_runs({"a": 0.0, "b": 0.0}, study="efficiency", metrics=())
    for run in runs:
        run.cost.update(step_seconds=0.1, denoise_seconds=0.2)
    [table] = compare_tables(runs)
    [sheet] = make_sheets(table)
    assert not any(cell.bold for row in sheet.rows for cell in row)
    assert "learning rate" not in sheet.head and all(len(row) == len(sheet.head) for row in sheet.rows)
    assert sheet.notes == [
        "Without intervals and verdicts, because their variation was not measured: denoising step (s), step (s)."
    ]


def test_few_seeds_are_said() -> None:
    [one], [two] = (compare_tables(invent_runs({"a": 0.0, "b": 0.1}, seeds=seeds)) for seeds in (1, 2))
    assert "There is one seed: intervals and verdicts are over clips only" in make_sheets(one)[0].method
    assert "There are 2 seeds: a result needs at least 3." in make_sheets(two)[0].method


def test_a_table_without_any_result_has_its_failures() -> None:
    [table] = compare_tables([RunResult("main", "wide", 0, "metre", failure="It does not fit.")])
    [sheet] = make_sheets(table)
    assert sheet.notes == ["wide: It does not fit."]
    assert "wide" in markdown(sheet) and "wide" in latex(sheet)


def test_markdown_csv_and_latex_hold_the_same_numbers() -> None:
    [table] = compare_tables(invent_runs({"w/o (B)+(C) & 50 %": 0.0, "SCoPE": 0.1}, metrics=("loss", "rot_err")))
    [sheet] = make_sheets(table)
    mean = table.metrics["loss"].summaries["SCoPE"].mean
    text, interval = format_mean(mean, table.metrics["loss"].summaries["SCoPE"].interval)
    assert f"| SCoPE | **{text}** {interval} |" in markdown(sheet)
    rows = list(csv.DictReader(io.StringIO(csv_text(sheet))))
    assert [row["row"] for row in rows] == ["w/o (B)+(C) & 50 %", "SCoPE"]
    assert float(rows[1]["loss"]) == mean and rows[1]["loss_best"] == "true" and rows[0]["loss_best"] == "false"
    tex = latex(sheet)
    assert rf"SCoPE & \textbf{{{text}}} {{\scriptsize {interval}}}" in tex
    assert r"w/o (B)+(C) \& 50 \% & " in tex
    assert r"\multicolumn{1}{c}{Quality} & \multicolumn{1}{c}{Camera controllability}" in tex
    columns = tex.split(r"\begin{tabular}{")[1].split("}")[0]
    body = [line for line in tex.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert all(line.replace(r"\&", "").count("&") == len(columns) - 1 for line in body)


def test_a_table_of_costs_names_no_clips_and_how_every_row_takes_the_camera_in() -> None:
    runs = invent_runs({"PRoPE": 0.0, "PRoPE, own branch": 0.1, "Sweep": 0.1}, "efficiency", metrics=())
    runs = [dataclasses.replace(run, cost={**run.cost, "peak_gib": 1.0}) for run in runs]
    [table] = compare_tables(runs)
    assert "intervals over 3 seeds" in make_sheets(table)[0].method and "clips" not in make_sheets(table)[0].method
    column = make_sheets(table)[0].head.index("Camera integration")
    assert [row[column].text for row in make_sheets(table)[0].rows] == ["Full parallel branch"] * 2 + ["-"]


def test_latex_escapes_what_would_break_it() -> None:
    assert (
        escape("a_b {50 %} ~ ^ \\ ↓")
        == r"a\_b \{50 \%\} \textasciitilde{} \textasciicircum{} \textbackslash{} $\downarrow$"
    )


def test_pairs_have_their_p_values() -> None:
    [table] = compare_tables(invent_runs({"bad": 0.0, "good": 0.1}, metrics=("loss",)))
    [row] = pairs_rows(table.metrics["loss"])
    assert row[:3] == ["held-out loss", "bad", "good"] and row[3].startswith("+") and row[7] == "worse"
    assert row[8:] == ["12 of 12", "3"]
    [first, *_] = csv.DictReader(io.StringIO(pairs_csv(table)))
    assert first["metric"] == "loss" and first["verdict"] == "worse" and float(first["corrected"]) < 0.05
