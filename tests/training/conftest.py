"""A recipe that trains in seconds: a tiny Wan on pixels, with clips of 16 x 16."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from safetensors import safe_open

from sightline.training.recipe import (
    DataConfig,
    ModelConfig,
    ObjectiveConfig,
    OptimizerConfig,
    Recipe,
    ValidationConfig,
)


@pytest.fixture
def small(tmp_path):
    return Recipe(
        model=ModelConfig(base="tiny:pixels", encoding={"name": "scope"}, trainable="all"),
        data=DataConfig(
            sources=("worlds:orbit?clips=12",), num_frames=5, width=16, height=16, held_out_fraction=0.2, num_workers=1
        ),
        objective=ObjectiveConfig(shift=1.0),
        optimizer=OptimizerConfig(
            max_steps=4,
            batch_size=4,
            micro_batch_size=1,
            learning_rate=2e-3,
            encoding_lr_scale=10.0,
            warmup_steps=2,
            ema_decay=0.9,
        ),
        validation=ValidationConfig(every_steps=100, num_clips=2, num_videos=0),
        output=str(tmp_path / "run"),
        dtype="float32",
        checkpointing_steps=1,
        checkpoints_total_limit=2,
        report_to="none",
    )


def read_shards(folder):
    """The full tensors of a folder of a checkpoint, put together from its files by what their headers say."""
    parts = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as shard:
            places = json.loads(shard.metadata()["DCP_SHARDING_INFO"])
            for name in shard.keys():  # noqa: SIM118 (not a dictionary)
                parts.setdefault(name, []).append((places[name]["saved_offsets"], shard.get_tensor(name)))
    tensors = {}
    for name, chunks in parts.items():
        shape = [max(offset[i] + chunk.shape[i] for offset, chunk in chunks) for i in range(chunks[0][1].ndim)]
        tensors[name] = torch.full(shape, torch.nan)
        assert sum(chunk.numel() for _, chunk in chunks) == tensors[name].numel(), name  # each number once
        for offset, chunk in chunks:
            tensors[name][tuple(slice(a, a + n) for a, n in zip(offset, chunk.shape, strict=True))] = chunk
    return tensors


def changed(recipe, section=None, **settings):
    """The recipe with some settings changed, of one section or of itself."""
    if section is None:
        return dataclasses.replace(recipe, **settings)
    return dataclasses.replace(recipe, **{section: dataclasses.replace(getattr(recipe, section), **settings)})
