"""Runs that are killed at any point: the same final files, nothing left over, and one command on a folder at a time."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from pathlib import Path

import pytest

from sightline import cli
from sightline.digests import file_digest, json_digest
from sightline.errors import SightlineError
from sightline.run_folder import LOCK
from sightline.training import checkpoint, trainer, validation
from tests.processes import kill_at
from tests.training.conftest import changed, read_shards


def contents_of(run: Path) -> dict[str, str]:
    """Digests of everything that a run leaves, but for times in its log and states. Headers of tensors have no fixed order."""
    digests = {}
    for path in sorted(
        path for path in run.rglob("*") if path.is_file() and path.name not in ("log.jsonl", "recipe.yaml")
    ):
        if path.suffix == ".safetensors":
            tensors = read_shards(path.parent)
            values = b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors))
            digests[str(path.relative_to(run))] = hashlib.sha256(values).hexdigest()
        elif path.name == "state.json":
            digests[str(path.relative_to(run))] = json_digest({**json.loads(path.read_text()), "seconds": None})
        else:
            digests[str(path.relative_to(run))] = file_digest(path)
    return digests


def killed(recipe, module, name, call):
    kill_at(module, name, call, lambda: trainer.train(recipe, resume="latest"))


def test_a_run_that_was_killed_again_and_again_leaves_the_same_files(small, tmp_path):
    recipe = changed(small, "optimizer", max_steps=2, batch_size=1, warmup_steps=1)
    quick = {"num_clips": 1, "num_videos": 1, "num_inference_steps": 1, "guidance_scale": 1.0}
    recipe = changed(recipe, "validation", every_steps=1, **quick)
    recipe = changed(recipe, "data", num_workers=0, sources=("worlds:orbit?clips=5",), held_out_fraction=0.4)
    expected = contents_of(trainer.train(changed(recipe, output=str(tmp_path / "undisturbed"))))
    run = Path(recipe.output)
    killed(recipe, checkpoint, "save_shards", 1)  # in the middle of a checkpoint
    assert list((run / "checkpoints").glob(".writing-*")) and (run / LOCK).is_file()
    killed(recipe, trainer, "validate", 0)  # after a checkpoint, before its validation
    killed(
        recipe, validation, "save_video", 1
    )  # after the last checkpoint: the first one is the sample that was still owed
    assert checkpoint.read_state(checkpoint.list_checkpoints(run / "checkpoints")[-1]).step == 2
    trainer.train(recipe, resume="latest")
    assert contents_of(run) == expected and {f"samples/step-0000000{step}-0.mp4" for step in (1, 2)} <= set(expected)
    log = (run / "log.jsonl").read_text()
    trainer.train(recipe, resume="latest")  # finished: nothing to do
    assert (run / "log.jsonl").read_text() == log


def test_a_second_training_in_the_same_folder_is_refused_at_once(small, monkeypatch):
    def second(*_, **__):
        with pytest.raises(SightlineError, match=r"run is being written by another command \(process"):
            trainer.train(small)
        raise SightlineError("the first one ends here.")

    monkeypatch.setattr(trainer, "make_feed", second)
    with pytest.raises(SightlineError, match="the first one ends here"):
        trainer.train(small)
    assert not Path(small.output).exists()


def test_sigterm_ends_a_training_as_an_interrupt_does(small, tmp_path, monkeypatch):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(small.to_yaml())
    monkeypatch.setattr(
        trainer.Trainer, "train_step", lambda *_: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(60))
    )
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["train", str(recipe)]) == cli.INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) == before and not (Path(small.output) / LOCK).exists()
