"""Mistakes that new users made: each gives an error of one sentence, and no data is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.data.cache import CacheWriter
from sightline.data.cached import CachedClips
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder
from sightline.data.sources import open_sources
from sightline.errors import SightlineError
from sightline.training import trainer
from sightline.training.checkpoint import list_checkpoints
from sightline.training.export import export
from tests.training.conftest import changed, read_shards


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cache_as_it_is_written_by_default_trains_and_validates(small, tmp_path, dtype):
    spec = ClipSpec(num_frames=5, width=16, height=16)
    clips = Clips(open_sources(["worlds:orbit?clips=8"]), spec, part="all")
    writer = CacheWriter(tmp_path / "cache", clips, ClipEncoder(tiny_pipeline("pixels")), "tiny:pixels")
    writer.prepare()
    writer.write()
    assert CachedClips(tmp_path / "cache")[0].latents.dtype == torch.bfloat16
    recipe = changed(
        changed(small, "data", cache=(str(tmp_path / "cache"),), sources=(), held_out_fraction=0.4), dtype=dtype
    )
    trainer.train(changed(recipe, "optimizer", max_steps=2))


def test_an_older_checkpoint_is_not_resumed_over_newer_ones(small):
    run = trainer.train(small)
    older, newest = list_checkpoints(run / "checkpoints")
    with pytest.raises(SightlineError, match="older than step-00000004"):
        trainer.train(changed(small, "optimizer", max_steps=9), resume=str(older))
    with pytest.raises(SightlineError, match="has done 4 steps"):
        trainer.train(changed(small, "optimizer", max_steps=3), resume="latest")
    assert trainer.train(small, resume="latest") == run  # finished: nothing to do
    assert list_checkpoints(run / "checkpoints") == [older, newest]


def test_a_gradient_that_is_not_finite_spoils_no_checkpoint(small, monkeypatch):
    real = trainer.flow_matching_loss
    calls = iter(range(1000))

    def poisoned(*rest):
        losses = real(*rest)
        if next(calls) >= 2 * small.optimizer.batch_size:  # of micro-batches of one: step 2
            losses.register_hook(lambda gradient: gradient * float("inf"))
        return losses

    monkeypatch.setattr(trainer, "flow_matching_loss", poisoned)
    with pytest.raises(SightlineError, match=r"the gradient is (nan|inf) at step 2.*last checkpoint is step-00000002"):
        trainer.train(small)
    for path in list_checkpoints(Path(small.output) / "checkpoints"):
        weights = read_shards(path / "weights")
        assert all(tensor.isfinite().all() for tensor in weights.values())


def test_weights_that_the_last_step_made_infinite_are_not_saved(small, monkeypatch):
    """No later step has a loss that would tell."""
    real = torch.optim.AdamW.step

    def step(self, *rest):
        real(self, *rest)
        if next(calls) == small.optimizer.max_steps - 1:
            self.param_groups[0]["params"][0].data.view(-1)[0] = float("inf")

    calls = iter(range(1000))
    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with pytest.raises(SightlineError, match=r"weights are not finite after step 3.*last checkpoint is step-00000003"):
        trainer.train(small)


def test_an_encoding_that_the_camera_does_not_carry_is_refused(small, tmp_path):
    encoding_only = changed(changed(small, "model", trainable="encoding"), "optimizer", max_steps=1)
    file = export(trainer.train(encoding_only), tmp_path / "camera.safetensors")
    assert file.stat().st_mode & 0o044  # others may read it
    other = changed(small, "model", camera=str(file), encoding={"name": "recammaster"})
    with pytest.raises(SightlineError, match=r"model.encoding is ReCamMaster.*model.camera carries Scope"):
        trainer.train(changed(other, output=str(tmp_path / "other")))


def test_a_resumed_run_says_what_was_changed(small, capsys):
    trainer.train(changed(small, "optimizer", max_steps=2))
    trainer.train(changed(changed(small, "optimizer", max_steps=3), seed=7), resume="latest")
    said = capsys.readouterr().err
    assert "changed since then: optimizer.max_steps: 2 -> 3" in said and "changed since then: seed: 0 -> 7" in said


@pytest.mark.parametrize(
    "section, settings, sentence",
    [(None, {"output": " "}, "output is empty"), ("data", {"num_frames": 1}, "something must be left to predict")],
)
def test_runs_that_could_only_go_wrong_are_refused(small, section, settings, sentence):
    with pytest.raises(SightlineError, match=sentence):
        changed(small, section, **settings)
