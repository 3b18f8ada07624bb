"""Savings of a film: texts are encoded once, and both guidance passes may be one batch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import sightline as sl
from sightline import cli
from sightline.backbones import speed
from sightline.backbones.speed import FilmSpeed
from sightline.backbones.tiny import tiny_by_name
from sightline.errors import SightlineError
from sightline.generation import generate as generation
from sightline.generation.joined_guidance import joined_guidance
from sightline.generation.prompts import encoded_prompts
from sightline.images import psnr


def tiny(level: str = "exact"):
    pipe = sl.attach_camera(tiny_by_name("tiny:ti2v-5b"), sl.Scope())
    pipe.set_progress_bar_config(disable=True)
    return sl.set_speed(pipe, level)


def film(pipe, **options) -> np.ndarray:
    trajectory = sl.moves.pan(20, frames=9, width=64, height=64)
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return sl.generate(pipe, image, "a room", trajectory, num_inference_steps=2, guidance_scale=3.0, **options)


@pytest.fixture(autouse=True)
def plain_cpu(monkeypatch):
    """Without bfloat16, what remains of `fast` on a CPU is exact up to the rounding of batches."""
    monkeypatch.setattr(speed, "cpu_has_bfloat16", lambda: False)


def test_encoded_texts_are_those_of_the_pipeline_and_are_computed_once(monkeypatch):
    pipe, calls = tiny(), []
    with torch.no_grad():
        expected = pipe.encode_prompt("a room", None, True, max_sequence_length=16)
    forward = pipe.text_encoder.forward
    monkeypatch.setattr(pipe.text_encoder, "forward", lambda *a, **k: calls.append(a) or forward(*a, **k))
    for _ in range(2):
        texts = encoded_prompts(pipe, "a room", None, True, 16)
    assert torch.equal(texts["prompt_embeds"], expected[0])
    assert torch.equal(texts["negative_prompt_embeds"], expected[1])
    assert len(calls) == 2  # the prompt and the negative one
    assert encoded_prompts(pipe, "a room", None, False, 16)["negative_prompt_embeds"] is None


def test_a_fast_film_without_rounding_is_the_exact_one():
    exact = film(tiny())
    assert np.array_equal(film(tiny("fast")), exact)


def test_joined_guidance_gives_the_same_film_in_half_the_calls(monkeypatch):
    exact, pipe = film(tiny()), tiny("fast")
    monkeypatch.setattr(generation, "film_speed", lambda *_: FilmSpeed("fast", joined=True))
    batches, forward = [], type(pipe.transformer).forward

    def counted(self, hidden_states, *arguments, **options):
        batches.append(len(hidden_states))
        return forward(self, hidden_states, *arguments, **options)

    monkeypatch.setattr(type(pipe.transformer), "forward", counted)
    assert psnr(film(pipe), exact).min() > 60
    assert batches == [2, 2]
    assert "forward" not in vars(pipe.transformer)


def test_a_film_without_numbers_is_refused_at_every_level():
    for level in ("exact", "fast"):
        pipe = tiny(level)
        with torch.no_grad():
            pipe.transformer.proj_out.bias.fill_(float("nan"))
        with pytest.raises(SightlineError, match="video holds values from nan to nan"):
            film(pipe)


def test_joined_guidance_restores_the_forward_of_a_hook():
    pipe = tiny()
    hooked = pipe.transformer.forward
    pipe.transformer.forward = hooked
    with joined_guidance(pipe, torch.zeros(1, 4, 8)):
        assert pipe.transformer.forward is not hooked
    assert pipe.transformer.forward is hooked


def test_the_settings_of_a_film_say_how_it_was_computed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # a GPU would use more
    line = ["generate", "--model", "tiny:ti2v-5b", "--size", "64x64", "--num-frames", "5", "--num-inference-steps", "1"]
    camera = tmp_path / "camera.safetensors"
    sl.save_pipeline_camera(tiny(), camera)
    output = tmp_path / "film"
    assert cli.main([*line, "--camera", str(camera), "--speed", "fast", "-o", str(output)]) == 0
    settings = json.loads((output / "settings.json").read_text())
    assert settings["request"]["speed"] == settings["model"]["speed"] == "fast"
    assert settings["speed"] == {"level": "fast", "used": [], "compiled": False, "joined_guidance": False}
