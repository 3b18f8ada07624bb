"""Pose estimators by name, behind one protocol: given, direct, colmap, vipe."""

from __future__ import annotations

import importlib
from typing import Any

from sightline.errors import SightlineError
from sightline.evaluation.estimators.protocol import Estimate, Estimator, Hints

# Where each lives; loaded when it is asked for, as each needs another package.
ESTIMATORS = {
    "given": ("sightline.evaluation.estimators.given", "Given"),
    "direct": ("sightline.evaluation.estimators.direct", "Direct"),
    "colmap": ("sightline.evaluation.estimators.colmap", "Colmap"),
    "vipe": ("sightline.evaluation.estimators.vipe", "Vipe"),
}

__all__ = ["ESTIMATORS", "Estimate", "Estimator", "Hints", "get_estimator"]


def get_estimator(name: str, **options: Any) -> Estimator:
    """The estimator of a name, with its options."""
    if name not in ESTIMATORS:
        raise SightlineError(f"estimator is {name!r}: expected one of {', '.join(ESTIMATORS)}.")
    module, kind = ESTIMATORS[name]
    try:
        return getattr(importlib.import_module(module), kind)(**options)
    except TypeError as error:
        raise SightlineError(f"estimator {name} cannot take these options ({error}).") from None
