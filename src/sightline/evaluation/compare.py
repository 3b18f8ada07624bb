"""Runs beside each other, over the same clips: bootstrap intervals of every mean and of every difference to the first run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightline.errors import SightlineError
from sightline.evaluation.page import write_page
from sightline.evaluation.plots import draw_boxes, draw_errors
from sightline.evaluation.results import FAILED, POSE_KEY, RESULTS, TITLES, group_means
from sightline.evaluation.run import refuse_run_folder
from sightline.evaluation.tables import NOTHING, figure, grid, header, markdown
from sightline.files import read_json, write_atomic

RESAMPLES, LEVEL = 10_000, 0.95
FEWEST = 6  # pairs: with fewer, not even a sign test that all of them agree on reaches 0.05
# Runs that differ in one of these did not do the same thing.
_MUST_AGREE = (
    "protocol", "frames", "width", "height", "near_depth", "clips", "part", "held_out", "estimator", "against", "sources",
    "names of clips",
)  # fmt: skip
_SHOULD_AGREE = ("steps", "cfg", "camera_cfg", "seed", "blind", "dtype")


@dataclass(frozen=True)
class Difference:
    """A score of a run, and how far it is from the first run's over the n groups that both have scored, of those asked for.

    significant: the interval of the difference leaves out 0, over at least FEWEST groups. No correction is made for the
    number of comparisons.
    """

    key: str
    run: str
    n: int
    asked: int
    mean: float
    interval: tuple[float, float]
    difference: float
    difference_interval: tuple[float, float]
    significant: bool


def bootstrap(values: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> tuple[float, float]:  # [N]
    """Percentile interval of the mean over resamples of the values."""
    if len(values) < 2:
        return float("nan"), float("nan")
    picks = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    low, high = np.quantile(values[picks].mean(axis=1), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def read_runs(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """The results of each folder, labelled apart; runs of different protocols or clips are refused."""
    if len(folders) < 2:
        raise SightlineError(
            "compare is given fewer than two runs: expected two folders of sightline evaluate or more."
        )
    runs = [read_json(folder / RESULTS, "a file of sightline evaluate") for folder in folders]
    if efficiency := [folder for folder, run in zip(folders, runs, strict=True) if "clips" not in run]:
        raise SightlineError(f"{efficiency[0]} holds no clips: expected a standard, beyond or revisit run.")
    for folder, run in zip(folders, runs, strict=True):
        if missing := [name for name in ("label", "settings", "n", "scores") if name not in run]:
            raise SightlineError(f"{folder / RESULTS} has no {missing[0]}: expected the results of sightline evaluate.")
    first = runs[0]
    for folder, run in zip(folders[1:], runs[1:], strict=True):
        for name in _MUST_AGREE:
            if run["settings"].get(name) != first["settings"].get(name):
                raise SightlineError(
                    f"{folder} has {name} {run['settings'].get(name)!r}: expected {first['settings'].get(name)!r}, as "
                    f"{folders[0]} has."
                )
    labels, names = [run["label"] for run in runs], [folder.name for folder in folders]
    for number, run in enumerate(runs):
        if labels.count(labels[number]) > 1:
            own = names.count(names[number]) == 1 and names[number] not in labels
            run["label"] = names[number] if own else f"{run['label']} {number + 1}"
    return runs


def differences(runs: Sequence[dict[str, Any]], seed: int = 0) -> list[Difference]:
    """For every score and every run but the first, paired by clip; clips that share a first frame are one group.

    The share of clips without a pose is compared too: where they fall out of the pairs, what is left may look alike.
    """
    found, asked = [], len({clip["group"] for clip in runs[0]["clips"]})
    clips = [_with_failures(run) for run in runs]
    for key in TITLES:
        base = group_means(clips[0], key)
        for run, judged in zip(runs[1:], clips[1:], strict=True):
            mine = group_means(judged, key)
            both = sorted(set(base) & set(mine))
            if not both:
                continue
            values = np.array([mine[group] for group in both])
            apart = values - np.array([base[group] for group in both])
            interval = bootstrap(apart, seed)
            clear = len(both) >= FEWEST and not interval[0] <= 0 <= interval[1]
            found.append(
                Difference(key, run["label"], len(both), asked, float(values.mean()), bootstrap(values, seed),
                           float(apart.mean()), interval, clear)
            )  # fmt: skip
    return found


def _with_failures(run: dict[str, Any]) -> list[dict[str, Any]]:
    pose = POSE_KEY[run["protocol"]]
    return [{**clip, "scores": {FAILED: float(pose not in clip["scores"]), **clip["scores"]}} for clip in run["clips"]]


def comparison(runs: Sequence[dict[str, Any]], seed: int = 0) -> tuple[str, list[Difference]]:
    """As markdown: the runs' own tables, then every difference with its interval."""
    found = differences(runs, seed)
    base = runs[0]["label"]
    rows = []
    for one in found:
        if one.key in ("rot_err rescaled", "rot_err gt_scaled"):  # a turn has no scale: they are the raw one again
            continue
        better = (one.difference < 0) == (TITLES[one.key][1] == "lower")
        verdict = ("better" if better else "worse") if one.significant else "not significant"
        rows.append(
            [
                f"{TITLES[one.key][0]} {header(one.key)[-1]}", one.run, f"{one.n} of {one.asked}", figure(one.mean),
                _range(one.interval), f"{one.difference:+.4g}", _range(one.difference_interval), verdict,
            ]
        )  # fmt: skip
    head = ["Score", "Run", "n pairs", "mean", "95 %", f"minus {base}", "95 % of the difference", "verdict"]
    notes = [
        f"Differences are to {base}, paired over what both have scored, with percentile intervals of {RESAMPLES} bootstrap "
        f"resamples (clips that share a first frame are resampled together). Fewer than {FEWEST} pairs are never significant; "
        "nothing is corrected for the number of comparisons. Distances between sets of clips have no interval here."
    ]
    for name in _SHOULD_AGREE:
        values = {run["label"]: run["settings"].get(name) for run in runs}
        if len({json.dumps(value) for value in values.values()}) > 1:
            notes.append(
                f"The runs differ in {name}: " + ", ".join(f"{label} {value}" for label, value in values.items()) + "."
            )
    table = grid(head, rows) if rows else "No clip was scored by the first run and another."
    return "\n\n".join([markdown(runs).rstrip(), f"## Against {base}", table, *notes]) + "\n", found


