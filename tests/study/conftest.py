"""A study that runs in seconds: a tiny Wan on pixels, with clips of 16 x 16, and two steps for each run."""

from __future__ import annotations

import dataclasses

import pytest

from sightline.study.study import Base, Measure, Rate, Row, Study, TableConfig
from sightline.training.recipe import DataConfig, ModelConfig, ObjectiveConfig, OptimizerConfig, Recipe

CLIPS = "worlds:orbit?clips=7&unit=metre"
VIDEOS = "worlds:orbit?seed=900000&clips=1&unit=metre"


@pytest.fixture(scope="session")
def small_recipe(tmp_path_factory):
    recipe = Recipe(
        model=ModelConfig(base="tiny:pixels", trainable="paper"),
        data=DataConfig(
            sources=(CLIPS,), num_frames=5, width=16, height=16, held_out_fraction=0.4, num_workers=0,
            max_sequence_length=16, keep_in_memory=True,
        ),
        objective=ObjectiveConfig(shift=1.0),
        optimizer=OptimizerConfig(batch_size=2, micro_batch_size=2, learning_rate=2e-3, ema_decay=0.9),
        dtype="float32",
    )  # fmt: skip
    file = tmp_path_factory.mktemp("recipe") / "small.yaml"
    file.write_text(recipe.to_yaml())
    return file


@pytest.fixture(scope="session")
def small(small_recipe):
    """Two rows that run and one that cannot: 4 heads are no multiple of its ratio."""
    return Study(
        title="small",
        recipe=str(small_recipe),
        rows={
            "SCoPE": Row({"name": "scope"}),
            "UCPE": Row({"name": "ucpe", "ratio": 3}),
            "ReRoPE": Row({"name": "rerope"}),
        },
        bases={"base": Base("tiny:pixels")},
        tables={"all": TableConfig(videos=(VIDEOS,))},
        seeds=(0, 1),
        steps=2,
        measure=Measure(
            ("loss",), loss_clips=1, videos=1, poses=1, loops=1, num_inference_steps=1, batch_size=3, history=1
        ),
    )


@pytest.fixture(scope="session")
def quick(small):
    """One row that runs."""
    return dataclasses.replace(small, rows={"SCoPE": small.rows["SCoPE"]})


def longer(quick, **settings):
    """Two tables that differ in the budget of their runs."""
    tables = {"once": quick.tables["all"], "twice": dataclasses.replace(quick.tables["all"], budget_scale=2.0)}
    return dataclasses.replace(quick, tables=tables, rates=(Rate(2e-3), Rate(1e-3)), sweep_steps=1, **settings)
