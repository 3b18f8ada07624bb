"""The pair of experts of A14B: where each is while videos are generated, and what each process loads and does."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from sightline.backbones.tiny import tiny_pipeline
from sightline.training import model as training_model
from sightline.training import sampler, trainer, validation
from sightline.training.model import build_model, load_base, warn_of_other_experts_noise
from sightline.training.sampler import load_sampler
from tests.processes import start_two
from tests.training.conftest import changed, read_shards
from tests.training.test_trainer import last_checkpoint, losses_of, train_each


@pytest.fixture
def pair(small, tmp_path):
    """A recipe for one expert of a tiny I2V-A14B that is stored in a folder."""
    tiny_pipeline("i2v-a14b").save_pretrained(tmp_path / "base")
    recipe = changed(small, "model", base=str(tmp_path / "base"), trainable="paper")
    recipe = changed(recipe, "data", width=16, height=16, held_out_fraction=0.4)
    recipe = changed(recipe, "validation", num_clips=3, num_videos=3, num_inference_steps=2, guidance_scale=1.0)
    recipe = changed(recipe, checkpointing_steps=2)
    return changed(changed(recipe, "optimizer", max_steps=2, batch_size=2), "objective", sigma_min=0.9)


@pytest.mark.parametrize("component, dtype", [("transformer", "float32"), ("transformer_2", "bfloat16")])
def test_both_experts_are_on_the_device_while_videos_are_made_and_only_then(pair, monkeypatch, component, dtype):
    recipe = changed(changed(pair, "model", component=component), dtype=dtype)
    device = torch.device("cpu", 0)  # a name of its own for the CPU, so that moves to it can be told apart
    loaded = load_sampler(recipe, device, num_processes=1)
    ((other_name, other),) = loaded.others.items()
    assert {component, other_name} == {"transformer", "transformer_2"}
    assert other.blocks[0].attn1.to_q.weight.dtype == getattr(torch, dtype) and loaded.pipe.text_encoder is None
    model = build_model(load_base(recipe.model).transformer, recipe.model)
    moves = []
    real = nn.Module.to
    monkeypatch.setattr(
        type(other), "to", lambda self, *place, **options: moves.append((self is other, place)) or real(self, *place)
    )
    with loaded.placed(model, device) as pipe:
        assert moves == [(True, (device,))]
        assert getattr(pipe, component) is model and getattr(pipe, other_name) is other
    assert moves[1:] == [(True, ("cpu",))] and "forward" not in vars(other) | vars(model)
    assert getattr(loaded.pipe, component) is None  # a pipeline would keep the model's memory


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("component, low, high", [("transformer", 0.9, 1.0), ("transformer_2", 0.0, 0.9)])
def test_either_expert_is_trained_and_validated_on_a_gpu(pair, monkeypatch, component, low, high, dtype):
    """From training to videos of both experts, the other of which waits on the CPU between the validations."""
    recipe = changed(changed(pair, "model", component=component), "objective", sigma_min=low, sigma_max=high)
    recipe = changed(changed(recipe, dtype=dtype), "validation", every_steps=1, num_inference_steps=4)
    places, used, others = [], [], []

    def watch(*arguments, **options):
        loaded = load_sampler(*arguments, **options)
        (other,) = loaded.others.values()
        others.append(other)
        other.register_forward_hook(lambda module, inputs, output: used.append(output[0].device.type))
        return loaded

    def write(model, *arguments, real=validation.write_samples):
        places.append(others[0].blocks[0].attn1.to_q.weight.device.type)
        real(model, *arguments)
        places.append(others[0].blocks[0].attn1.to_q.weight.device.type)

    monkeypatch.setattr(trainer, "load_sampler", watch)
    monkeypatch.setattr(validation, "write_samples", write)
    run = Path(trainer.train(recipe))
    assert places == ["cpu"] * 4  # before and after the videos of two steps
    assert set(used) == {"cuda"}
    assert len(list((run / "samples").iterdir())) == 2 * 3
    assert len(scores_of(run)) == 3 and all(math.isfinite(score) for score in scores_of(run).values())


@pytest.mark.parametrize("component, low, high", [("transformer", 0.9, 1.0), ("transformer_2", 0.0, 0.9)])
def test_noise_that_an_expert_never_sees_is_warned_of(pair, caplog, component, low, high):
    model = replace(pair.model, component=component)
    warn_of_other_experts_noise(model, replace(pair.objective, sigma_min=low, sigma_max=high))
    warn_of_other_experts_noise(replace(model, base="tiny:ti2v-5b"), replace(pair.objective, sigma_min=0.0))
    assert not caplog.records
    warn_of_other_experts_noise(model, replace(pair.objective, sigma_min=0.0))
    assert f"is only used from {low:g} to {high:g}" in caplog.text


def train_in_shards(rank, port, run, sharded_run):
    """One run as usual, and one in which a process may not load a transformer as a whole."""

    def train(recipe, resume, real=trainer.train):
        if recipe == sharded_run:
            training_model.load_transformer = sampler.load_transformer = None
        return real(recipe, resume)

    trainer.train = train
    train_each(rank, port, [(run, None), (sharded_run, None)])


def scores_of(run):
    lines = [json.loads(line) for line in (Path(run) / "log.jsonl").read_text().splitlines()]
    return {name: value for name, value in lines[-1].items() if name.startswith("loss")}


def test_processes_load_their_shards_only_and_share_the_validation(pair, tmp_path):
    shared = changed(pair, output=str(tmp_path / "two"), parallel="fsdp2")
    copies = replace(pair, output=str(tmp_path / "copies"))
    start_two(train_in_shards, copies, shared)
    trainer.train(pair)
    expected = read_shards(last_checkpoint(pair.output) / "weights")
    for recipe in (shared, copies):
        assert losses_of(recipe.output) == pytest.approx(losses_of(pair.output), abs=1e-5)
        assert scores_of(recipe.output) == pytest.approx(scores_of(pair.output), abs=1e-5)
        names = [
            sorted(path.name for path in (Path(run) / "samples").iterdir()) for run in (recipe.output, pair.output)
        ]
        assert names[0] == names[1] and len(names[0]) == 3
        for name, tensor in read_shards(last_checkpoint(recipe.output) / "weights").items():
            torch.testing.assert_close(tensor, expected[name], atol=2e-3, rtol=1e-2, msg=name)
