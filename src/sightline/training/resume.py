"""Where a run goes on when it is started again, and whether anything is left to do."""

from __future__ import annotations

from pathlib import Path

from sightline.errors import SightlineError
from sightline.training import checkpoint
from sightline.training.recipe import Recipe


def find_start(recipe: Recipe, run: Path, resume: str | None) -> Path | None:
    """The checkpoint that the run goes on from; None starts from the beginning."""
    if resume is None:
        if checkpoint.list_checkpoints(run / "checkpoints"):
            raise SightlineError(
                f"{run} holds checkpoints of an earlier run: expected --resume latest, or another output."
            )
        return None
    start = checkpoint.find_checkpoint(run, resume)
    if start is not None and (step := checkpoint.read_state(start).step) > recipe.optimizer.max_steps:
        raise SightlineError(f"{start} has done {step} steps: expected optimizer.max_steps above that to go on.")
    return start


def is_finished(state: checkpoint.State, recipe: Recipe) -> bool:
    """Whether a run has done all steps, or trained as long as it may."""
    max_seconds = recipe.optimizer.max_seconds
    return state.step == recipe.optimizer.max_steps or (max_seconds is not None and state.seconds >= max_seconds)
