"""From the clips' folders of a run to its results: means with their n, distances between sets of clips, and counts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sightline.cameras.formats._arrays import npz_array, npz_names
from sightline.cameras.formats._files import InputFile
from sightline.evaluation.metrics.frechet import FrechetDistance, frechet
from sightline.evaluation.metrics.suite import METRICS
from sightline.evaluation.results import (
    NOT_GENERATED,
    RESULTS,
    SCORES_FILE,
    SETTINGS,
    ClipResult,
    Counts,
    Failure,
    MeanScore,
    RunResults,
    RunSettings,
    VideoScores,
    read_result,
    write_result,
)
from sightline.evaluation.scores import POSE_SCORE, SCORES

GENERATED_FEATURES, REAL_FEATURES = "generated.npz", "real.npz"


def gather(output: Path, names: Sequence[str], label: str) -> RunResults:
    """Read every clip's folder and write results.json. A clip without a folder counts as failed."""
    settings = read_result(RunSettings, output / SETTINGS)
    pose = POSE_SCORE[settings.protocol]
    clips = [_read_clip(output, name) for name in names]
    scored = sum(pose in clip.generated.scores for clip in clips)
    generated = [clip for clip in clips if not any(failure.stage in NOT_GENERATED for failure in clip.failures)]
    results = RunResults(
        label=label,
        protocol=settings.protocol,
        settings=settings,
        counts=Counts(
            asked=len(clips),
            generated=len(generated),
            scored=scored,
            failed=len(clips) - scored,
            estimator_floor=sum(pose in clip.ground_truth.scores for clip in clips),
        ),
        means=mean_scores(clips, [clip.generated for clip in clips]),
        estimator_floor=mean_scores(clips, [clip.ground_truth for clip in clips]),
        distances=_distances(output, generated),
        clips=clips,
    )
    write_result(output / RESULTS, results)
    return results


def group_means(clips: Sequence[ClipResult], videos: Sequence[VideoScores], key: str) -> dict[str, float]:
    """The mean score of each group: clips that share a first frame count as one. Empty for lengths in different units."""
    if not _is_of_one_unit(videos, key):
        return {}
    groups: dict[str, list[float]] = {}
    for clip, video in zip(clips, videos, strict=True):
        if key in video.scores:
            groups.setdefault(clip.group, []).append(video.scores[key])
    return {group: float(np.mean(values)) for group, values in groups.items()}


def _is_of_one_unit(videos: Sequence[VideoScores], key: str) -> bool:
    units = {video.reference_unit for video in videos if key in video.scores}
    return len(units) < 2 or not SCORES[key].is_length


def mean_scores(clips: Sequence[ClipResult], videos: Sequence[VideoScores]) -> dict[str, MeanScore]:
    """Of every score that some video has, but of lengths only where all are in one unit. videos: one of each clip, generated or
    ground truth."""
    means = {}
    for key in SCORES:
        if not any(key in video.scores for video in videos) or not _is_of_one_unit(videos, key):
            continue
        values = [video.scores[key] for video in videos if key in video.scores]
        frames = [clip.num_frames for clip, video in zip(clips, videos, strict=True) if key in video.scores]
        groups = list(group_means(clips, videos, key).values())
        sums = [value * count for value, count in zip(values, frames, strict=True)]
        without_first = [total / max(count - 1, 1) for total, count in zip(sums, frames, strict=True)]
        summed = SCORES[key].summed_over_frames
        means[key] = MeanScore(
            mean=float(np.mean(groups)),
            median=float(np.median(values)),
            n=len(values),
            groups=len(groups),
            better=SCORES[key].better,
            mean_of_sums=float(np.mean(sums)) if summed else None,
            mean_without_first=float(np.mean(without_first)) if summed else None,
        )
    return means


def _read_clip(output: Path, name: str) -> ClipResult:
    file = output / "clips" / name / SCORES_FILE
    if not file.is_file():
        failure = Failure("generation", "it was never generated: the run was stopped before")
        return ClipResult(name, name, failures=[failure])
    return read_result(ClipResult, file)


def _distances(output: Path, clips: Sequence[ClipResult]) -> dict[str, FrechetDistance]:
    real, generated = (_read_features(output, clips, file) for file in (REAL_FEATURES, GENERATED_FEATURES))
    distances = {}
    for name in [name for name in METRICS if name in generated]:
        if min(sum(map(len, real[name])), sum(map(len, generated[name]))) >= 2:  # one feature has no covariance
            distances[name] = frechet(real[name], generated[name])
    return distances


def _read_features(output: Path, clips: Sequence[ClipResult], name: str) -> dict[str, list[np.ndarray]]:
    """The features of all clips, by metric, each [N, D] with one D."""
    features: dict[str, list[np.ndarray]] = {}
    for clip in clips:
        path = output / "clips" / clip.name / name
        if os.path.isfile(path):  # unlike Path.is_file, False for names that no file can have
            file = InputFile(path)
            for metric in npz_names(file):
                array, known = npz_array(file, metric), features.setdefault(metric, [])
                if array.ndim != 2 or not np.isfinite(array).all() or (known and known[0].shape[1] != array.shape[1]):
                    raise file.error(
                        f"found {metric} of shape {list(array.shape)}, expected finite features [N, D] as of other clips."
                    )
                known.append(array)
    return features
