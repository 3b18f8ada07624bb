"""The Frechet distance between two sets of features, with the sample sizes it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.errors import SightlineError


@dataclass(frozen=True)
class FrechetDistance:
    """A distance between the features of real and of generated clips.

    distance: between generated and real features. between_halves: between two halves of the real clips, a scale to read the
        distance by; None for fewer than two real clips. The halves have half as many features, which makes their distance
        larger, so the distance of a perfect model may be below it.
    n_real, n_generated, n_half: numbers of features. dimensions: of a feature. clips: number of real clips.
    """

    distance: float
    n_real: int
    n_generated: int
    between_halves: float | None
    n_half: int
    dimensions: int
    clips: int


def gaussian_distance(
    mean: np.ndarray,  # [D]
    covariance: np.ndarray,  # [D, D]
    other_mean: np.ndarray,  # [D]
    other_covariance: np.ndarray,  # [D, D]
) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)), squared 2-Wasserstein distance of two Gaussians.

    The trace of the root is the sum of the roots of the eigenvalues of C1^(1/2) C2 C1^(1/2), which is symmetric. This
    avoids the matrix root of a nearly singular product and its spurious complex parts.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(values.clip(min=0)) @ vectors.T
    product = np.linalg.eigvalsh(root @ other_covariance @ root)
    trace = np.trace(covariance) + np.trace(other_covariance) - 2 * np.sqrt(product.clip(min=0)).sum()
    return float(max(np.square(mean - other_mean).sum() + trace, 0.0))


def feature_distance(features: np.ndarray, others: np.ndarray) -> float:  # [N, D], [M, D]
    """The distance of the Gaussians with the features' means and (unbiased) covariances."""
    for rows in (features, others):
        if rows.ndim != 2 or len(rows) < 2:
            raise SightlineError(f"features have shape {list(rows.shape)}: expected [N, D] with N of at least 2.")
    if min(len(features), len(others)) > features.shape[1]:
        return gaussian_distance(*_moments(features), *_moments(others))
    # With few features the covariances are A'A and B'B of thin A and B, and the trace of the root is the sum of the
    # singular values of AB': the same number from a small matrix.
    means = [rows.mean(axis=0, dtype=np.float64) for rows in (features, others)]
    thin = [(rows - mean) / np.sqrt(len(rows) - 1) for rows, mean in zip((features, others), means, strict=True)]
    trace = sum(np.square(rows).sum() for rows in thin) - 2 * np.linalg.svd(thin[0] @ thin[1].T, compute_uv=False).sum()
    return float(max(np.square(means[0] - means[1]).sum() + trace, 0.0))


def frechet(real: Sequence[np.ndarray], generated: Sequence[np.ndarray]) -> FrechetDistance:
    """The distance of two sets of clips, each clip [n, D]. The halves divide the real clips, not their frames, because the
    frames of a clip resemble each other."""
    real_features, generated_features = np.concatenate(list(real)), np.concatenate(list(generated))
    halves = [np.concatenate(list(half)) for half in (real[0::2], real[1::2]) if len(half)]
    has_halves = len(halves) == 2 and min(len(half) for half in halves) >= 2
    return FrechetDistance(
        distance=feature_distance(real_features, generated_features),
        n_real=len(real_features),
        n_generated=len(generated_features),
        between_halves=feature_distance(*halves) if has_halves else None,
        n_half=min(len(half) for half in halves) if has_halves else 0,
        dimensions=real_features.shape[1],
        clips=len(real),
    )


def _moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    features = features.astype(np.float64)
    return features.mean(axis=0), np.atleast_2d(np.cov(features, rowvar=False))
