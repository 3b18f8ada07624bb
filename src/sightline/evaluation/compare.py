"""Comparison of runs over the same clips: bootstrap intervals of every mean and of every difference to the first run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.evaluation.bootstrap import LEVEL, RESAMPLES, Interval, bootstrap
from sightline.evaluation.efficiency_tables import write_efficiency_comparison
from sightline.evaluation.gather import group_means
from sightline.evaluation.page import write_page
from sightline.evaluation.report import draw_plots
from sightline.evaluation.results import (
    EXPECTED,
    RESULTS,
    Counts,
    RunResults,
    RunSettings,
    VideoScores,
    from_json,
    write_result,
)
from sightline.evaluation.run import refuse_run_folder
from sightline.evaluation.scores import FAILED, POSE_SCORE, SCORES
from sightline.evaluation.tables import NO_VALUE, format_number, grid, markdown
from sightline.files import write_atomic

MIN_PAIRS = 6  # with fewer pairs, not even a unanimous sign test reaches 0.05
# Runs that differ in one of these settings measured different things.
_MUST_AGREE = (
    "protocol", "num_frames", "stride", "width", "height", "near_depth", "clips", "part", "held_out", "estimator", "against",
    "sources", "names_digest",
)  # fmt: skip
_SHOULD_AGREE = (
    "num_inference_steps", "guidance_scale", "camera_guidance_scale", "negative_prompt", "seed", "blind", "dtype", "speed",
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """A score of a run, and its difference to the first run over the n groups that both runs scored, of those asked for.

    interval, difference_interval: None, None for fewer than two groups.
    significant: the interval of the difference excludes 0, over at least MIN_PAIRS groups. There is no correction for the
    number of comparisons.
    """

    key: str
    run: str
    n: int
    asked: int
    mean: float
    interval: Interval
    difference: float
    difference_interval: Interval
    significant: bool


@dataclass(frozen=True)
class ComparedRun:
    folder: str
    label: str
    counts: Counts
    settings: RunSettings


@dataclass(frozen=True)
class Comparison:
    """What compare.json holds."""

    runs: list[ComparedRun]
    resamples: int
    level: float
    seed: int
    differences: list[Difference]


def read_runs(folders: Sequence[Path]) -> list[RunResults]:
    """The results of each folder, with distinct labels; runs of different protocols or clips are refused."""
    _require_two(folders)
    contents = [read_json(folder / RESULTS, EXPECTED) for folder in folders]
    for folder, content in zip(folders, contents, strict=True):
        if "clips" not in content:
            raise SightlineError(f"{folder} holds no clips: expected a standard, beyond or revisit run.")
    runs = [from_json(RunResults, content, folder / RESULTS) for folder, content in zip(folders, contents, strict=True)]
    first = runs[0].settings.flat()
    for folder, run in zip(folders[1:], runs[1:], strict=True):
        settings = run.settings.flat()
        for name in _MUST_AGREE:
            if settings[name] != first[name]:
                raise SightlineError(
                    f"{folder} has {name} {settings[name]!r}: expected {first[name]!r}, as {folders[0]} has."
                )
    labels, names = [run.label for run in runs], [folder.name for folder in folders]
    for number, run in enumerate(runs):
        if labels.count(labels[number]) > 1:
            is_unique = names.count(names[number]) == 1 and names[number] not in labels
            run.label = names[number] if is_unique else f"{run.label} {number + 1}"
    return runs


def differences(runs: Sequence[RunResults], seed: int = 0) -> list[Difference]:
    """The difference of every score of every run to the first run, paired by clip; clips that share a first frame are one
    group.

    The fraction of clips without a pose is compared too, because such clips drop out of the pairs of the other scores.
    """
    rows, asked = [], len({clip.group for clip in runs[0].clips})
    videos = [_with_failures(run) for run in runs]
    for key in SCORES:
        base = group_means(runs[0].clips, videos[0], key)
        for run, scored in zip(runs[1:], videos[1:], strict=True):
            means = group_means(run.clips, scored, key)
            groups = sorted(set(base) & set(means))
            if not groups:
                continue
            values = np.array([means[group] for group in groups])
            difference = values - np.array([base[group] for group in groups])
            low, high = interval = bootstrap(difference, seed)
            excludes_0 = low is not None and high is not None and not low <= 0 <= high
            rows.append(
                Difference(key, run.label, len(groups), asked, float(values.mean()), bootstrap(values, seed),
                           float(difference.mean()), interval, len(groups) >= MIN_PAIRS and excludes_0)
            )  # fmt: skip
    return rows


def _with_failures(run: RunResults) -> list[VideoScores]:
    """The scores of the generated videos, with whether each clip failed."""
    pose = POSE_SCORE[run.protocol]
    videos = [clip.generated for clip in run.clips]
    return [replace(video, scores={FAILED: float(pose not in video.scores), **video.scores}) for video in videos]


def comparison_text(runs: Sequence[RunResults], differences: Sequence[Difference]) -> str:
    """As markdown: the runs' own tables, then every difference with its interval."""
    base = runs[0].label
    rows = []
    for row in differences:
        score = SCORES[row.key]
        if score.repeats_raw:
            continue
        better = (row.difference < 0) == (score.better == "lower")
        verdict = ("better" if better else "worse") if row.significant else "not significant"
        rows.append(
            [
                f"{score.title} {score.arrow}", row.run, f"{row.n} of {row.asked}", format_number(row.mean),
                _range(row.interval), f"{row.difference:+.4g}", _range(row.difference_interval), verdict,
            ]
        )  # fmt: skip
    head = ["Score", "Run", "n pairs", "mean", "95 %", f"minus {base}", "95 % of the difference", "verdict"]
    notes = [
        f"Differences are to {base}, paired over what both have scored, with percentile intervals of {RESAMPLES} bootstrap "
        f"resamples (clips that share a first frame are resampled together). Fewer than {MIN_PAIRS} pairs are never "
        "significant; nothing is corrected for the number of comparisons. Distances between sets of clips have no interval "
        "here."
    ]
    for name in _SHOULD_AGREE:
        values = {run.label: run.settings.flat()[name] for run in runs}
        if len({json.dumps(value) for value in values.values()}) > 1:
            listed = ", ".join(f"{label} {value}" for label, value in values.items())
            notes.append(f"The runs differ in {name}: {listed}.")
    table = grid(head, rows) if rows else "No clip was scored by the first run and another."
    return "\n\n".join([markdown(runs).rstrip(), f"## Against {base}", table, *notes]) + "\n"


