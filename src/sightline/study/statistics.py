"""Statistics of a study: means with intervals, and paired comparisons of rows over the same clips and seeds.

The design is crossed: every row is trained with every seed and measured on every clip. A resample of the bootstrap draws
clips and seeds anew, the same for all rows (docs/metrics.md states what is resampled, and why):

    clips   with replacement; clips of one scene together. What the rows share, such as a hard clip, cancels in a difference.
    seeds   the deviation of each row's seed from the row's mean, drawn from the deviations of all rows of the table. Three
            seeds alone cannot be resampled: a mean of the three never leaves their range, which misses the truth in a quarter
            of all cases.

Both draws are widened by Student's factor, so that the intervals hold for few seeds and few clips as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.evaluation.bootstrap import RESAMPLES, Interval, percentile_interval
from sightline.study.results import COST, METRICS, RunResult, scene_of
from sightline.study.seed_spread import SeedSpread, student_factors

_SEED = 0
_TIMES = ("step_seconds", "denoise_seconds")


@dataclass(frozen=True, eq=False)
class Values:
    """One metric of the rows of a table. array: [rows, seeds, clips], nan where nothing was measured.

    scenes: of each clip; clips of one scene are not independent.
    """

    rows: list[str]
    seeds: list[int]
    scenes: list[str]
    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Contrast:
    """A weighted sum of rows. draws: [resamples], around the estimate; None where neither seeds nor clips can be resampled.

    clips: those that all rows of the sum have measured with all of their common seeds.
    """

    estimate: float
    draws: np.ndarray | None
    clips: int
    seeds: int

    @property
    def interval(self) -> Interval:
        return (None, None) if self.draws is None else percentile_interval(self.draws)

    @property
    def p_value(self) -> float | None:
        """Two-sided, of the hypothesis that the sum is 0."""
        if self.draws is None:
            return None
        tail = min(int((self.draws <= 0).sum()), int((self.draws >= 0).sum()))
        return min(2 * (tail + 1) / (len(self.draws) + 1), 1.0)


def collect(results: Sequence[RunResult], metric: str) -> Values:
    """The values of a metric, a cost or a fact, by row, seed and clip. A cost or a fact has one value per run."""
    runs = [run for run in results if run.failure is None and values_by_clip(run, metric)]
    rows, seeds = list(dict.fromkeys(run.row for run in runs)), sorted({run.seed for run in runs})
    clips = list(dict.fromkeys(name for run in runs for name in values_by_clip(run, metric)))
    array = np.full((len(rows), len(seeds), len(clips)), np.nan)
    for run in runs:
        named = values_by_clip(run, metric)
        array[rows.index(run.row), seeds.index(run.seed)] = [named.get(clip, np.nan) for clip in clips]
    if metric in _TIMES and array.size and np.array_equal(np.nanmin(array, axis=1), np.nanmax(array, axis=1)):
        seeds, array = seeds[:1], np.nanmax(array, axis=1, keepdims=True)  # measured once for all seeds: no repetition
    return Values(rows, seeds, [scene_of(clip) for clip in clips], array)


def values_by_clip(run: RunResult, metric: str) -> dict[str, float]:
    """Values of a run by clip, without those that could not be measured. A cost or a fact has one, under an empty name."""
    if metric in METRICS:
        if metric not in run.metrics:  # such as the loss with another clip's camera, of a row without a camera
            return {}
        clips = run.clips[METRICS[metric].group]
        return {clip: value for clip, value in zip(clips, run.metrics[metric], strict=True) if value is not None}
    number = (run.cost if metric in COST else run.facts).get(metric)
    return {} if number is None else {"": number}


class Bootstrap:
    """Resamples the clips and seeds of a table. All contrasts of one object are drawn with the same clips."""

    def __init__(self, values: Values, resamples: int = RESAMPLES) -> None:
        self.values, self.resamples = values, resamples
        self._clip_counts: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def mean(self, row: str) -> Contrast | None:
        """The mean of one row; None where nothing was measured."""
        return self._contrast({row: 1.0})

    def difference(self, first: str, second: str) -> Contrast | None:
        """The mean of the first row minus that of the second, over what both have; None where they share nothing."""
        return self._contrast({first: 1.0, second: -1.0})

    def margin_growth(self, large: tuple[str, str], small: tuple[str, str]) -> Contrast | None:
        """How much larger the relative margin log(first / second) of one pair is than that of another, linearised at the means.

        None where a mean is missing or not positive.
        """
        rows = (*large, *small)
        means = [self.mean(row) for row in rows]
        if any(mean is None or mean.estimate <= 0 for mean in means):
            return None
        logs = np.array([mean.estimate for mean in means if mean is not None])
        signs = np.array([1.0, -1.0, -1.0, 1.0])
        contrast = self._contrast(dict(zip(rows, signs / logs, strict=True)))
        if contrast is None:
            return None
        estimate = float(signs @ np.log(logs))
        draws = None if contrast.draws is None else contrast.draws - contrast.estimate + estimate
        return Contrast(estimate, draws, contrast.clips, contrast.seeds)

    def _contrast(self, weights: Mapping[str, float]) -> Contrast | None:
        array = self.values.array[[self.values.rows.index(row) for row in weights]]  # [K, R, C]
        complete = _complete(array, self.values.scenes)
        if complete is None:
            return None
        combined = np.einsum("k,krc->rc", np.array(list(weights.values())), complete)  # [R, scenes]
        seeds, scenes = combined.shape
        estimate = float(combined.mean())
        draws = np.zeros(self.resamples)
        if scenes > 1:
            draws += self._clip_draws(combined)
        if seeds > 1:
            paired = len(weights) > 1
            table = self._paired_spread if paired else self._own_spread
            spread = table or SeedSpread(complete.mean(axis=2), list(weights), paired)
            draws += spread.draw(weights, seeds, self.resamples, _SEED)
        clips = int(np.isfinite(array[:, _with_values(array)]).all(axis=(0, 1)).sum())
        return Contrast(estimate, estimate + draws if max(seeds, scenes) > 1 else None, clips, seeds)

    def _clip_draws(self, combined: np.ndarray) -> np.ndarray:  # [R, scenes] -> [resamples]
        """Deviations of the mean when scenes are drawn with replacement.

        A scene's mean over R seeds still varies from training to training. That part is also in the means of the seeds, so it
        is taken out here, as in the analysis of variance: otherwise it would be counted twice.
        """
        seeds, scenes = combined.shape
        of_scene = combined.mean(axis=0) - combined.mean()
        between = seeds * (of_scene**2).sum() / (scenes - 1)
        if between == 0:
            return np.zeros(self.resamples)
        noise = combined - combined.mean(axis=0) - combined.mean(axis=1, keepdims=True) + combined.mean()
        within = (noise**2).sum() / ((seeds - 1) * (scenes - 1)) if seeds > 1 else 0.0
        if scenes not in self._clip_counts:
            random = np.random.default_rng([_SEED, scenes])
            counts = random.multinomial(scenes, np.full(scenes, 1 / scenes), self.resamples)
            self._clip_counts[scenes] = counts / scenes, student_factors(random, scenes - 1, self.resamples)
        shares, student = self._clip_counts[scenes]
        keep = max(1 - within / between, 0.0) * scenes / (scenes - 1)
        return np.sqrt(keep) * student * (shares @ of_scene)

    @cached_property
    def _paired_spread(self) -> SeedSpread | None:
        return self._spread(paired=True)

    @cached_property
    def _own_spread(self) -> SeedSpread | None:
        return self._spread(paired=False)

    def _spread(self, paired: bool) -> SeedSpread | None:
        """How seeds spread in this table, from the rows that have all seeds and the clips that all of these have measured."""
        has_value = np.isfinite(self.values.array).any(axis=2)  # [K, R]
        chosen = np.flatnonzero(has_value.all(axis=1))
        complete = _complete(self.values.array[chosen], self.values.scenes) if len(chosen) > paired else None
        if complete is None or complete.shape[1] < 2:
            return None
        return SeedSpread(complete.mean(axis=2), [self.values.rows[index] for index in chosen], paired)


def _with_values(array: np.ndarray) -> np.ndarray:  # [K, R, C] -> [R]
    """Seeds that every row has."""
    return np.isfinite(array).any(axis=2).all(axis=0)


def _complete(array: np.ndarray, scenes: Sequence[str]) -> np.ndarray | None:  # [K, R, C] -> [K, seeds, scenes]
    """The common seeds of the rows, and the clips that all of these have measured, averaged by scene; None without any."""
    array = array[:, _with_values(array)]
    measured = np.flatnonzero(np.isfinite(array).all(axis=(0, 1)))
    if not array.size or not len(measured):
        return None
    names = [scenes[int(index)] for index in measured]
    by_scene = [array[..., measured[[name == scene for name in names]]].mean(axis=2) for scene in dict.fromkeys(names)]
    return np.stack(by_scene, axis=2)
