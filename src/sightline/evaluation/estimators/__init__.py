"""Pose estimators by name, all with one protocol: given, direct, colmap, vipe."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.errors import SightlineError
from sightline.evaluation.estimators.protocol import Estimate, Estimator, Hints
from sightline.parsing import parse_query, parse_value

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
    kind, types = _kind_and_options(name)
    for option in options:
        if option not in types:
            raise SightlineError(f"{option} is no option of {name}: expected one of {', '.join(types)}.")
    estimator: Estimator = kind(**options)
    return estimator


def open_estimator(estimator: str | Estimator) -> Estimator:
    """An estimator from a text NAME or NAME?option=value&option=value; an estimator is returned as it is."""
    if not isinstance(estimator, str):
        return estimator
    name, texts = parse_query("the estimator", estimator)
    types = _kind_and_options(name)[1]
    options = {
        option: parse_value(f"{option} of {name}", value, types[option]) if option in types else value
        for option, value in texts.items()
    }
    return get_estimator(name, **options)


def _kind_and_options(name: str) -> tuple[Any, dict[str, Any]]:
    """The class of this name, and the types of its options."""
    if name not in ESTIMATORS:
        raise SightlineError(f"estimator is {name!r}: expected one of {', '.join(ESTIMATORS)}.")
    module, class_name = ESTIMATORS[name]
    kind = getattr(importlib.import_module(module), class_name)
    types = typing.get_type_hints(kind.__init__)
    return kind, {option: hint for option, hint in types.items() if option not in ("name", "return")}


def estimate_all(estimator: Estimator, videos: Sequence[np.ndarray], hints: Sequence[Hints]) -> list[Estimate]:
    """The estimates of several videos: together where the estimator can do that (`Direct.estimate_all`), otherwise one by one."""
    together = getattr(estimator, "estimate_all", None)
    if together is not None:
        estimates: list[Estimate] = together(videos, hints)
        return estimates
    return [estimator.estimate(video, of_video) for video, of_video in zip(videos, hints, strict=True)]
