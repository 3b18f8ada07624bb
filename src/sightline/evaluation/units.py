"""Units of lengths: which trajectories may be compared as they are, and which only after each is divided by its own extent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

METRE, SCENE, ARBITRARY = "metre", "scene", "arbitrary"  # see Trajectory.unit


def same_unit(first: str, second: str) -> bool:
    """Whether lengths in the two units can be compared. An arbitrary scale is nobody else's, not even of another video."""
    return first == second != ARBITRARY


def unit_words(unit: str) -> str:
    """A unit as a sentence says it."""
    words = {METRE: "metres", SCENE: "the unit of the data", ARBITRARY: "an arbitrary scale"}
    return words.get(unit, f"the unit {unit}")


def drawn_with(reference: Trajectory, others: Mapping[str, Trajectory]) -> dict[str, Trajectory]:
    """The other trajectories as one figure with the reference can show them: those in another unit get its extent, and a name
    that says so."""
    drawn = {}
    for name, trajectory in others.items():
        own, wanted = (float(one.anchored().positions.norm(dim=-1).max()) for one in (trajectory, reference))
        if not same_unit(trajectory.unit, reference.unit) and min(own, wanted) > 0:
            drawn[f"{name}, rescaled"] = trajectory.scaled(wanted / own).replace(unit=reference.unit)
        else:
            drawn[name] = trajectory
    return drawn


def require_same_unit(estimated: Any, reference: Any, because: str, instead: str) -> None:
    """Refuse two trajectories whose lengths cannot be compared. Plain poses [T, 4, 4] state no unit and pass."""
    if not (isinstance(estimated, Trajectory) and isinstance(reference, Trajectory)):
        return
    if not same_unit(estimated.unit, reference.unit):
        raise SightlineError(
            f"estimated is in {unit_words(estimated.unit)} and reference in {unit_words(reference.unit)}, and {because}: "
            f"expected one unit, or {instead}."
        )
