"""The weights that ship: they are there, small enough, and their camera is followed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import sightline as sl
from sightline.backbones import shipped
from sightline.cameras.tokens import CameraTokens
from sightline.cli import main
from sightline.data.encode import ClipEncoder, frames_to_video
from sightline.data.latents import LatentBatch
from sightline.errors import SightlineError
from sightline.lab.models import HELD_OUT_SEED, NUM_FRAMES, SIZE, TEXT_TOKENS
from sightline.training.objective import draw, flow_matching_loss
from sightline.training.recipe import ObjectiveConfig
from sightline.worlds import sample_batch

MOST_BYTES = 50_000_000


def test_they_fit_their_promise():
    folder = shipped.base().parent
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < MOST_BYTES
    assert shipped.camera().parent == folder


def test_missing_or_doubtful_camera_weights_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "_WEIGHTS", tmp_path)
    with pytest.raises(SightlineError, match="is missing: expected the weights that ship"):
        shipped.camera()
    (tmp_path / "scope.safetensors").touch()
    assert shipped.camera().name == "scope.safetensors"
    (tmp_path / "sweep.safetensors").touch()
    with pytest.raises(SightlineError, match=r"holds scope\.safetensors, sweep\.safetensors: expected one file"):
        shipped.camera()


def test_the_base_is_a_stock_pipeline_and_the_camera_leaves_it_so():
    pipe = sl.load_pipeline("lab")
    assert type(pipe.transformer).__name__ == "WanTransformer3DModel"
    before = {name: tensor.clone() for name, tensor in pipe.transformer.state_dict().items()}
    model = sl.load_camera(pipe.transformer, shipped.camera())
    assert model.encoding.name == "sweep"
    assert all(torch.equal(tensor, before[name]) for name, tensor in pipe.transformer.state_dict().items())


@torch.no_grad()
def test_the_true_path_in_metres_explains_held_out_clips_best():
    """At high noise the model depends on the first frame and the trajectory, and it reads the trajectory's scale."""
    pipe, clips = (
        sl.load_pipeline(),
        sample_batch("walkthrough", [HELD_OUT_SEED, HELD_OUT_SEED + 1], NUM_FRAMES, SIZE, SIZE),
    )
    encoder, losses = ClipEncoder(pipe), dict.fromkeys(("true", "none", "another", "half", "double"), 0.0)
    empty = encoder.texts([""], TEXT_TOKENS)[0]
    true = [clips.true_trajectory(number).anchored() for number in range(2)]
    tokens = [sl.camera_tokens(pipe, trajectory) for trajectory in true]
    videos, texts = frames_to_video(clips.render_frames()), encoder.texts(clips.captions, TEXT_TOKENS)
    for number in range(2):
        latents, text = encoder.latents(videos[number : number + 1]), texts[number : number + 1]
        cameras = {"true": tokens[number], "another": tokens[1 - number], "none": CameraTokens.absent(tokens[0].grid)}
        cameras |= {"half": sl.camera_tokens(pipe, true[number].scaled(0.5))}
        cameras |= {"double": sl.camera_tokens(pipe, true[number].scaled(2.0))}
        for name, camera in cameras.items():
            batch = LatentBatch(latents, text, camera, clip_indices=[number], empty_text=empty)
            drawn = draw(batch, ObjectiveConfig(image_to_video_prob=1.0, text_dropout=0.0, log_scale_prob=0.0), seed=0)
            drawn = replace(drawn, sigma=torch.tensor([0.9]))
            losses[name] += float(flow_matching_loss(pipe.transformer, batch, drawn))
    assert losses["true"] < 0.75 * losses["none"] and losses["none"] < 0.6 * losses["another"], losses
    assert 1.8 * losses["true"] < min(losses["half"], losses["double"]), losses


def test_generate_without_a_model_uses_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["generate", "--num-frames", "5", "--num-inference-steps", "2", "--size", "64x64"]) == 0
    assert {file.name for file in Path("outputs/generate").iterdir()} >= {"video.mp4", "sheet.png", "settings.json"}
