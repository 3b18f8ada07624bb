"""What the clips of a run come to: means with their n, distances with their floor, and every failure by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sightline.evaluation.metrics.frechet import frechet
from sightline.evaluation.metrics.suite import METRICS
from sightline.evaluation.run import FEATURES, SCORES, SETTINGS, UNFINISHED
from sightline.files import read_json, write_atomic

RESULTS = "results.json"
POSE_KEY = {"standard": "rot_err raw", "beyond": "rot_err raw", "revisit": "return_ratio"}
_POSE = {"rot_err": "RotErr (rad)", "trans_err": "TransErr", "cam_mc": "CamMC", "ate": "ATE"}
FAILED = "failed"  # of a clip 0 or 1, made of the others when runs are compared
# How each score is printed, and which way is better.
TITLES: dict[str, tuple[str, str]] = {
    FAILED: ("clips without a pose", "lower"),
    **{
        f"{name} {alignment}": (f"{title} {alignment}", "lower")
        for alignment in ("raw", "rescaled", "gt_scaled")
        for name, title in _POSE.items()
    },
    "return_ratio": ("Return Trans. Ratio", "lower"),
    "return_rotation": ("Return Rot. (deg)", "lower"),
    "normalised_ate": ("Norm. ATE", "lower"),
    "return_lpips": ("Return LPIPS", "lower"),
    "lpips_recovery": ("LPIPS Recovery", "higher"),
    "return_dino": ("Return DINOv2", "higher"),
    "return_cosine_efflite0": ("Return cosine EffLite0", "higher"),
    **{name: (metric.title, metric.better) for name, metric in METRICS.items()},
}


def gather(output: Path, names: Sequence[str], label: str) -> dict[str, Any]:
    """Read every clip's folder and write results.json; a clip without one is a failure too."""
    settings = read_json(output / SETTINGS, "a file of sightline evaluate")
    protocol, clips = settings["protocol"], [_clip(output, name) for name in names]
    scored = [clip for clip in clips if POSE_KEY[protocol] in clip["scores"]]
    filmed = [clip for clip in clips if not any(one["stage"] in UNFINISHED for one in clip["failures"])]
    floors = [clip for clip in clips if POSE_KEY[protocol] in clip["floor"]]
    found = {
        "label": label,
        "protocol": protocol,
        "settings": settings,
        "n": {
            "asked": len(clips), "filmed": len(filmed), "scored": len(scored), "failed": len(clips) - len(scored),
            "floor": len(floors),
        },
        "failures": [{"clip": clip["clip"], **one} for clip in clips for one in clip["failures"]],
        "scores": _summaries(clips, "scores"),
        "floor": _summaries(clips, "floor"),
        "distances": _distances(output, filmed),
        "clips": clips,
    }  # fmt: skip
    write_atomic(output / RESULTS, json.dumps(found, indent=1) + "\n")
    return found


def group_means(clips: Sequence[dict[str, Any]], key: str, place: str = "scores") -> dict[str, float]:
    """The mean of each group: clips that share a first frame count as one."""
    groups: dict[str, list[float]] = {}
    for clip in clips:
        if key in clip[place]:
            groups.setdefault(clip["group"], []).append(clip[place][key])
    return {group: float(np.mean(values)) for group, values in groups.items()}


def _clip(output: Path, name: str) -> dict[str, Any]:
    file = output / "clips" / name / SCORES
    empty: dict[str, Any] = {"clip": name, "group": name, "source": "", "scores": {}, "floor": {}, "by_frame": {}}
    if not file.is_file():
        return {**empty, "failures": [{"stage": "film", "sentence": "it was never filmed: the run was stopped before"}]}
    return {**empty, **read_json(file, "a file of sightline evaluate")}


def _summaries(clips: Sequence[dict[str, Any]], place: str) -> dict[str, dict[str, Any]]:
    """mean: over groups, each the mean of its clips. sum over frames of pose errors, as some tables print it."""
    found = {}
    for key in [key for key in TITLES if any(key in clip[place] for clip in clips)]:
        chosen = [clip for clip in clips if key in clip[place]]
        values, groups = [clip[place][key] for clip in chosen], list(group_means(chosen, key, place).values())
        found[key] = {
            "mean": float(np.mean(groups)), "median": float(np.median(values)), "n": len(values), "groups": len(groups),
            "better": TITLES[key][1],
        }  # fmt: skip
        if key.split()[0] in ("rot_err", "trans_err", "cam_mc"):
            found[key]["mean of sums over frames"] = float(
                np.mean([clip[place][key] * clip["frames"] for clip in chosen])
            )
            found[key]["mean without frame 0"] = float(
                np.mean([clip[place][key] * clip["frames"] / max(clip["frames"] - 1, 1) for clip in chosen])
            )
    return found


def _distances(output: Path, clips: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    features: dict[str, list[np.ndarray]] = {}
    for clip in clips:
        file = output / "clips" / clip["clip"] / FEATURES
        if file.is_file():
            with np.load(file, allow_pickle=False) as arrays:
                for name in arrays.files:
                    features.setdefault(name, []).append(arrays[name])
    found = {}
    for name in [name for name in METRICS if f"{name} made" in features]:
        real, made = features[f"{name} real"], features[f"{name} made"]
        if min(sum(map(len, real)), sum(map(len, made))) >= 2:  # a single I3D feature has no spread
            found[name] = {**asdict(frechet(real, made)), "clips": len(real), "better": METRICS[name].better}
    return found
