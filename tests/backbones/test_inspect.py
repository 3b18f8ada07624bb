"""Reading a model: the ray form of every head, and the four terms of a score."""

from __future__ import annotations

import pytest
import torch

from sightline.backbones import inspect
from sightline.backbones.tiny import tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import CameraCtrl, Scope, Sweep
from sightline.errors import SightlineError
from tests.backbones.test_wan import retrofit
from tests.conftest import model_inputs, random_trajectory, wake


def test_the_start_is_the_reciprocal_form_in_every_layer_and_head():
    form = inspect.ray_form(retrofit())
    assert form.matrix.shape == (2, 2, 7, 7) and form.distance.shape == (2, 2)
    assert form.distance.max() < 1e-6
    torch.testing.assert_close(form.scale, torch.ones(2, 2), atol=1e-6, rtol=0)


@pytest.mark.parametrize("flip", [True, False])
def test_distance_is_0_for_the_reciprocal_form_at_any_scale_and_1_for_none_of_it(flip):
    model = retrofit(flip=flip)
    swap = [3, 4, 5, 0, 1, 2, 6]
    with torch.no_grad():
        for layer in model.encoding_layers:
            identity = layer.project_q.clone()
            layer.project_k.copy_(3 * (identity if flip else identity[:, swap]))
    form = inspect.ray_form(model)
    assert form.distance.max() < 1e-6
    torch.testing.assert_close(form.scale, torch.full((2, 2), 3.0), atol=1e-5, rtol=0)
    with torch.no_grad():
        for layer in model.encoding_layers:
            layer.project_k.copy_(layer.project_k[:, swap])
    torch.testing.assert_close(inspect.ray_form(model).distance, torch.ones(2, 2))


def test_the_matrix_is_e_q_transposed_e_k_by_hand():
    model = wake(retrofit())
    layer = model.encoding_layers[1]
    expected = layer.project_q[12:].T @ layer.project_k[12:]  # second head of 12 channels
    torch.testing.assert_close(inspect.ray_form(model).matrix[1, 1], expected)


def test_the_four_terms_add_up_to_the_logits_of_the_model(tokens):
    model = wake(retrofit())
    inputs = model_inputs(model)
    seen = []
    model.blocks[1].attn1.camera_encoding.register_forward_hook(lambda _m, _args, out: seen.append(out))
    terms = inspect.score_terms(model, [0, 17, 47], layer=1, **inputs, attention_kwargs={"camera": tokens})
    query, key, _ = seen[0]
    logits = torch.einsum("bqhd,bnhd->bhqn", query[:, [0, 17, 47]], key) / 12**0.5
    assert terms.total.shape == (1, 2, 3, 48)
    torch.testing.assert_close(terms.total, logits, atol=1e-5, rtol=1e-4)
    for term in (terms.content, terms.content_to_ray, terms.ray_to_content, terms.ray_to_ray):
        assert term.abs().max() > 1e-3


@pytest.mark.parametrize("terms, left_out", [("ad", ("content_to_ray", "ray_to_content")), ("abc", ("ray_to_ray",))])
def test_terms_that_are_switched_off_are_zero_and_the_others_as_before(terms, left_out, tokens):
    whole, part = wake(retrofit()), wake(retrofit(terms=terms))
    part.load_state_dict(whole.state_dict())
    inputs = model_inputs(whole)
    expected, actual = (
        inspect.score_terms(model, [0, 17], layer=0, **inputs, attention_kwargs={"camera": tokens})
        for model in (whole, part)
    )
    for name in ("content", "content_to_ray", "ray_to_content", "ray_to_ray"):
        if name in left_out:
            assert not getattr(actual, name).any()
        else:
            torch.testing.assert_close(getattr(actual, name), getattr(expected, name))


def test_raw_rays_have_a_form_of_their_own():
    form = inspect.ray_form(retrofit(ngi=False))
    assert form.matrix.shape == (2, 2, 6, 6) and form.distance.max() < 1e-6


