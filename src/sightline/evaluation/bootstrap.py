"""Bootstrap intervals of means."""

from __future__ import annotations

import numpy as np

RESAMPLES, LEVEL = 10_000, 0.95
Interval = tuple[float | None, float | None]  # low and high; None, None where nothing could be resampled


def percentile_interval(draws: np.ndarray) -> tuple[float, float]:  # [resamples]
    """The range that holds the middle 95 % of the draws."""
    low, high = np.quantile(draws, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def bootstrap(values: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> Interval:  # [N]
    """Percentile interval of the mean over bootstrap resamples; None, None for fewer than two values."""
    if len(values) < 2:
        return None, None
    picks = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    return percentile_interval(values[picks].mean(axis=1))
