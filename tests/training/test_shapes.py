"""Several shapes of clips: one in each step, the same after a resume, with accumulation and on any number of processes."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.data.encode import ClipEncoder
from sightline.errors import SightlineError
from sightline.training import trainer
from sightline.training.checkpoint import list_checkpoints
from sightline.training.feeds import make_feed
from sightline.training.objective import draw
from sightline.training.parallelize import micro_batch_slices
from sightline.training.recipe import DataConfig, ObjectiveConfig, OptimizerConfig
from tests.training.conftest import changed, read_shards

SHAPES = ("5x16x16", "9x16x16", "5x32x16")
CPU = torch.device("cpu")


DATA = DataConfig(
    sources=("worlds:orbit?clips=20&paths=2&mirrored=true&moves=0.5",),
    shapes=SHAPES,
    shape_weights=(2.0, 1.0, 1.0),
    held_out_fraction=0.3,
    num_workers=1,
    keep_in_memory=True,
)


def log_of(run):
    return [json.loads(line) for line in (Path(run) / "log.jsonl").read_text().splitlines()]


def test_a_resumed_run_ends_with_the_same_weights(small, tmp_path):
    data = replace(DATA, keep_in_memory=False)
    mixed = changed(replace(small, data=data), "optimizer", max_steps=4, micro_batch_size=2)
    trainer.train(mixed)
    scored = next(line for line in log_of(mixed.output) if "validation" in line)
    assert {"loss", "loss_without_camera", "loss_with_another_camera"} <= set(scored)
    again = changed(mixed, output=str(tmp_path / "again"))
    trainer.train(again, resume=str(Path(mixed.output) / "checkpoints" / "step-00000003"))
    first, second = (
        read_shards(list_checkpoints(Path(run.output) / "checkpoints")[-1] / "weights") for run in (mixed, again)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def feed():
    return feed_of(DATA, 4)


def feed_of(data, batch_size):
    encoder = ClipEncoder(tiny_pipeline("pixels"))
    return make_feed(data, encoder, 0, batch_size=batch_size, patch_size=(1, 2, 2), with_camera=True)


def test_two_processes_divide_the_clips_of_one(feed):
    config = OptimizerConfig(batch_size=4, micro_batch_size=2)
    chance = partial(draw, objective=ObjectiveConfig(), seed=0)

    def batches(rank, processes, start=0):
        slices = micro_batch_slices(config, rank, processes)
        micro = feed.micro_batches(4 * start, 4, slices, 0, CPU, chance)
        found = [batch for batch, _ in islice(micro, 12 * len(slices))]
        micro.close()
        return [found[step * len(slices) : (step + 1) * len(slices)] for step in range(12)]

    alone, one, other, later = batches(0, 1), batches(0, 2), batches(1, 2), batches(0, 1, start=5)
    shapes = set()
    for step in range(12):
        whole = torch.cat([batch.latents for batch in alone[step]])  # cat refuses batches of different shapes
        shapes.add(tuple(whole.shape[2:]))
        assert torch.equal(whole, torch.cat([one[step][0].latents, other[step][0].latents]))
        assert [index for batch in alone[step] for index in batch.clip_indices] == list(range(4 * step, 4 * step + 4))
        if step >= 5:
            assert torch.equal(whole, torch.cat([batch.latents for batch in later[step - 5]]))
    assert len(shapes) == 3
    assert feed.max_tokens((1, 2, 2)) == max(t * h * w // 4 for t, h, w in shapes)


def test_a_scene_is_in_one_shape_and_one_part(feed):
    scenes = [
        {window.shot[:8] for window in dataset.windows}
        for part in (feed.train, feed.held_out)
        for dataset in part.datasets
    ]
    assert sum(map(len, scenes)) == len(set().union(*scenes)) == 10


def test_one_shape_in_the_list_is_the_shape_of_the_old_settings(small):
    old = small.data
    new = DataConfig(sources=old.sources, shapes=("5x16x16",), held_out_fraction=old.held_out_fraction)
    first, second = (
        next(feed_of(data, 4).micro_batches(0, 4, [slice(0, 4)], 0, CPU, lambda batch: batch))[0] for data in (old, new)
    )
    assert torch.equal(first.latents, second.latents)
    assert torch.equal(first.camera_tokens.rows, second.camera_tokens.rows)


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"shapes": ("5x16",)}, "shape is '5x16': expected FRAMESxWIDTHxHEIGHT"),
        ({"shapes": ("5x16x16", "5x16x16")}, "expected every shape once"),
        ({"shapes": ("5x16x16",), "shape_weights": (1.0, 2.0)}, "data.shape_weights are"),
        ({"shapes": ("5x16x16", "1x16x16")}, "num_frames is 1"),
        ({"cache": "somewhere", "sources": (), "shapes": ("5x16x16",)}, "expected none with a cache"),
    ],
)
def test_shapes_that_cannot_be(small, settings, sentence):
    with pytest.raises(SightlineError, match=sentence):
        changed(small, "data", **settings)


def test_shapes_that_cannot_be_trained_say_so_before_anything_is_rendered(small):
    for shapes, sentence in ((("5x16x16", "5x17x16"), "width is 17"), (("5x16x16", "6x16x16"), "num_frames is 6")):
        with pytest.raises(SightlineError, match=sentence):
            feed_of(changed(small, "data", shapes=shapes).data, 4)
    with pytest.raises(SightlineError, match="no training clips: expected some of every shape"):
        feed_of(changed(small, "data", shapes=SHAPES, shape_weights=(1.0, 1.0, 1e-9)).data, 4)
