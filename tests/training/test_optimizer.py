"""The optimizers, the learning rate over a run, and runs that are limited by time."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cli import main
from sightline.encodings import Scope
from sightline.errors import SightlineError
from sightline.lab.models import lab_transformer
from sightline.training import trainer
from sightline.training.checkpoint import list_checkpoints, read_state
from sightline.training.muon import MuonAdamW, orthogonalize
from sightline.training.optimizer import Clock, make_optimizer, set_learning_rate
from sightline.training.recipe import OptimizerConfig
from sightline.training.resume import is_finished
from tests.training.conftest import changed, read_shards

SHAPES = [(8, 12), (8, 12), (16, 8), (5,)]


def after_steps(optimizers, parameters):
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        for optimizer in optimizers:
            optimizer.step()
    return [parameter.detach() for parameter in parameters]


def test_muon_computes_what_torch_computes():
    torch.manual_seed(0)
    start = [torch.randn(shape) for shape in SHAPES]
    mine, theirs = ([nn.Parameter(tensor.clone()) for tensor in start] for _ in range(2))
    settings = {"lr": 0.01, "weight_decay": 0.1}
    groups = [{"params": mine[:3], "muon": True}, {"params": mine[3:], "muon": False}]
    ours = after_steps([MuonAdamW(groups, **settings)], mine)
    muon = torch.optim.Muon(theirs[:3], momentum=0.95, adjust_lr_fn="match_rms_adamw", **settings)
    reference = after_steps([muon, torch.optim.AdamW(theirs[3:], **settings)], theirs)
    for found, expected, before in zip(ours, reference, start, strict=True):
        assert (found - expected).norm() < 0.04 * (expected - before).norm()  # bfloat16 inside


def test_orthogonalized_matrices_have_singular_values_near_one():
    torch.manual_seed(0)
    for shape in ((3, 24, 40), (2, 40, 24)):
        values = torch.linalg.svdvals(orthogonalize(torch.randn(shape)))
        assert values.min() > 0.5 and values.max() < 1.3
    assert not orthogonalize(torch.zeros(1, 4, 4)).any()


def test_muon_gets_the_matrices_of_the_blocks_alone():
    model = CameraWanTransformer3DModel.from_transformer(lab_transformer(1, 2, 64), Scope(gate_hidden=4))
    named = dict(model.named_parameters())
    config = OptimizerConfig(name="muon", encoding_lr_scale=7.0)
    matrices, others, encoding = make_optimizer(named, config).param_groups
    assert matrices["muon"] and not others["muon"] and not encoding["muon"] and encoding["lr_scale"] == 7.0
    names = {id(parameter): name for name, parameter in named.items()}
    chosen = {names[id(parameter)] for parameter in matrices["params"]}
    assert len(chosen) == 10 and all(".attn" in name or ".ffn." in name for name in chosen)
    assert not any("camera_encoding" in name for name in chosen)
    assert sum(len(group["params"]) for group in (matrices, others, encoding)) == len(named)


def test_a_run_with_muon_lowers_the_loss_and_resumes_exactly(small, tmp_path):
    recipe = changed(small, "optimizer", name="muon", max_steps=4, micro_batch_size=4)
    recipe = changed(recipe, checkpointing_steps=1000)
    whole = trainer.train(recipe)
    parts = changed(recipe, output=str(tmp_path / "parts"))
    for stop in (1e-9, 1e-9, None):  # one step, one step, and the rest
        run = trainer.train(parts, "latest", stop)
    assert len((run / "log.jsonl").read_text().split('"event": "start"')) == 4
    first, second = (list_checkpoints(folder / "checkpoints")[-1] for folder in (whole, run))
    assert read_state(second).step == 4
    moments = read_shards(second / "optimizer")
    assert any(name.endswith("momentum_buffer") for name in moments)
    for part in ("weights", "optimizer", "ema"):
        ours, theirs = read_shards(first / part), read_shards(second / part)
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("decay, middle", [("cosine", 0.5), ("linear", 0.5)])
def test_the_learning_rate_decays_over_the_last_part(decay, middle):
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(1))])
    optimizer.param_groups[0]["lr_scale"] = 1.0
    config = OptimizerConfig(
        max_steps=110, warmup_steps=10, learning_rate=1.0, decay=decay, decay_fraction=0.4, min_lr_ratio=0.0
    )
    rates = [set_learning_rate(optimizer, config, step) for step in range(111)]
    assert rates[0] == pytest.approx(0.1) and rates[9:71] == [1.0] * 62  # warm-up, then constant
    assert rates[90] == pytest.approx(middle) and rates[110] == pytest.approx(0.0, abs=1e-9)
    assert rates[70:] == sorted(rates[70:], reverse=True)
    # On the clock, by the fraction of the time that is over, whatever the step.
    assert set_learning_rate(optimizer, config, 20, time_fraction=0.8) == pytest.approx(middle)
    assert set_learning_rate(optimizer, config, 20, time_fraction=1.3) == pytest.approx(0.0, abs=1e-9)


def test_a_constant_learning_rate_is_left_to_be_continued():
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(1))])
    optimizer.param_groups[0]["lr_scale"] = 1.0
    config = OptimizerConfig(max_steps=10, learning_rate=1.0, decay_fraction=0.0)
    assert {set_learning_rate(optimizer, config, step, 0.9) for step in range(10)} == {1.0}


def test_the_clock_leaves_out_the_first_step_and_counts_earlier_runs(monkeypatch):
    times = iter([100.0, 160.0, 161.0, 163.0])  # the first step compiles for a minute
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    clock = Clock(SimpleNamespace(num_processes=1), seconds=40.0)
    assert [clock.start_step() for _ in range(4)] == [40.0, 40.0, 41.0, 43.0]


def test_a_run_of_limited_time_ends_with_its_decay_over_several_commands(small, monkeypatch):
    """On a clock of our own, which goes on by a second whenever it is read."""
    seconds = iter(range(10_000))
    monkeypatch.setattr("sightline.training.optimizer.time.perf_counter", lambda: float(next(seconds)))
    recipe = changed(small, "optimizer", max_steps=1000, max_seconds=30.0, warmup_steps=0, min_lr_ratio=0.01)
    recipe = changed(changed(recipe, "optimizer", micro_batch_size=4), checkpointing_steps=1000)
    for _ in range(10):
        run = trainer.train(recipe, "latest", 15.0)
        if is_finished(read_state(list_checkpoints(run / "checkpoints")[-1]), recipe):
            break
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    rates = [line["learning_rate"] for line in lines if "step" in line]
    assert sum("event" in line for line in lines) > 1  # several commands
    assert rates == sorted(rates, reverse=True) and rates[-1] == pytest.approx(0.01 * rates[0])
    assert sum("validation" in line for line in lines) == 1  # at the end alone
    assert trainer.train(recipe, "latest") == run  # has nothing to do


def test_what_cannot_be_is_refused(small, capsys):
    with pytest.raises(SightlineError, match="'muon' with parallel 'fsdp2'"):
        changed(changed(small, "optimizer", name="muon"), parallel="fsdp2")
    with pytest.raises(SightlineError, match=r"decay_fraction is 1\.5: expected a fraction"):
        changed(small, "optimizer", decay_fraction=1.5)
    assert main(["train", "debug", "--stop-after", "soon"]) != 0
    assert "--stop-after is 'soon': expected a finite number above 0" in capsys.readouterr().err
