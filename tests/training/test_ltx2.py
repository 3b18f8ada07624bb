"""Training on a backbone outside Wan: the debug recipe on a tiny LTX-2, and what training cannot do yet."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest
import torch

from sightline.backbones.model_io import io_of
from sightline.backbones.pipelines import load_pipeline
from sightline.backbones.tiny import tiny_pipeline, tiny_transformer
from sightline.data.encode import ClipEncoder
from sightline.errors import SightlineError
from sightline.generation.generate import generate
from sightline.training import trainer
from sightline.training.export import export
from sightline.training.recipe import Recipe
from sightline.training.trainable import choose_trainable
from tests.conftest import smooth_trajectory
from tests.training.conftest import changed

PAPER = ("camera_encoding", "attn1", "ff", "scale_shift_table")


def debug_recipe(tmp_path):
    recipe = Recipe.from_yaml(str(files("sightline") / "recipes" / "debug.yaml"))
    recipe = changed(recipe, "model", base="tiny:ltx-2", trainable="paper")
    recipe = changed(recipe, "data", sources=("worlds:orbit?clips=12",), width=64, height=64, held_out_fraction=0.2)
    recipe = changed(recipe, "optimizer", max_steps=20, warmup_steps=2)
    recipe = changed(recipe, "validation", every_steps=100, num_clips=1, num_inference_steps=2)
    return changed(recipe, output=str(tmp_path / "run"), checkpointing_steps=100)


def test_the_debug_recipe_trains_the_papers_set_alone(tmp_path):
    recipe = debug_recipe(tmp_path)
    run = trainer.train(recipe)
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "learning_rate" in line]
    assert len(losses) == 20 and np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    assert len(list((run / "samples").glob("*.mp4"))) == 1

    export(run, tmp_path / "model")
    pipe = load_pipeline("tiny:ltx-2", tmp_path / "model", device="cpu")
    base, trained = tiny_transformer("ltx-2").state_dict(), pipe.transformer.state_dict()
    moved = {name for name in trained if name not in base or not torch.equal(trained[name], base[name])}
    assert moved and all(any(part in name.split(".") for part in PAPER) for name in moved)
    assert {part for part in PAPER for name in moved if part in name.split(".")} == set(PAPER)
    assert not any("audio" in name for name in moved)
    pipe.set_progress_bar_config(disable=True)
    film = generate(pipe, None, "a room", smooth_trajectory(9, 64, 64), num_inference_steps=2, max_sequence_length=16)
    assert film.shape == (9, 64, 64, 3)


def test_lora_is_on_the_video_alone():
    model = tiny_transformer("ltx-2")
    config = changed(debug_recipe_config(), trainable="lora", encoding=None)
    trainable = choose_trainable(model, config)
    assert len(trainable) == 2 * 2 * 6  # two halves, two blocks, q k v out and two of the feed-forward
    assert not any("audio" in name for name in trainable)


def debug_recipe_config():
    return Recipe.from_yaml(str(files("sightline") / "recipes" / "debug.yaml")).model


@torch.no_grad()
def test_text_and_velocity_are_what_the_pipeline_and_the_model_make():
    pipe, seen = tiny_pipeline("ltx-2"), {}
    pipe.set_progress_bar_config(disable=True)
    pipe.transformer.register_forward_pre_hook(lambda _, args, inputs: seen.update(inputs), with_kwargs=True)
    generate(pipe, None, "a room", smooth_trajectory(9, 64, 64), blind=True, num_inference_steps=2,
             guidance_scale=1.0, audio_guidance_scale=1.0, modality_scale=1.0, stg_scale=0.0, audio_stg_scale=0.0,
             audio_modality_scale=1.0, max_sequence_length=16)  # fmt: skip
    text = ClipEncoder(pipe).texts(["a room"], 16)
    given = torch.cat([seen["encoder_hidden_states"], seen["audio_encoder_hidden_states"]], dim=-1)
    assert torch.equal(text, given)
    assert text.shape[-1] == io_of(pipe.transformer).text_channels(pipe.transformer.config)

    inputs = {
        name: value for name, value in seen.items() if name not in ("video_coords", "fps")
    }  # 24 frames per second
    latents = torch.randn(1, 16, 2, 2, 2, generator=torch.Generator().manual_seed(0))
    predicted = io_of(pipe.transformer).velocity(pipe.transformer, latents, torch.tensor([500.0]), text, None)
    packed = latents.flatten(2).transpose(1, 2)  # one token per latent pixel
    inputs |= {"hidden_states": packed, "timestep": torch.tensor([500.0]), "isolate_modalities": True}
    expected = pipe.transformer(**inputs)[0].transpose(1, 2).reshape(latents.shape)
    torch.testing.assert_close(predicted, expected)


@torch.no_grad()
def test_a_pipeline_for_validation_takes_text_that_is_embedded_already():
    pipe = tiny_pipeline("ltx-2")
    pipe.set_progress_bar_config(disable=True)
    io, encoder = io_of(pipe.transformer), ClipEncoder(pipe)
    text, empty = encoder.texts(["a room"], 16), encoder.texts([""], 16)
    options = {"image": None, "height": 64, "width": 64, "num_frames": 9, "num_inference_steps": 2, "output_type": "np"}
    options["latents"] = torch.zeros(1, 16, 2, 2, 2)
    expected = pipe(prompt="a room", max_sequence_length=16, generator=torch.Generator().manual_seed(0), **options)
    pipe.register_modules(text_encoder=None, tokenizer=None)
    io.take_encoded_text(pipe)
    found = pipe(**io.prompt(text, empty), generator=torch.Generator().manual_seed(0), **options)
    assert np.array_equal(found.frames, expected.frames)


@pytest.mark.parametrize(
    "base, what",
    [("vace", "its control video"), ("skyreels-v2-df", "a timestep of its own"), ("wan2.1-i2v", "its image encoder")],
)
def test_models_that_need_more_than_latents_and_text_are_refused(base, what, tmp_path):
    recipe = changed(debug_recipe(tmp_path), "model", base=f"tiny:{base}")
    with pytest.raises(SightlineError, match=what):
        trainer.train(recipe)


def test_clips_of_another_length_are_refused(tmp_path):
    recipe = changed(debug_recipe(tmp_path), "data", num_frames=13)
    with pytest.raises(SightlineError, match="num_frames is 13: expected 8 n \\+ 1"):
        trainer.train(recipe)
