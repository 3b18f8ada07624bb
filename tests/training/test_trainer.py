"""Runs: killed and resumed, on one and two processes, exported, and stopped by errors."""

from __future__ import annotations

import itertools
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.distributed.checkpoint import HuggingFaceStorageWriter

from sightline.backbones.camera_weights import load_camera
from sightline.backbones.tiny import tiny_pipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.errors import SightlineError
from sightline.training import trainer
from sightline.training.checkpoint import list_checkpoints, load_checkpoint
from sightline.training.export import export
from sightline.training.recipe import Recipe
from tests.conftest import count_calls, kill_after_calls
from tests.processes import start_two
from tests.training.conftest import changed, read_shards

PARTS = ("weights", "optimizer", "ema")


def last_checkpoint(run):
    return list_checkpoints(Path(run) / "checkpoints")[-1]


def tensors_of(run):
    folder = last_checkpoint(run)
    return {f"{part}/{name}": t for part in PARTS for name, t in read_shards(folder / part).items()}


def losses_of(run):
    lines = [json.loads(line) for line in (Path(run) / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "step" in line}


# -- one process ----------------------------------------------------------------------------------------------------


def test_ten_kills_change_nothing(small, tmp_path):
    small = changed(small, "data", sources=("worlds:orbit?clips=5",), held_out_fraction=0.4, num_workers=0)
    small = changed(changed(small, "optimizer", batch_size=2), "validation", num_clips=1)
    calls = count_calls(lambda: trainer.train(small))
    expected = tensors_of(small.output)
    killed = changed(small, output=str(tmp_path / "killed"))
    chance, kills = random.Random(0), 0
    for moment in [chance.randrange(calls // 4) for _ in range(10)]:
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            kill_after_calls(moment)
            try:
                trainer.train(killed, resume="latest")
            finally:
                os._exit(0)
        kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        for path in list_checkpoints(tmp_path / "killed" / "checkpoints"):
            for part in PARTS:
                assert read_shards(path / part)  # every checkpoint that exists can be read
    assert kills >= 5
    trainer.train(killed, resume="latest")
    resumed = tensors_of(tmp_path / "killed")
    assert resumed.keys() == expected.keys()
    assert all(torch.equal(resumed[name], expected[name]) for name in expected)
    assert not list((tmp_path / "killed" / "checkpoints").glob(".writing*"))


def test_a_run_keeps_its_recipe_log_and_newest_checkpoints(small):
    run = trainer.train(small)
    assert [path.name for path in list_checkpoints(run / "checkpoints")] == ["step-00000003", "step-00000004"]
    assert Recipe.from_yaml(run / "recipe.yaml") == small
    assert sorted(losses_of(run)) == list(range(4))
    with pytest.raises(SightlineError, match="holds checkpoints of an earlier run"):
        trainer.train(small)


def test_accumulation_changes_nothing_but_rounding(small, tmp_path):
    trainer.train(small)
    whole = changed(changed(small, "optimizer", micro_batch_size=4), output=str(tmp_path / "whole"))
    trainer.train(whole)
    first, second = losses_of(small.output), losses_of(whole.output)
    assert all(abs(first[step] - second[step]) < 1e-4 for step in first)


def test_validation_scores_cameras_and_generates_a_video(small):
    run = trainer.train(
        changed(
            changed(small, "optimizer", max_steps=1),
            "validation",
            num_videos=1,
            num_inference_steps=1,
            guidance_scale=1.0,
        )
    )
    scored = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines() if "validation" in line]
    assert {"loss", "loss_without_camera", "alpha_q/0", "gate_at_1/3"} <= set(scored[-1])
    assert [path.name for path in (run / "samples").iterdir()] == ["step-00000001-0.mp4"]


def test_an_export_that_cannot_be_is_one_sentence_and_leaves_nothing(small, tmp_path):
    with pytest.raises(SightlineError, match="is no run: expected the folder"):
        export(tmp_path / "nothing", tmp_path / "model")
    run = trainer.train(changed(small, "optimizer", max_steps=1))
    (tmp_path / "taken").write_text("")
    with pytest.raises(SightlineError, match="exists already"):
        export(run, tmp_path / "taken")
    with pytest.raises(SightlineError, match="cannot be written"):
        export(run, tmp_path / "taken" / "model")
    with pytest.raises(SightlineError, match="is no checkpoint"):
        export(run, tmp_path / "model", which=str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "taken"]


@pytest.mark.parametrize("train", ["paper", "encoding", "self_attention", "lora"])
def test_only_the_named_set_is_trained_and_it_exports(small, tmp_path, train):
    recipe = changed(changed(small, "model", trainable=train), "optimizer", max_steps=3)
    trainer.train(recipe)
    names = set(read_shards(last_checkpoint(recipe.output) / "weights"))
    assert any(".camera_encoding." in name for name in names)
    parts = {"paper": ("attn1", "ffn", "scale_shift"), "encoding": (".camera_encoding.",), "self_attention": ("attn1",)}
    allowed = parts.get(train, (".camera_encoding.", "lora_"))
    assert all(any(part in name for part in allowed) for name in names)
    folder = export(Path(recipe.output), tmp_path / "model")
    model = CameraWanTransformer3DModel.from_pretrained(folder)
    average = read_shards(last_checkpoint(recipe.output) / "ema")
    name = "blocks.0.attn1.camera_encoding.alpha_q"
    assert torch.equal(model.state_dict()[name], average[name]) and average[name].abs() > 0
    if train in ("encoding", "lora"):  # camera weights, with LoRA, for the same base
        file = export(Path(recipe.output), tmp_path / "camera.safetensors")
        base = tiny_pipeline("pixels").transformer
        loaded, whole = load_camera(base, file).state_dict(), model.state_dict()
        assert all(torch.allclose(loaded[name], whole[name], atol=2e-4) for name in whole)
    else:
        with pytest.raises(SightlineError, match="would hold the camera alone"):
            export(Path(recipe.output), tmp_path / "camera.safetensors")


@pytest.mark.parametrize("train", ["encoding", "lora"])
def test_a_run_continues_from_camera_weights_with_lora(small, tmp_path, train):
    recipe = changed(changed(small, "model", trainable="lora", lora_rank=2), "optimizer", max_steps=3)
    first = export(trainer.train(recipe), tmp_path / "first.safetensors")
    again = replace(changed(recipe, "model", trainable=train, camera=str(first)), output=str(tmp_path / "again"))
    again = changed(again, "optimizer", max_steps=1, learning_rate=1e-12)  # a step that changes next to nothing
    second = load_file(export(trainer.train(again), tmp_path / "second.safetensors"))
    first_weights = load_file(first)
    assert any("lora_B" in name and tensor.abs().max() > 0 for name, tensor in first_weights.items())
    assert set(second) == set(first_weights) and all(
        torch.allclose(second[name], first_weights[name], atol=1e-6) for name in first_weights
    )
    if train == "lora":
        with pytest.raises(SightlineError, match="lora_rank is 4"):
            trainer.train(replace(changed(again, "model", lora_rank=4), output=str(tmp_path / "other")))


def test_camera_free_training_uses_the_same_trainer(small):
    recipe = changed(small, "model", encoding=None)
    assert all(
        ".camera_encoding." not in name for name in read_shards(last_checkpoint(trainer.train(recipe)) / "weights")
    )


# -- trouble --------------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_stops_and_leaves_the_last_checkpoint(small, monkeypatch):
    real = trainer.flow_matching_loss
    calls = []

    def spoilt(*arguments):
        calls.append(1)
        return real(*arguments) * (torch.nan if len(calls) > 8 else 1.0)

    monkeypatch.setattr(trainer, "flow_matching_loss", spoilt)
    with pytest.raises(SightlineError, match="the loss is nan at step 2"):
        trainer.train(small)
    assert last_checkpoint(small.output).name == "step-00000002"
    assert all(tensor.isfinite().all() for tensor in tensors_of(small.output).values())


def test_a_disk_that_cannot_be_written_is_one_sentence(small, monkeypatch):
    real, calls = HuggingFaceStorageWriter.write_data, []

    def full(*arguments):
        calls.append(1)
        if len(calls) > 4:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(HuggingFaceStorageWriter, "write_data", full)
    with pytest.raises(SightlineError, match="cannot be written \\(No space left on device\\)"):
        trainer.train(small)
    assert last_checkpoint(small.output).name == "step-00000001"
    assert not list((Path(small.output) / "checkpoints").glob(".writing*"))


def test_another_base_model_is_refused(small, monkeypatch):
    trainer.train(changed(small, "optimizer", max_steps=2))
    from sightline.backbones import tiny

    monkeypatch.setattr(tiny, "tiny_pipeline", lambda name, make=tiny.tiny_pipeline: make(name, seed=5))
    with pytest.raises(SightlineError, match="trained from another base model"):
        trainer.train(small, resume="latest")


def test_another_trained_set_is_refused(small):
    trainer.train(changed(small, "optimizer", max_steps=2))
    with pytest.raises(SightlineError, match="trained other parameters"):
        trainer.train(changed(small, "model", trainable="encoding"), resume="latest")


def test_a_damaged_checkpoint_is_one_sentence(small):
    run = trainer.train(changed(small, "optimizer", max_steps=2))
    (file,) = (last_checkpoint(run) / "weights").iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(SightlineError, match=rf"weights/{file.name} cannot be read"):
        trainer.train(small, resume="latest")


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_shard_is_one_sentence(small, part):
    run = trainer.train(changed(small, "optimizer", max_steps=2))
    (file,) = (last_checkpoint(run) / part).iterdir()
    file.unlink()
    with pytest.raises(SightlineError, match=rf"{part}/{file.name} is missing: expected a complete checkpoint"):
        trainer.train(small, resume="latest")


@pytest.mark.parametrize(
    "section, settings, sentence",
    [
        ("model", {"base": "/nowhere"}, "model '/nowhere' cannot be loaded"),
        ("model", {"base": "tiny:what"}, "kind is 'what'"),
        ("model", {"component": "transformer_2"}, "has no such part"),
        ("data", {"cache": ("/nowhere",), "sources": ()}, "found no index.json"),
        ("data", {"sources": ("re10k:/nowhere",)}, "found no folder"),
        ("data", {"held_out_fraction": 0.0}, "no held-out clips"),
        ("data", {"width": 30}, "width is 30"),
        ("optimizer", {"micro_batch_size": 3}, "expected a multiple of micro_batch_size x processes"),
    ],
)
def test_a_recipe_that_cannot_run_says_why(small, section, settings, sentence):
    with pytest.raises(SightlineError, match=sentence) as caught:
        trainer.train(changed(small, section, **settings))
    assert "\n" not in str(caught.value)


# -- two processes --------------------------------------------------------------------------------------------------


def train_each(rank, port, runs):
    """Each (recipe, resume) in turn."""
    torch.set_num_threads(1)
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    for recipe, resume in runs:
        trainer.train(recipe, resume)
    dist.destroy_process_group()


def test_one_process_ddp_and_fsdp2_train_alike_and_continue_each_other(small, tmp_path):
    small = changed(small, "optimizer", max_steps=3)
    runs = {"one": small}
    for parallel in ("ddp", "fsdp2"):
        runs[parallel] = changed(small, output=str(tmp_path / parallel), parallel=parallel)
    # From each one's checkpoint of step 2, each other way does step 3.
    moved = {"one": [], "ddp": [], "fsdp2": []}
    for source, target in itertools.permutations(runs, 2):
        step_2 = Path(runs[source].output) / "checkpoints" / "step-00000002"
        moved[target].append((changed(runs[target], output=str(tmp_path / f"{source}-{target}")), str(step_2)))
    trainer.train(runs["one"])
    start_two(train_each, [(runs["ddp"], None), (runs["fsdp2"], None), *moved["ddp"], *moved["fsdp2"]])
    for recipe, step_2 in moved["one"]:
        trainer.train(recipe, step_2)

    expected, losses = tensors_of(runs["one"].output), losses_of(runs["one"].output)
    for parallel in ("ddp", "fsdp2"):
        parallel_losses = losses_of(runs[parallel].output)
        assert all(abs(parallel_losses[step] - losses[step]) < 1e-5 for step in losses), parallel
        tensors = tensors_of(runs[parallel].output)
        assert tensors.keys() == expected.keys()
        for part in PARTS:  # each process wrote a shard of its own; read_shards has seen each number once
            assert len(list((last_checkpoint(runs[parallel].output) / part).iterdir())) == 2
        for name, tensor in tensors.items():
            torch.testing.assert_close(tensor, expected[name], atol=2e-3, rtol=1e-2, msg=f"{parallel} {name}")
    for recipe, _ in itertools.chain(*moved.values()):
        last = losses_of(recipe.output)
        assert list(last) == [2] and abs(last[2] - losses[2]) < 1e-4, recipe.output


def test_a_checkpoint_fills_what_it_was_made_from(small):
    run = trainer.train(changed(small, "optimizer", max_steps=2))
    from sightline.training.model import build_model, load_base
    from sightline.training.trainable import choose_trainable

    model = build_model(load_base(small.model).transformer, small.model)
    trainable = choose_trainable(model, small.model)
    path = last_checkpoint(run)
    base = json.loads((path / "state.json").read_text())["base"]
    assert load_checkpoint(path, base, trainable, None, None).step == 2
    weights = read_shards(path / "weights")
    assert all(torch.equal(parameter, weights[name]) for name, parameter in trainable.items())
