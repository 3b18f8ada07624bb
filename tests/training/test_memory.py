"""The memory estimate against peaks measured on a GPU, and its constants against what a small block saves for backward."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from diffusers import WanTransformer3DModel

import sightline as sl
from sightline.data.latents import LatentBatch
from sightline.errors import SightlineError
from sightline.training import memory
from sightline.training.objective import draw, flow_matching_loss
from sightline.training.recipe import DataConfig, ModelConfig, ObjectiveConfig, OptimizerConfig, Recipe
from sightline.training.sampler import count_other_experts
from sightline.training.trainable import choose_trainable
from tests.training.conftest import changed

PAPER_SIZE = (81, 832, 480)


@pytest.fixture(scope="module")
def benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "train_step.py"
    spec = importlib.util.spec_from_file_location("train_step", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name, train, with_camera, measured",  # GiB on one H200, as docs/results.md has them
    [("5b", "paper", True, 75.04), ("5b", "paper", False, 74.99), ("14b", "lora", True, 86.0), ("14b", "lora", False, 80.9)],
)  # fmt: skip
def test_estimates_of_the_real_configurations_are_near_the_measured_peaks(
    benchmark, name, train, with_camera, measured
):
    release = benchmark.RELEASES[name]
    estimated = benchmark.estimated_gib(dict(release.transformer), with_camera, PAPER_SIZE, release.stride, train)
    assert abs(estimated / measured - 1) < 0.05


WIDTH, GRID = 128, (5, 16, 16)
TOKENS = 5 * 16 * 16


def small_model(layers, with_camera, train="paper"):
    model = WanTransformer3DModel(
        in_channels=4, out_channels=4, text_dim=32, num_attention_heads=2, attention_head_dim=64,
        ffn_dim=2 * WIDTH, num_layers=layers, freq_dim=64,
    )  # fmt: skip
    if with_camera:
        model = sl.CameraWanTransformer3DModel.from_transformer(model, sl.Scope(), copy=False)
    choose_trainable(model, ModelConfig(trainable=train))
    return model.train()


def kept_bytes(model, with_camera, objective):
    """Bytes that a forward pass keeps for the backward pass, weights aside."""
    trajectory = sl.moves.orbit(30, frames=17, width=256, height=256)
    camera = sl.CameraTokens.from_trajectory(trajectory, GRID) if with_camera else None
    batch = LatentBatch(
        torch.zeros(1, 4, 5, 32, 32), torch.zeros(1, 4, 32), camera, clip_indices=[0], empty_text=torch.zeros(4, 32)
    )
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = (storage.nbytes(), tensor)  # held, so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
        loss = flow_matching_loss(model, batch, draw(batch, objective, 0))
    assert loss.requires_grad
    return sum(size for size, _ in saved.values())


@pytest.mark.parametrize("with_camera", [False, True])
@pytest.mark.parametrize("first_frame_given", [0.0, 1.0])
def test_a_block_keeps_what_the_estimate_says(with_camera, first_frame_given):
    objective = ObjectiveConfig(image_to_video_prob=first_frame_given)
    # What a second block adds: embeddings and head are left out.
    one, two = (kept_bytes(small_model(layers, with_camera), with_camera, objective) for layers in (1, 2))
    recipe = Recipe(
        model=ModelConfig(),
        data=DataConfig(cache=("none",)),
        objective=objective,
        optimizer=OptimizerConfig(batch_size=1),
    )
    estimated = memory.estimate(small_model(1, with_camera), recipe, TOKENS, processes=1).inputs
    assert abs(estimated / (two - one) - 1) < 0.15


def test_what_a_run_needs_follows_its_settings():
    model = small_model(2, with_camera=True)
    recipe = Recipe(
        model=ModelConfig(),
        data=DataConfig(cache=("none",)),
        optimizer=OptimizerConfig(batch_size=8, micro_batch_size=1),
    )
    estimate = memory.estimate(model, recipe, TOKENS, processes=1)
    assert estimate.accumulates and not memory.estimate(model, recipe, TOKENS, processes=8).accumulates
    checkpointed = changed(recipe, "model", gradient_checkpointing=True)
    assert memory.estimate(model, checkpointed, TOKENS, 1).inputs < estimate.inputs / 10
    four = changed(recipe, "optimizer", micro_batch_size=4)
    assert memory.estimate(model, four, TOKENS, 1).inputs == 4 * estimate.inputs
    sharded = memory.estimate(model, changed(recipe, parallel="fsdp2"), TOKENS, processes=8)
    assert (
        sharded.optimizer == estimate.optimizer // 8 and sharded.total < memory.estimate(model, recipe, TOKENS, 8).total
    )
    averaged = memory.estimate(model, changed(recipe, "optimizer", ema_decay=0.99), TOKENS, 1)
    assert averaged.total - estimate.total == averaged.ema == estimate.gradients


def test_the_other_expert_of_a_pair_is_counted_while_videos_are_validated(monkeypatch):
    recipe = Recipe(
        model=ModelConfig(base="tiny:i2v-a14b", gradient_checkpointing=True),
        data=DataConfig(cache=("none",)),
        dtype="bfloat16",
    )
    one, pair = changed(recipe, "model", base="tiny:ti2v-5b"), changed(recipe, "validation", num_videos=1)
    assert (count_other_experts(one), count_other_experts(pair)) == (0, 1)
    assert count_other_experts(changed(recipe, "validation", num_videos=0)) == 0
    model = small_model(2, with_camera=True, train="encoding")
    numbers = sum(parameter.numel() for parameter in model.parameters())
    alone, both = (memory.estimate(model, recipe, 4, 1, other_experts) for other_experts in (0, 1))
    assert both.other_experts == 2 * numbers and both.total > both.weights + 2 * numbers > alone.total
    sharded = changed(recipe, parallel="fsdp2")
    alone, both_sharded = (memory.estimate(model, sharded, 4, 2, other_experts) for other_experts in (0, 1))
    assert both_sharded.weights - alone.weights == numbers and not both_sharded.other_experts
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (both.total - 1, 0))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 0)
    with pytest.raises(SightlineError, match=r"or validation\.num_videos: 0"):
        memory.require_fit(both, pair, torch.device("cuda"))


def test_a_run_that_cannot_fit_says_what_to_change(monkeypatch):
    recipe = Recipe(
        model=ModelConfig(),
        data=DataConfig(cache=("none",)),
        optimizer=OptimizerConfig(batch_size=8, micro_batch_size=2),
    )
    estimate = memory.estimate(small_model(2, with_camera=True), recipe, TOKENS, processes=1)
    assert "memory per device, estimated" in memory.require_fit(estimate, recipe, torch.device("cpu"))
    with monkeypatch.context() as scarce:
        scarce.setattr(memory, "available_memory", lambda: 1000)
        with pytest.raises(SightlineError, match="GiB of memory beside its weights and 0 are free: expected smaller"):
            memory.require_fit(estimate, recipe, torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 1000))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 0)
    with pytest.raises(
        SightlineError, match=r"try model.gradient_checkpointing: true, or optimizer.micro_batch_size: 1"
    ) as e:
        memory.require_fit(estimate, recipe, torch.device("cuda"))
    assert "\n" not in str(e.value)
