"""SCoPE's ablations: each against its formula token by token, and the four terms of the score one by one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sightline.encodings import Scope, encoding_from_config
from sightline.encodings.scope import ScopeLayer
from sightline.errors import SightlineError
from tests.encodings import geometry as g

SETTINGS = {
    "full": {},
    "w/o flip": {"flip": False},
    "w/o NGI": {"ngi": False},
    "w/o NGI and flip": {"ngi": False, "flip": False},
    "w/o PE RMSNorm": {"norm": False},
    "w/o zero init": {"alpha": 1.0, "projection_init": "random"},
    "with V transform": {"value": True},
    "with V transform, mlp": {"value": True, "projection": "mlp"},
}
TERMS = ("abcd", "ad", "abc")
TRAJECTORY = g.trajectory(1)


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def slow_pe(layer: ScopeLayer, side: str, row: Tensor) -> Tensor:  # [90] -> [dim]
    """alpha g RMSNorm(E f) of one token, with what the settings leave out left out."""
    s, p = layer.settings, {name: value.detach() for name, value in layer.named_parameters()}
    d, m = row[:3], row[3:6]
    swapped = side == "k" and s.flip
    if not s.ngi:
        ray = torch.cat([m, d] if swapped else [d, m])
        return p[f"alpha_{side}"] * (p[f"project_{side}"] @ ray)
    size = max(float(m.norm()), s.min_moment)
    unit, log = m / size, torch.tensor([math.log(size)], dtype=torch.float64)
    feature = torch.cat([unit, d, log] if swapped else [d, unit, log])
    if s.projection == "mlp":
        feature = gelu(p[f"project_{side}_in"] @ feature + p[f"project_{side}_bias"])
    projected = p[f"project_{side}"] @ feature
    if s.norm:
        projected = p[f"norm_{side}"] * projected / torch.sqrt((projected**2).mean() + 1e-6)
    hidden = gelu(p["gate_in"][:, 0] * (log + row[22]) + p["gate_in_bias"])
    gate = 1 / (1 + torch.exp(-(p["gate_out"] @ hidden + p["gate_out_bias"])))
    return p[f"alpha_{side}"] * gate * projected


def slow_rays(layer: ScopeLayer, side: str, camera: Tensor) -> Tensor:  # [1, N, 90] -> [1, N, H, D]
    rays = torch.stack([slow_pe(layer, side, row) for row in camera[0]])
    return rays.unflatten(-1, (g.HEADS, -1))[None]


def score(layer: ScopeLayer, query: Tensor, key: Tensor, camera: Tensor) -> Tensor:  # -> [1, H, N, N]
    """The logits that the attention kernel is given, whichever stage the settings use."""
    if "inject" in layer.stages:
        query, key, _ = layer("inject", query, key, query, camera)
        return g.logits(query, key) / math.sqrt(g.HEAD)
    seen = []

    def attend(query, key, value, scale=None):
        seen.append(g.logits(query, key) * (query.shape[-1] ** -0.5 if scale is None else scale))
        return g.softmax_attention(query, key, value, scale)

    layer("attend", query, key, query, attend, camera)
    return seen[0]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_ablation_is_its_formula_token_by_token(name):
    layer, camera = g.trained(Scope(**SETTINGS[name])), g.rows(TRAJECTORY)
    camera[..., 22] = 0.4
    query, key, value = g.content()
    actual = layer("inject", query, key, value, camera)
    for side, before, after in zip("qkv", (query, key, value), actual, strict=True):
        if side in layer.sides:
            torch.testing.assert_close(after, before + slow_rays(layer, side, camera), atol=1e-9, rtol=0)
        else:
            assert after is before


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", ["full", "w/o NGI", "with V transform"])
def test_gradcheck(name, terms):
    layer, camera = g.trained(Scope(**SETTINGS[name], terms=terms)), g.rows(TRAJECTORY)

    def call(stage, query, key, value):
        if terms != "abcd":
            return stage("attend", query, key, value, g.softmax_attention, camera)
        return stage("inject", query, key, value, camera)

    assert g.gradcheck_layer(layer, call, *g.content())


def test_without_ngi_and_e_at_the_identity_term_d_is_the_reciprocal_product_itself():
    torch.manual_seed(0)
    layer, camera = Scope(ngi=False, alpha=1.0).layer(g.DIM, g.HEADS).double(), g.rows(TRAJECTORY)
    assert layer.project_q.shape == (g.DIM, 6) and not hasattr(layer, "gate_in")
    term_d = g.logits(*layer.encode(camera))[0]
    d, m = camera[0, :, :3], camera[0, :, 3:6]
    for head in term_d:
        torch.testing.assert_close(head, d @ m.T + m @ d.T, atol=1e-5, rtol=1e-5)  # E is orthonormal in float32
    moved = g.rows(g.moved(TRAJECTORY, g.motions()[0]))
    torch.testing.assert_close(g.logits(*layer.encode(moved))[0], term_d, atol=1e-4, rtol=1e-4)  # so it is invariant
    trained, query = g.trained(Scope(ngi=False)), g.content()[0]  # and away from the identity it is not
    assert (score(trained, query, query, moved) - score(trained, query, query, camera)).abs().max() > 0.1


@pytest.mark.parametrize("name", ["full", "w/o flip", "w/o PE RMSNorm", "with V transform"])
def test_scores_know_the_world_frame(name):
    layer, query = g.trained(Scope(**SETTINGS[name])), g.content()[0]
    still, moved = g.rows(TRAJECTORY), g.rows(g.moved(TRAJECTORY, g.motions()[0]))
    assert (score(layer, query, query, moved) - score(layer, query, query, still)).abs().max() > 0.1


# -- the four terms -------------------------------------------------------------------------------------------------


def four_terms(layer: ScopeLayer, query: Tensor, key: Tensor, camera: Tensor) -> dict[str, Tensor]:
    ray_q, ray_k = slow_rays(layer, "q", camera), slow_rays(layer, "k", camera)
    pairs = {"a": (query, key), "b": (query, ray_k), "c": (ray_q, key), "d": (ray_q, ray_k)}
    return {term: g.logits(*pair) / math.sqrt(g.HEAD) for term, pair in pairs.items()}


@pytest.mark.parametrize("terms", TERMS)
def test_the_score_is_the_sum_of_exactly_its_terms(terms):
    layer, camera = g.trained(Scope(terms=terms)), g.rows(TRAJECTORY)
    query, key, _ = g.content()
    expected = sum(four_terms(layer, query, key, camera)[term] for term in terms)
    torch.testing.assert_close(score(layer, query, key, camera), expected, atol=1e-9, rtol=0)


def mixed_dependence(layer: ScopeLayer) -> float:
    """How far the score is from a function of content plus a function of rays: its second difference."""
    (q1, k1), (q2, k2) = g.content(1, 2), g.content(2, 2)
    r1, r2 = g.rows(TRAJECTORY), g.rows(g.trajectory(7))
    difference = score(layer, q1, k1, r1) - score(layer, q1, k1, r2) - score(layer, q2, k2, r1)
    return (difference + score(layer, q2, k2, r2)).abs().max().item()


def pure_ray_dependence(layer: ScopeLayer) -> float:
    """How far the score moves with the rays where there is no content at all."""
    nothing = torch.zeros(1, g.TOKENS, g.HEADS, g.HEAD, dtype=torch.float64)
    return (score(layer, nothing, nothing, g.rows(TRAJECTORY))).abs().max().item()


def test_without_b_and_c_no_mixed_dependence_and_without_d_no_pure_one():
    layers = {terms: g.trained(Scope(terms=terms, alpha=1.0)) for terms in TERMS}
    assert mixed_dependence(layers["ad"]) < 1e-9 < 0.1 < mixed_dependence(layers["abcd"])
    assert pure_ray_dependence(layers["abc"]) < 1e-9 < 0.1 < pure_ray_dependence(layers["abcd"])
    assert mixed_dependence(layers["abc"]) > 0.1 and pure_ray_dependence(layers["ad"]) > 0.1


@pytest.mark.parametrize("terms", ["ad", "abc"])
def test_values_keep_their_width_and_attention_its_weights(terms):
    layer, camera = g.trained(Scope(terms=terms)), g.rows(TRAJECTORY)
    query, key, value = g.content()
    actual = layer("attend", query, key, value, g.softmax_attention, camera)
    weights = torch.softmax(score(layer, query, key, camera), dim=-1)
    torch.testing.assert_close(actual, torch.einsum("bhnm,bmhd->bnhd", weights, value), atol=1e-9, rtol=0)


@pytest.mark.parametrize("terms", TERMS)
def test_from_its_start_every_term_setting_learns_all_its_parameters_within_three_steps(terms):
    torch.manual_seed(0)
    layer, camera = Scope(terms=terms).layer(g.DIM, g.HEADS).double(), g.rows(TRAJECTORY)
    query, key, _ = g.content()
    start = {name: value.detach().clone() for name, value in layer.named_parameters()}
    torch.testing.assert_close(score(layer, query, key, camera), g.logits(query, key) / math.sqrt(g.HEAD))
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        (score(layer, query, key, camera) - 1).square().sum().backward()
        optimizer.step()
    assert [name for name, value in layer.named_parameters() if torch.equal(value, start[name])] == []


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"terms": "bcd"}, "terms is 'bcd'"),
        ({"ngi": "no"}, "ngi is 'no'"),
        ({"norm": 0}, "norm is 0"),
        ({"value": None}, "value is None"),
        ({"ngi": False, "projection": "mlp"}, "projection is 'mlp' with ngi = False"),
        ({"ngi": False, "norm": False}, "norm = False with ngi = False"),
        ({"terms": "ad", "projection": "mlp"}, "terms = 'ad' together with projection_init = 'zero' can never learn"),
        ({"terms": "ad", "projection_init": "zero", "alpha": 1.0}, "can never learn"),
    ],
)
def test_compositions_that_make_no_sense_are_refused_by_name(settings, sentence):
    with pytest.raises(SightlineError, match=sentence):
        encoding_from_config({"name": "scope", **settings})