def write_comparison(folders: Sequence[Path], output: Path, seed: int = 0) -> str:
    """compare.md, compare.json, plots and a page with the films of all runs beside the truth; returns the markdown."""
    refuse_run_folder(output)
    runs = read_runs(folders)
    text, found = comparison(runs, seed)
    document = {
        "runs": [{"folder": str(folder), "label": run["label"], "n": run["n"], "settings": run["settings"]}
                 for folder, run in zip(folders, runs, strict=True)],
        "resamples": RESAMPLES, "level": LEVEL, "seed": seed, "differences": [asdict(one) for one in found],
    }  # fmt: skip
    write_atomic(output / "compare.json", json.dumps(_without_nan(document), indent=1) + "\n")
    write_atomic(output / "compare.md", text)
    plots = [output / "plots" / "errors.png", output / "plots" / "clips.png"]
    draw_errors(runs, plots[0])
    draw_boxes(runs, plots[1])
    write_page(output / "compare.html", " and ".join(run["label"] for run in runs), text, runs, folders, plots)
    return text


def _range(interval: tuple[float, float]) -> str:
    return NOTHING if np.isnan(interval[0]) else f"{interval[0]:.4g} to {interval[1]:.4g}"


def _without_nan(value: Any) -> Any:
    """json has no nan: what is unknown is null."""
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and np.isnan(value) else value
