"""How the cameras of a run are measured, decided before a model is loaded: the pose estimator, and what it is compared with."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from shutil import which

from sightline.errors import SightlineError
from sightline.evaluation.cases import ClipFacts
from sightline.evaluation.estimators import Estimator, open_estimator
from sightline.evaluation.scoring import Against
from sightline.evaluation.units import ARBITRARY, METRE, same_unit, unit_words

_log = logging.getLogger("sightline")


def choose_estimator(estimator: str | Estimator | None, facts: ClipFacts) -> str | Estimator:
    """The estimator that is asked for, or by default one that these clips allow. One that cannot run is refused."""
    lacking = ", ".join(facts.without_depth)
    if estimator is None:
        if not lacking:
            return "direct"
        estimator = "vipe" if which("vipe") else "colmap" if find_spec("pycolmap") else None
        if estimator is None:
            raise SightlineError(
                f"estimator is not given, and {lacking} does not know the depth of frame 0, which the default direct needs: "
                "expected ViPE or `pip install pycolmap`, or --estimator given?path=DIR."
            )
        _log.info(
            "estimator: %s, because %s does not know the depth of frame 0, which direct needs", estimator, lacking
        )
    opened = open_estimator(estimator)
    if lacking and opened.name == "direct":
        raise SightlineError(
            f"estimator is direct, which needs the depth of frame 0, and {lacking} does not know it: expected colmap, vipe or "
            "given."
        )
    opened.require_installed()
    return estimator


def choose_reference(against: Against | None, estimator: str | Estimator, facts: ClipFacts) -> Against:
    """What pose errors are measured to. Metres and the data's own unit are never compared as if they were one."""
    opened = open_estimator(estimator)
    for source, unit in facts.units.items():
        estimated = opened.unit(unit, source not in facts.without_depth)
        if estimated is None or same_unit(estimated, unit):
            continue
        if estimated == ARBITRARY:
            _log.info(
                "%s finds the cameras of %s in an arbitrary scale: lengths are compared rescaled only",
                opened.name,
                source,
            )
        elif against == "trajectory":
            raise SightlineError(
                f"against is 'trajectory', but {opened.name} estimates in {unit_words(estimated)} and the trajectories of "
                f"{source} are in {unit_words(unit)}: expected 'video'."
            )
        elif estimated == METRE and against is None:
            _log.info(
                "against: video, because %s estimates in metres and %s is in %s", opened.name, source, unit_words(unit)
            )
            return "video"
    return against or "trajectory"
