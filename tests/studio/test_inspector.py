"""What the weights of a model say without a film: alphas, gates, and M beside the reciprocal form."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import sightline as sl
from sightline.backbones.stock import expert_at, experts
from sightline.backbones.tiny import tiny_pipeline, tiny_transformer
from sightline.errors import SightlineError
from sightline.generation.job import Job
from sightline.generation.model import Model, ModelOptions
from sightline.generation.outputs import run_job
from sightline.studio.inspection_page import form_picture, strengths_picture
from sightline.studio.inspector import LayersView, TokenQuery, read_layers, score_film
from tests.backbones.test_wan import retrofit
from tests.conftest import wake


def seen_by_the_page(transformer):
    (view,) = experts_of(SimpleNamespace(transformer=transformer, config={}))
    return view


def experts_of(pipe):
    return [
        LayersView.unpacked(json.loads(json.dumps(view.packed()))) for view in read_layers(SimpleNamespace(pipe=pipe))
    ]


def test_a_model_with_scope_shows_the_learned_m_of_each_layer_and_head():
    view = seen_by_the_page(retrofit())
    assert (view.encoding, view.layers, view.heads, view.note) == ("scope", 2, 2, "")
    assert view.matrix.shape[:2] == view.distance.shape == (2, 2) and view.alpha.shape == (2, 2)
    assert (
        np.allclose(view.matrix[..., :6, :6], view.reciprocal, atol=1e-6) and view.distance.max() < 1e-6
    )  # as it starts
    trained = seen_by_the_page(wake(retrofit()))
    assert trained.distance.min() > 1e-3 and not np.array_equal(trained.alpha, view.alpha)
    for layer in range(2):
        assert not np.array_equal(form_picture(trained, layer), form_picture(view, layer))
    assert strengths_picture(trained) is not None


@pytest.fixture
def two_experts(tmp_path):
    pipe = sl.attach_camera(tiny_pipeline("i2v-a14b"), sl.Scope())
    wake(pipe.transformer)
    wake(pipe.transformer_2, seed=4)
    sl.save_pipeline_camera(pipe, tmp_path / "camera")
    return Model(ModelOptions("tiny:i2v-a14b", tmp_path / "camera"))


def test_each_expert_is_read_and_the_noise_level_chooses_it_as_when_a_film_is_made(two_experts, tmp_path):
    pipe, seen = two_experts.pipe, []
    high, low = experts_of(pipe)
    assert (high.from_sigma, low.from_sigma) == (0.9, 0.0) and not np.array_equal(high.matrix, low.matrix)
    assert high.note == "These are the layers of transformer, the expert of the noise levels from 0.9."
    assert low.note == "These are the layers of transformer_2, the expert of the noise levels below 0.9."

    for name, expert in experts(pipe).items():
        hook = partial(lambda name, module, args, kwargs: seen.append((name, kwargs["timestep"])), name)
        expert.register_forward_pre_hook(hook, with_kwargs=True)
    folder = tmp_path / "film"
    run_job(two_experts, Job(output=folder, size="64x64", num_frames=5, num_inference_steps=6, prompt="a room"))
    assert {name for name, _ in seen} == {"transformer", "transformer_2"}
    for name, timestep in seen:
        assert expert_at(pipe, float(timestep.max()) / 1000) == name

    for sigma in (0.95, 0.5):
        seen.clear()
        score_film(two_experts, TokenQuery(str(folder), frame=1, x=0.4, y=0.6, layer=0, sigma=sigma))
        assert {name for name, _ in seen} == {expert_at(pipe, sigma)}


def test_a_model_without_a_camera_is_refused():
    with pytest.raises(SightlineError, match="expected one with camera weights"):
        seen_by_the_page(tiny_transformer())
