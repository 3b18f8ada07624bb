"""A run that takes seconds: tiny Wan over pixels, a few worlds of 16 x 16."""

from __future__ import annotations

import dataclasses

import pytest

from sightline.training.recipe import Data, Model, Objective, Optimiser, Recipe, Validation


@pytest.fixture
def small(tmp_path):
    return Recipe(
        model=Model(base="tiny:pixels", encoding={"name": "scope"}, train="all"),
        data=Data(sources=("worlds:orbit?clips=12",), frames=5, width=16, height=16, held_out=0.2, workers=1),
        objective=Objective(shift=1.0),
        optimiser=Optimiser(steps=6, batch=4, micro_batch=1, rate=2e-3, new_rate=10.0, warmup=2, ema=0.9),
        validation=Validation(every=100, clips=2, videos=0),
        output=str(tmp_path / "run"),
        precision="fp32",
        checkpoint_every=1,
        keep=2,
        log="none",
    )


def changed(recipe, section=None, **settings):
    """The recipe with some settings changed, of one section or of itself."""
    if section is None:
        return dataclasses.replace(recipe, **settings)
    return dataclasses.replace(recipe, **{section: dataclasses.replace(getattr(recipe, section), **settings)})
