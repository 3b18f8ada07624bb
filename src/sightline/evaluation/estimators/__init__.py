"""Pose estimators by name, all with one protocol: given, direct, colmap, vipe."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.errors import SightlineError
from sightline.evaluation.estimators.protocol import Estimate, Estimator, Hints
from sightline.parsing import parse_query, parse_scalar

# The module and class of each; imported when it is asked for, since each needs other packages.
ESTIMATORS = {
    "given": ("sightline.evaluation.estimators.given", "Given"),
    "direct": ("sightline.evaluation.estimators.direct", "Direct"),
    "colmap": ("sightline.evaluation.estimators.colmap", "Colmap"),
    "vipe": ("sightline.evaluation.estimators.vipe", "Vipe"),
}

__all__ = ["ESTIMATORS", "Estimate", "Estimator", "Hints", "estimate_all", "get_estimator", "open_estimator"]


def get_estimator(name: str, **options: Any) -> Estimator:
    """The estimator of this name, with its options."""
    if name not in ESTIMATORS:
        raise SightlineError(f"estimator is {name!r}: expected one of {', '.join(ESTIMATORS)}.")
    module, kind = ESTIMATORS[name]
    try:
        return getattr(importlib.import_module(module), kind)(**options)
    except TypeError as error:
        raise SightlineError(f"estimator {name} cannot take these options ({error}).") from None


def open_estimator(estimator: str | Estimator) -> Estimator:
    """An estimator from a text NAME or NAME?option=value&option=value; an estimator is returned as it is."""
    if not isinstance(estimator, str):
        return estimator
    name, options = parse_query("the estimator", estimator)
    return get_estimator(name, **{option: parse_scalar(value) for option, value in options.items()})


def estimate_all(estimator: Estimator, videos: Sequence[np.ndarray], hints: Sequence[Hints]) -> list[Estimate]:
    """The estimates of several videos: together where the estimator can do that (`Direct.estimate_all`), otherwise one by one."""
    together = getattr(estimator, "estimate_all", None)
    if together is not None:
        estimates: list[Estimate] = together(videos, hints)
        return estimates
    return [estimator.estimate(video, of_video) for video, of_video in zip(videos, hints, strict=True)]