def compare(folders: Sequence[Path], output: Path, seed: int = 0) -> tuple[str, Path]:
    """Compare runs of one protocol, or what methods cost in efficiency runs. Returns the markdown and the file to look at."""
    refuse_run_folder(output)
    _require_two(folders)
    protocols = {read_json(folder / RESULTS, EXPECTED).get("protocol") for folder in folders}
    if "efficiency" not in protocols:
        return write_comparison(folders, output, seed), output / "compare.html"
    if len(protocols) > 1:
        raise SightlineError(
            "efficiency runs are given with runs of another protocol: expected runs of one, since they share no scores."
        )
    return write_efficiency_comparison(folders, output), output / "compare.md"


def _require_two(folders: Sequence[Path]) -> None:
    if len(folders) < 2:
        raise SightlineError(
            "compare is given fewer than two runs: expected two folders of sightline evaluate or more."
        )


def write_comparison(folders: Sequence[Path], output: Path, seed: int = 0) -> str:
    """Write compare.md, compare.json, plots and a page with the videos of all runs beside the ground truth; returns the
    markdown."""
    runs = read_runs(folders)
    rows = differences(runs, seed)
    text = comparison_text(runs, rows)
    compared = [
        ComparedRun(str(folder), run.label, run.counts, run.settings) for folder, run in zip(folders, runs, strict=True)
    ]
    write_result(output / "compare.json", Comparison(compared, RESAMPLES, LEVEL, seed, rows))
    write_atomic(output / "compare.md", text)
    plots = draw_plots(runs, output)
    write_page(output / "compare.html", " and ".join(run.label for run in runs), text, runs, folders, plots)
    return text


def _range(interval: Interval) -> str:
    low, high = interval
    return NO_VALUE if low is None or high is None else f"{low:.4g} to {high:.4g}"
