"""Tokens per second and MFU of a run, and that a compiled, fused run has the loss curve of an eager one."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from torch import nn

from sightline.backbones import fused
from sightline.backbones.flops import attention_flops, forward_flops, product_flops, training_flops
from sightline.backbones.wan_configs import TI2V_5B
from sightline.kernels import ops
from sightline.training import throughput, trainer
from sightline.training.recipe import Recipe
from sightline.training.throughput import Throughput, peak_flops
from tests.training.conftest import changed

CONFIG = TI2V_5B.transformer


def logged_steps(run):
    return [line for line in map(json.loads, (run / "log.jsonl").read_text().splitlines()) if "step" in line]


def test_a_run_logs_its_tokens_per_second(small):
    steps = logged_steps(trainer.train(changed(small, "optimizer", max_steps=2)))
    for step in steps:
        per_clip = step["tokens_per_second"] / step["clips_per_second"]
        assert per_clip == pytest.approx(2 * 4 * 4) and "mfu" not in step  # a CPU has no peak


def test_training_takes_three_times_the_operations_of_a_pass_or_less_where_weights_are_frozen():
    passes = forward_flops(CONFIG, 8190, 512)
    assert training_flops(CONFIG, 8190, 512, trained=1.0) == pytest.approx(3 * passes)
    frozen = training_flops(CONFIG, 8190, 512, trained=0.0)
    assert frozen == pytest.approx(2 * product_flops(CONFIG, 8190, 512) + 3 * attention_flops(CONFIG, 8190, 512))


def test_mfu_is_the_share_of_the_peak_of_all_gpus():
    run = Throughput(CONFIG, trained=1.0, peak=2 * 989e12)
    flops = training_flops(CONFIG, 8190, 512, 1.0)
    scalars = run.scalars(8190, 512, clips=4, seconds=3.0)
    assert scalars == {"tokens_per_second": 4 * 8190 / 3, "mfu": pytest.approx(4 * flops / 3 / (2 * 989e12))}
    assert "mfu" not in Throughput(CONFIG, 1.0, None).scalars(8190, 512, 4, 3.0)


def test_peaks_are_found_by_the_names_that_torch_gives(monkeypatch):
    assert peak_flops("NVIDIA H200") == peak_flops("NVIDIA H100 80GB HBM3") == 989e12
    assert peak_flops("NVIDIA H100 PCIe") == 756e12 and peak_flops("NVIDIA A100-SXM4-80GB") == 312e12
    assert peak_flops("Something else") is None
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    model = nn.Linear(3, 1, bias=True)
    model.bias.requires_grad_(False)
    model.config = {}
    run = Throughput.of(model, "bfloat16", torch.device("cuda"), 8)
    assert (run.trained, run.peak) == (0.75, 8 * 989e12)
    assert Throughput.of(model, "float32", torch.device("cuda"), 8).peak is None
    assert throughput.peak_flops is peak_flops


@pytest.mark.parametrize("name", ["paper-5b", "paper-14b-high", "paper-14b-low"])
def test_the_paper_s_recipes_train_fused_and_compiled(name):
    model = Recipe.from_yaml(name).model
    assert model.fused and model.compile


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles for a CPU with g++")
def test_the_loss_curve_of_a_compiled_fused_run_is_that_of_an_eager_one(small, tmp_path, monkeypatch):
    """In float32 both differ by the order of sums alone: the losses of three steps agree within 2e-5 of themselves."""
    monkeypatch.setattr(ops, "usable", lambda x: False)  # the kernels' references: the kernels have tests of their own
    monkeypatch.setattr(fused, "usable", lambda x: True)
    small = changed(changed(small, "optimizer", max_steps=3), checkpointing_steps=3)
    curves = []
    for fast in (False, True):
        recipe = changed(small, "model", fused=fast, compile=fast, trainable="paper", gradient_checkpointing=True)
        run = trainer.train(changed(recipe, output=str(tmp_path / f"fast-{fast}")))
        curves.append([step["loss"] for step in logged_steps(run)])
    torch.compiler.reset()
    assert len(curves[0]) == 3 and curves[1] == pytest.approx(curves[0], rel=2e-5)