def test_which_term_depends_on_what(tokens):
    model = wake(retrofit())
    other_path = CameraTokens.from_trajectory(random_trajectory(9), (3, 4, 4))

    def terms(camera, seed):
        inputs = model_inputs(model, seed=seed)
        return inspect.score_terms(model, [5], layer=0, **inputs, attention_kwargs={"camera": camera})

    here, elsewhere, other_content = terms(tokens, 0), terms(other_path, 0), terms(tokens, 1)
    assert torch.equal(here.content, elsewhere.content) and not torch.equal(here.content, other_content.content)
    assert torch.equal(here.ray_to_ray, other_content.ray_to_ray) and not torch.equal(
        here.ray_to_ray, elsewhere.ray_to_ray
    )
    for mixed in ("content_to_ray", "ray_to_content"):
        assert not torch.equal(getattr(here, mixed), getattr(elsewhere, mixed))
        assert not torch.equal(getattr(here, mixed), getattr(other_content, mixed))


def test_one_camera_serves_a_batch(tokens):
    model = wake(retrofit())
    inputs = model_inputs(model, batch=2)
    terms = inspect.score_terms(model, [5], layer=0, **inputs, attention_kwargs={"camera": tokens})
    assert terms.ray_to_ray.shape == terms.content.shape == (2, 2, 1, 48)


def test_bad_questions_are_one_sentence(tokens):
    model = wake(retrofit())
    inputs = model_inputs(model)
    with pytest.raises(SightlineError, match="expected token numbers from 0 to 47"):
        inspect.score_terms(model, [48], layer=0, **inputs, attention_kwargs={"camera": tokens})
    for queries in (5, [1.5], None):
        with pytest.raises(SightlineError, match="expected a list of token numbers"):
            inspect.score_terms(model, queries, layer=0, **inputs, attention_kwargs={"camera": tokens})
    with pytest.raises(SightlineError, match="layer is 2: expected a layer from 0 to 1"):
        inspect.score_terms(model, [0], layer=2, **inputs, attention_kwargs={"camera": tokens})
    with pytest.raises(SightlineError, match="ran without a camera"):
        inspect.score_terms(model, [0], layer=0, **inputs)
    with pytest.raises(SightlineError, match="found 'mlp'"):
        inspect.ray_form(retrofit(projection="mlp"))
    with pytest.raises(SightlineError, match="expected a model with a camera, such as a CameraWanTransformer3DModel"):
        inspect.ray_form(tiny_transformer())


@pytest.mark.parametrize("layer", [0, 1])  # layer 0 is also called to embed the camera
def test_the_terms_of_sweep_add_up_to_its_logits_too(layer, tokens):
    model = wake(CameraWanTransformer3DModel.from_transformer(tiny_transformer(), Sweep()))
    inputs = model_inputs(model)
    seen = []
    model.blocks[layer].attn1.camera_encoding.register_forward_hook(lambda _m, args, out: seen.append((args[0], out)))
    terms = inspect.score_terms(model, [5, 40], layer=layer, **inputs, attention_kwargs={"camera": tokens})
    query, key, _ = next(out for stage, out in seen if stage == "inject")
    logits = torch.einsum("bqhd,bnhd->bhqn", query[:, [5, 40]], key) / query.shape[-1] ** 0.5
    torch.testing.assert_close(terms.total, logits, atol=1e-5, rtol=1e-4)
    assert terms.ray_to_ray.abs().max() > 1e-3
    with pytest.raises(SightlineError, match="carries 'sweep': expected the encoding 'scope'"):
        inspect.ray_form(model)


@pytest.mark.parametrize("encoding", [Scope(), Sweep()])
def test_alphas_and_gates_of_every_layer(encoding):
    model = CameraWanTransformer3DModel.from_transformer(tiny_transformer(), encoding)
    found = inspect.layer_strengths(model, (0.1, 1.0))
    assert not found.alpha.any() and found.alpha.shape == (2, 2)
    torch.testing.assert_close(found.gate[:, 1], torch.full((2,), 0.5))  # at s = log 1 = 0
    with torch.no_grad():
        model.blocks[1].attn1.camera_encoding.alpha_k.fill_(0.25)
    assert inspect.layer_strengths(model).alpha.tolist() == [[0, 0], [0, 0.25]]


def test_an_encoding_that_adds_nothing_has_no_terms(tokens):
    model = CameraWanTransformer3DModel.from_transformer(tiny_transformer(), CameraCtrl())
    for read in (lambda: inspect.layer_strengths(model), lambda: inspect.score_terms(model, [0], layer=0)):
        with pytest.raises(SightlineError, match="'cameractrl', which adds nothing to queries and keys"):
            read()
    assert (
        inspect.layer_strengths(CameraWanTransformer3DModel.from_transformer(tiny_transformer(), Scope(ngi=False))).gate
        is None
    )
