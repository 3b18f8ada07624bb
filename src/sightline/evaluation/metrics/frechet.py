"""The Frechet distance between two sets of features, with the numbers it must never be read without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.errors import SightlineError


@dataclass(frozen=True)
class FrechetResult:
    """distance: generated to real. floor: between two halves of the real clips, which have half as many features, so a
    distance of a model that cannot be told from the truth may lie below it. n: features of each set."""

    distance: float
    n_real: int
    n_generated: int
    floor: float | None
    n_floor: int
    dimensions: int


def gaussian_distance(
    mean: np.ndarray,  # [D]
    covariance: np.ndarray,  # [D, D]
    other_mean: np.ndarray,  # [D]
    other_covariance: np.ndarray,  # [D, D]
) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)), squared 2-Wasserstein distance of two Gaussians.

    The trace of the root is the sum of the roots of the eigenvalues of C1^(1/2) C2 C1^(1/2), which is symmetric: no
    matrix root of a nearly singular product is taken, and none of its complex parts is dropped.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(values.clip(min=0)) @ vectors.T
    product = np.linalg.eigvalsh(root @ other_covariance @ root)
    trace = np.trace(covariance) + np.trace(other_covariance) - 2 * np.sqrt(product.clip(min=0)).sum()
    return float(max(np.square(mean - other_mean).sum() + trace, 0.0))


def feature_distance(features: np.ndarray, others: np.ndarray) -> float:  # [N, D], [M, D]
    """Of the Gaussians that have the features' means and (unbiased) covariances."""
    for one in (features, others):
        if one.ndim != 2 or len(one) < 2:
            raise SightlineError(f"features have shape {list(one.shape)}: expected [N, D] with N of at least 2.")
    if min(len(features), len(others)) > features.shape[1]:
        first, second = (_moments(one) for one in (features, others))
        return gaussian_distance(*first, *second)
    # With few features the covariances are A'A and B'B of thin A and B, and the trace of the root is the sum of the
    # singular values of AB': the same number from a small matrix.
    means = [one.mean(axis=0, dtype=np.float64) for one in (features, others)]
    thin = [(one - mean) / np.sqrt(len(one) - 1) for one, mean in zip((features, others), means, strict=True)]
    trace = sum(np.square(one).sum() for one in thin) - 2 * np.linalg.svd(thin[0] @ thin[1].T, compute_uv=False).sum()
    return float(max(np.square(means[0] - means[1]).sum() + trace, 0.0))


def frechet(real: Sequence[np.ndarray], generated: Sequence[np.ndarray]) -> FrechetResult:
    """Of clips, each [n, D]. The floor parts the real clips, not their frames: frames of a clip are alike."""
    truth, made = np.concatenate(list(real)), np.concatenate(list(generated))
    halves = [np.concatenate(list(half)) for half in (real[0::2], real[1::2]) if len(half)]
    has_floor = len(halves) == 2 and min(len(half) for half in halves) >= 2
    return FrechetResult(
        distance=feature_distance(truth, made),
        n_real=len(truth),
        n_generated=len(made),
        floor=feature_distance(*halves) if has_floor else None,
        n_floor=min(len(half) for half in halves) if has_floor else 0,
        dimensions=truth.shape[1],
    )


def _moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    features = features.astype(np.float64)
    return features.mean(axis=0), np.atleast_2d(np.cov(features, rowvar=False))
