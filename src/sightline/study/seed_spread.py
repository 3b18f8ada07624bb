"""How much the result of a row varies from seed to seed, pooled over the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sightline.evaluation.bootstrap import RESAMPLES

_UNUSUAL = 0.01  # the chance to take any row of a table for unusual where all spread alike


class SeedSpread:
    """Deviations of seeds from the mean of their row, pooled over the rows of a table.

    paired: seeds are compared between rows, so that what a seed does to all rows alike is taken out first. A row whose seeds
    spread far more than those of the others (F test at 1 % for the whole table) is not pooled: it keeps its own deviations and
    their few degrees of freedom.
    """

    def __init__(self, means: np.ndarray, rows: Sequence[str], paired: bool) -> None:  # means: [K, R]
        unusual = _unusual_rows(means, paired)
        usual = [index for index in range(len(rows)) if index not in unusual]
        self.pool, self.freedom = _deviations(means[usual], paired)
        common = means[usual].mean(axis=0) if paired and unusual else np.zeros(means.shape[1])
        self.own = {rows[index]: _deviations((means[index] - common)[None], False) for index in unusual}

    def draw(self, weights: Mapping[str, float], seeds: int, resamples: int, seed: int) -> np.ndarray:  # [resamples]
        """Deviations of a weighted sum of rows, each the mean of so many seeds."""
        random = np.random.default_rng([seed, len(weights)])
        student = student_factors(random, self.freedom, resamples)
        total = np.zeros(resamples)
        for row, weight in weights.items():
            pool, widen = self.pool, student
            if row in self.own:
                pool, freedom = self.own[row]
                widen = student_factors(random, freedom, resamples)
            total += weight * widen * random.choice(pool, (resamples, seeds)).mean(axis=1)
        return total


def _deviations(means: np.ndarray, paired: bool) -> tuple[np.ndarray, float]:  # [K, R] -> [K R], degrees of freedom
    """Deviations of seeds, scaled so that their mean square is the unbiased variance of one seed."""
    rows, seeds = means.shape
    inside = means - means.mean(axis=1, keepdims=True)
    common = inside.mean(axis=0)  # what a seed does to all rows
    apart = inside - common
    if paired:
        freedom = float((rows - 1) * (seeds - 1))
        return (apart * np.sqrt(apart.size / freedom)).ravel(), freedom
    variance = (inside**2).sum() / (rows * (seeds - 1))
    # Satterthwaite: rows whose seeds move together are not independent estimates of the spread.
    shared = (common**2).sum() / (seeds - 1)
    rest = (apart**2).sum() / (rows * (seeds - 1))
    doubt = shared**2 / (seeds - 1) + (rest**2 / ((rows - 1) * (seeds - 1)) if rows > 1 else 0.0)
    freedom = variance**2 / doubt if doubt > 0 else float(rows * (seeds - 1))
    return (inside * np.sqrt(seeds / (seeds - 1))).ravel(), freedom


def _unusual_rows(means: np.ndarray, paired: bool) -> list[int]:  # [K, R]
    """Rows whose seeds spread significantly more than those of the others; at least three rows are needed to tell."""
    rows = len(means)
    found = []
    for index in range(rows) if rows > 2 else ():
        others = np.delete(means, index, axis=0)
        pool, freedom = _deviations(others, paired)
        own, own_freedom = _deviations((means[index] - (others.mean(axis=0) if paired else 0))[None], False)
        variance = (pool**2).mean()
        random = np.random.default_rng(0)
        if variance > 0:
            ratios = (
                student_factors(random, freedom, RESAMPLES) ** 2
                * random.chisquare(own_freedom, RESAMPLES)
                / own_freedom
            )
            if (ratios >= (own**2).mean() / variance).mean() < _UNUSUAL / rows:
                found.append(index)
    return found if rows - len(found) >= 2 else []


def student_factors(random: np.random.Generator, freedom: float, resamples: int) -> np.ndarray:
    """Factors that turn normal draws into draws of Student's distribution."""
    return np.sqrt(freedom / random.chisquare(freedom, resamples))
