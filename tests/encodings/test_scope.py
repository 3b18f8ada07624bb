"""SCoPE against the formulas of the paper, written out token by token in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import plucker
from sightline.cameras.tokens import RAY, CameraTokens
from sightline.encodings import ENCODINGS, Scope, encoding_from_config
from sightline.encodings.scope import ScopeLayer
from sightline.errors import SightlineError
from sightline.kernels.scope_reference import normalized_projection, ray_features, scale_gate
from tests.conftest import TOLERANCE, random_trajectory

DIM, HEADS = 48, 4
seeds = st.integers(0, 500)


def camera_rows(seed: int = 0, scale: float = 1.0) -> torch.Tensor:  # [1, 12, 23] float64
    trajectory = random_trajectory(9, seed).anchored()
    return CameraTokens.from_trajectory(trajectory.scaled(scale), (3, 2, 2)).rows.double()


def trained_layer(seed: int = 0, dtype: torch.dtype = torch.float64, **settings: object) -> ScopeLayer:
    torch.manual_seed(seed)
    layer = Scope(**settings).layer(DIM, HEADS)  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.to(dtype)


def paper(layer: ScopeLayer, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # [23] -> [dim], [dim]
    """Equations 8 to 12 for one token, with nothing shared with the implementation but the parameters."""
    p = {name: value.detach().double() for name, value in layer.named_parameters()}
    d, m, delta = row[:3], row[3:6], row[22]
    size = max(float(m.norm()), layer.settings.min_moment)
    s = math.log(size)
    f_q = torch.tensor([*d, *(m / size), s], dtype=torch.float64)
    f_k = torch.tensor([*(m / size), *d, s] if layer.settings.flip else [*d, *(m / size), s], dtype=torch.float64)

    def gelu(x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    hidden = gelu(p["gate_in"][:, 0] * (s + delta) + p["gate_in_bias"])
    gate = 1 / (1 + torch.exp(-(p["gate_out"] @ hidden + p["gate_out_bias"])))

    def side(name: str, feature: torch.Tensor) -> torch.Tensor:
        if layer.settings.projection == "mlp":
            feature = gelu(p[f"project_{name}_in"] @ feature + p[f"project_{name}_bias"])
        projected = p[f"project_{name}"] @ feature
        normed = p[f"norm_{name}"] * projected / torch.sqrt((projected**2).mean() + 1e-6)
        return p[f"alpha_{name}"] * gate * normed

    return side("q", f_q), side("k", f_k)


@pytest.mark.parametrize(
    "settings", [{}, {"projection": "mlp"}, {"flip": False}, {"min_moment": 0.5, "gate_hidden": 3}]
)
def test_it_is_the_paper_token_by_token(settings):
    layer, camera = trained_layer(**settings), camera_rows()
    camera[..., 22] = 0.4
    pe_q, pe_k = layer.encode(camera)
    for token in range(camera.shape[1]):
        expected_q, expected_k = paper(layer, camera[0, token])
        torch.testing.assert_close(pe_q[0, token].flatten(), expected_q, atol=1e-10, rtol=0)
        torch.testing.assert_close(pe_k[0, token].flatten(), expected_k, atol=1e-10, rtol=0)


def test_it_is_added_to_query_and_key_and_leaves_the_value():
    layer, camera = trained_layer(), camera_rows()
    query, key, value = torch.randn(3, 2, 12, HEADS, DIM // HEADS, dtype=torch.float64).unbind(0)
    new_query, new_key, new_value = layer("inject", query, key, value, camera)
    pe_q, pe_k = layer.encode(camera)
    torch.testing.assert_close(new_query - query, pe_q.expand_as(query))
    torch.testing.assert_close(new_key - key, pe_k.expand_as(key))
    assert new_value is value
    assert layer.stages == {"inject"}


@pytest.mark.parametrize("settings", [{}, {"projection": "mlp", "gate_hidden": 2}])
def test_gradcheck(settings):
    layer, camera = trained_layer(**settings), camera_rows()[:, 2:6]
    names, values = zip(*layer.named_parameters(), strict=True)

    def encode(*parameters: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        named = dict(zip(names, parameters, strict=True))
        query = key = torch.zeros(1, 4, HEADS, DIM // HEADS, dtype=torch.float64)
        return torch.func.functional_call(layer, named, ("inject", query, key, key, camera))[:2]

    assert torch.autograd.gradcheck(encode, values, fast_mode=True)


@given(seeds, st.floats(0.01, 100))
def test_the_first_six_features_do_not_know_the_scale_of_the_scene(seed, scale):
    small, large = camera_rows(seed), camera_rows(seed, scale)
    moving = small[0, :, 3:6].norm(dim=-1) > 1e-2
    for one, other in zip(ray_features(small, True, 1e-6)[:2], ray_features(large, True, 1e-6)[:2], strict=True):
        torch.testing.assert_close(one[0, moving, :6], other[0, moving, :6], atol=1e-5, rtol=0)
    shift = ray_features(large, True, 1e-6)[2] - ray_features(small, True, 1e-6)[2]
    torch.testing.assert_close(shift[0, moving], torch.full_like(shift[0, moving], math.log(scale)), atol=1e-3, rtol=0)


@given(seeds)
def test_proposition_1_the_identity_makes_term_d_the_reciprocal_product(seed):
    camera = camera_rows(seed)[:, 4:]
    camera[..., 3:6] /= camera[..., 3:6].norm(dim=-1, keepdim=True)  # unit moments: then the features are the raw rays
    feature_q, feature_k, log_magnitude = ray_features(camera, True, 1e-6)
    layer = Scope().layer(DIM, HEADS).double()
    for head in layer.project_q.unflatten(0, (HEADS, -1)):  # E_q = E_k, orthonormal columns
        term_d = (feature_q[0] @ head.T) @ (feature_k[0] @ head.T).T
        rays = camera[0, :, RAY]
        expected = plucker.reciprocal_product(rays[:, None], rays[None])
        torch.testing.assert_close(term_d, expected, atol=1e-5, rtol=0)
    assert log_magnitude.abs().max() < 1e-6 < expected.abs().max()


def test_the_default_start_is_the_reciprocal_form_in_every_head():
    layer = Scope().layer(DIM, HEADS)
    for e_q, e_k in zip(
        layer.project_q.unflatten(0, (HEADS, -1)), layer.project_k.unflatten(0, (HEADS, -1)), strict=True
    ):
        torch.testing.assert_close(e_q.T @ e_k, torch.eye(7), atol=1e-6, rtol=0)


@given(seeds)
def test_flipped_and_unflipped_are_one_block_swap_apart(seed):
    flipped, unflipped = trained_layer(seed), trained_layer(seed, flip=False)
    with torch.no_grad():
        unflipped.project_k.copy_(flipped.project_k[:, [3, 4, 5, 0, 1, 2, 6]])  # E_k P
    camera = camera_rows(seed)
    for one, other in zip(flipped.encode(camera), unflipped.encode(camera), strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


def test_the_gate_is_one_half_at_s_zero_and_hears_the_augmentation_alone():
    layer = Scope().layer(DIM, HEADS)
    torch.testing.assert_close(scale_gate(torch.zeros(1, 1), layer.gate_weights), torch.full((1, DIM), 0.5))
    layer, camera = trained_layer(), camera_rows()
    shifted = camera.clone()
    shifted[..., 22] = 1.1
    log_magnitude = ray_features(camera, True, 1e-6)[2]
    ratio = scale_gate(log_magnitude + 1.1, layer.gate_weights) / scale_gate(log_magnitude, layer.gate_weights)
    pe, pe_shifted = layer.encode(camera)[0].flatten(2), layer.encode(shifted)[0].flatten(2)
    torch.testing.assert_close(pe_shifted, pe * ratio)


def test_the_width_is_normalised_as_a_whole_not_head_by_head():
    layer, camera = trained_layer(), camera_rows()
    with torch.no_grad():
        layer.norm_q.fill_(1.0)
        layer.project_q.unflatten(0, (HEADS, -1))[0] *= 5.0
    normed = normalized_projection(ray_features(camera, True, 1e-6)[0], layer.side_weights("q"))[0].unflatten(
        -1, (HEADS, -1)
    )
    rms = normed.square().mean(-1).sqrt()
    assert (rms[:, 0] > 1.5 * rms[:, 1]).all()
    torch.testing.assert_close(
        normed.flatten(1).square().mean(-1), torch.ones(12, dtype=torch.float64), atol=1e-4, rtol=0
    )


def test_a_layer_cast_to_bf16_still_computes_in_float32():
    rounded = trained_layer(dtype=torch.bfloat16)
    exact = trained_layer(dtype=torch.float64)
    exact.load_state_dict(rounded.state_dict())
    camera = camera_rows()
    pe = rounded.encode(camera.float())[0]
    assert pe.dtype == torch.float32
    torch.testing.assert_close(pe.double(), exact.encode(camera)[0], atol=TOLERANCE[torch.float32], rtol=1e-4)
    query = torch.zeros(1, 12, HEADS, DIM // HEADS, dtype=torch.bfloat16)
    assert rounded("inject", query, query, query, camera.float())[0].dtype == torch.bfloat16


def test_autocast_does_not_reach_the_rays():
    layer, camera = trained_layer(dtype=torch.float32), camera_rows().float()
    outside = layer.encode(camera)[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer.encode(camera)[0], outside)


def test_a_token_without_a_camera_gets_nothing():
    layer, camera = trained_layer(), camera_rows()
    camera[0, 3] = 0
    pe_q, pe_k = layer.encode(camera)
    assert not pe_q[0, 3].any() and not pe_k[0, 3].any() and pe_q[0, 4].any()


def test_a_still_camera_gives_finite_numbers_and_gradients():
    layer = trained_layer()
    camera = camera_rows()
    camera[..., 3:6] = 0
    pe_q, pe_k = layer.encode(camera)
    (pe_q.square().sum() + pe_k.square().sum()).backward()
    assert pe_q.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"projection_init": "zero"}, "can never learn"),
        ({"projection": "mlp", "alpha": 0.0}, "can never learn"),
        ({"projection": "mlp", "projection_init": "identity"}, "mlp, which has none"),
        ({"projection": "conv"}, "projection is 'conv'"),
        ({"projection_init": "ones"}, "projection_init is 'ones'"),
        ({"gate_hidden": 0}, "gate_hidden is 0"),
        ({"gate_hidden": 2.5}, "gate_hidden is 2.5"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"alpha": "much"}, "alpha is 'much'"),
        ({"flip": "no"}, "flip is 'no'"),
        ({"min_moment": 0.0}, "min_moment is 0.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(SightlineError, match=sentence):
        Scope(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"projection": "mlp"},
        {"projection_init": "random", "alpha": 1.0},
        {"projection_init": "random"},
        {"projection_init": "zero", "alpha": 1.0},
        {"projection": "mlp", "projection_init": "random", "alpha": 0.0},
    ],
)
def test_every_accepted_start_learns_all_its_parameters_within_three_steps(settings):
    torch.manual_seed(0)
    layer = Scope(**settings).layer(DIM, HEADS)
    start = {name: parameter.detach().clone() for name, parameter in layer.named_parameters()}
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-2)  # no momentum, no decay: only a gradient moves it
    camera = camera_rows().float()
    target = torch.randn(2, 12, HEADS, DIM // HEADS)
    for _ in range(3):
        optimizer.zero_grad()
        sum((pe - goal).square().sum() for pe, goal in zip(layer.encode(camera), target, strict=True)).backward()
        optimizer.step()
    still = [name for name, parameter in layer.named_parameters() if torch.equal(parameter, start[name])]
    assert still == []


def test_heads_too_narrow_for_the_identity_are_refused():
    with pytest.raises(SightlineError, match="head_dim is 6"):
        Scope().layer(24, 4)
    assert Scope(projection_init="random").layer(24, 4)


def test_settings_survive_a_config_file():
    assert "scope" in ENCODINGS
    scope = Scope(gate_hidden=8, projection="mlp")
    assert encoding_from_config(scope.to_config()) == scope
    assert encoding_from_config({"name": "scope"}) == Scope()
    with pytest.raises(SightlineError, match="encoding name is 'nope'"):
        encoding_from_config({"name": "nope"})
    with pytest.raises(SightlineError, match="unknown setting 'gates'"):
        encoding_from_config({"name": "scope", "gates": 3})


def test_scalar_alphas_of_old_checkpoints_are_promoted():
    layer = trained_layer()
    old = {name: value.reshape(()) if name.startswith("alpha") else value for name, value in layer.state_dict().items()}
    fresh = trained_layer(seed=5)
    fresh.load_state_dict(old)
    assert torch.equal(fresh.alpha_q, layer.alpha_q) and fresh.alpha_q.shape == (1,)
