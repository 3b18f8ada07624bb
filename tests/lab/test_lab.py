"""Making the lab model: every stage runs, at the smallest size, and hands the next one what it needs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKLWan

import sightline as sl
from sightline.backbones.tiny import tiny_pipeline
from sightline.data.clip import Clip
from sightline.errors import SightlineError
from sightline.evaluation.lab_psnr import measure_psnr
from sightline.lab import vae_training
from sightline.lab.models import assemble
from sightline.lab.text_training import train_text


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A VAE and a text encoder after a moment of training."""
    folder = tmp_path_factory.mktemp("lab")
    vae_training.train_vae(
        folder / "vae", seconds=0.01, clips=4, batch_size=1, held_out=4, num_frames=5, size=32, device="cpu"
    )
    train_text(folder / "text", captions=40, max_steps=2, batch_size=4)
    return folder


def test_the_vae_is_written_with_its_statistics_and_measures(parts):
    vae = AutoencoderKLWan.from_pretrained(parts / "vae")
    assert len(vae.config.latents_mean) == 16 and all(0 < value < 100 for value in vae.config.latents_std)
    measured = json.loads((parts / "vae" / "measured.json").read_text())
    assert len(measured["psnr_by_frame"]) == 5 and measured["held_out_clips"] == 4 and measured["steps"] >= 1


def test_a_vae_step_lowers_its_loss():
    torch.manual_seed(0)
    vae = vae_training.whole_sequence.prepare(vae_training.lab_vae())
    optimizers, matrices = vae_training.make_optimizers(vae)
    video = torch.rand(1, 3, 5, 16, 16) * 2 - 1
    losses = []
    for _ in range(4):
        loss, _ = vae_training.reconstruction_loss(vae, video)
        loss.backward()
        vae_training.optimizer_step(optimizers, matrices, 0.5)
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_the_parts_make_a_pipeline_that_takes_a_camera(parts, tmp_path):
    folder = assemble(tmp_path / "start", parts / "vae", parts / "text")
    pipe = sl.load_pipeline(folder, camera=sl.Scope())
    trajectory = sl.moves.orbit(degrees=20, target_depth=2.0, frames=5, width=32, height=32)
    video = sl.generate(
        pipe, np.zeros((32, 32, 3), np.uint8), "a red sofa, seen by day", trajectory, num_inference_steps=1
    )
    assert video.shape == (5, 32, 32, 3)
    with pytest.raises(SightlineError, match="found no folder there"):
        assemble(tmp_path / "other", tmp_path / "nothing", parts / "text")


def test_measuring_knows_a_perfect_video_from_a_frozen_one(monkeypatch):
    """The ground-truth video scores highest; only frames whose view has moved count."""
    generator = np.random.default_rng(0)
    trajectory = sl.moves.orbit(degrees=20, target_depth=2.0, frames=33, width=8, height=8)
    clips = [
        Clip(generator.integers(0, 256, (33, 8, 8, 3), np.uint8), trajectory.scaled(scale), "a", "orbit", "a")
        for scale in (1.0, 0.5)
    ]
    for clip in clips:
        clip.frames[:17] = clip.frames[0]  # the first half does not move
    pipe = sl.attach_camera(tiny_pipeline("ti2v-5b"), sl.Scope())
    asked = []

    def perfect_if_told_the_truth(pipe, clip, trajectory, **settings):
        asked.append((trajectory, settings["camera_guidance_scale"]))
        return clip.frames if trajectory is clip.trajectory else np.repeat(clip.frames[:1], 33, axis=0)

    monkeypatch.setattr("sightline.evaluation.lab_psnr.generate_clip", perfect_if_told_the_truth)
    results = measure_psnr(pipe, clips, camera_guidance_scale=2.0)
    means = results.where_moved
    assert means["true trajectory"] == 100.0 and means["first frame frozen"] < 12
    assert means["another clip's trajectory"] == means["no trajectory"] == means["first frame frozen"]
    assert results.static == {"all": 100.0, "orbit": 100.0} and results.camera_guidance_scale == 2.0
    true, another, none, static = (trajectory for trajectory, _ in asked[:4])
    assert true is clips[0].trajectory and another is clips[1].trajectory and none is None
    assert torch.equal(static.camera_to_world[32], true.camera_to_world[0]) and len(static) == 33
    assert {scale for _, scale in asked} == {2.0}
    assert list(measure_psnr(pipe, clips, conditions=("true",)).where_moved) == [
        "first frame frozen",
        "true trajectory",
    ]
    pipe = tiny_pipeline("ti2v-5b")
    assert list(measure_psnr(pipe, clips).where_moved) == ["first frame frozen", "no trajectory"]
