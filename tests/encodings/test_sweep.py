"""Sweep: its features against sums written out point by point, what they mean geometrically, and its start."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sightline as sl
from sightline.cameras.tokens import CameraTokens
from sightline.cameras.trajectory import Trajectory
from sightline.encodings import Sweep, encoding_from_config
from sightline.encodings.sweep import sweep_features, swept_directions
from sightline.errors import SightlineError
from sightline.kernels.scope_reference import scale_gate
from tests.encodings import geometry as g

DEPTHS, FREQUENCIES = (0.8, 1.6, 3.2, 6.4), (1.0, 4.0)


def rows_of(trajectory: Trajectory) -> Tensor:  # [1, 12, 90]
    return CameraTokens.from_trajectory(trajectory, g.GRID).rows


def slow_features(trajectory: Trajectory, token: int) -> list[float]:
    latent, row, column = g.place(token)
    frame = 4 * latent
    x, y = (column + 0.5) * g.WIDTH / g.GRID[2], (row + 0.5) * g.HEIGHT / g.GRID[1]
    direction, moment = g.ray_through(trajectory, frame, x, y)
    centre, size = trajectory.camera_to_world[frame, :3, 3], math.sqrt(float((moment**2).sum()))
    directions = []
    for depth in DEPTHS:
        point = [float(centre[axis] + depth * direction[axis]) for axis in range(3)]
        length = math.sqrt(sum(value**2 for value in point))
        directions += [value / length for value in point]
    directions += [float(value) for value in direction]
    angles = [math.pi * frequency * value for frequency in FREQUENCIES for value in directions]
    features = [float(value) / (size + 0.3) for value in moment] + [math.log(max(size, 0.1)) / 4]
    return features + [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_features_are_those_written_out_point_by_point(seed):
    trajectory = g.trajectory(seed)
    actual = sweep_features(g.rows(trajectory), DEPTHS, FREQUENCIES)[0]
    expected = torch.tensor([slow_features(trajectory, token) for token in range(g.TOKENS)], dtype=torch.float64)
    assert actual.shape == (g.TOKENS, Sweep().num_features) == (g.TOKENS, 64)
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)


def test_the_encoding_is_the_equation_in_the_header():
    layer, trajectory = g.trained(Sweep()), g.trajectory(3)
    rows = layer("embed", g.rows(trajectory), g.GRID)[1]
    query, key, value = g.content()
    new_query, new_key, new_value = layer("inject", query, key, value, rows)
    feature = torch.tensor([slow_features(trajectory, token) for token in range(g.TOKENS)], dtype=torch.float64)
    s = 4 * feature[:, 3:4]
    hidden = F.gelu(s * layer.gate_in[:, 0] + layer.gate_in_bias)
    gate = 1 / (1 + torch.exp(-(hidden @ layer.gate_out.T + layer.gate_out_bias)))
    projected = feature @ layer.project.T
    unit = projected / (projected.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    for old, new, alpha, norm in (
        (query, new_query, layer.alpha_q, layer.norm_q),
        (key, new_key, layer.alpha_k, layer.norm_k),
    ):
        expected = old + (alpha * gate * unit * norm).unflatten(-1, (g.HEADS, -1))
        torch.testing.assert_close(new, expected, atol=1e-10, rtol=0)
    assert new_value is value


@pytest.mark.parametrize("tied", [True, False])
def test_gradients(tied):
    layer = g.trained(Sweep(depths=(1.0,), frequencies=(1.0,), gate_hidden=2, tied=tied))
    rows = layer("embed", g.rows(g.trajectory(4)), g.GRID)[1]
    query, key, value = g.content()
    assert g.gradcheck_layer(layer, lambda call, q, k: call("inject", q, k, value, rows)[:2], query, key)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_swept_direction_is_the_anchor_s_view_of_the_point(depth):
    """Take the point at a depth on a ray of frame 4, look at it from frame 0, and compare the two directions."""
    trajectory = sl.moves.orbit(degrees=40, target_depth=2.0, frames=5, width=g.WIDTH, height=g.HEIGHT)
    rows = rows_of(trajectory).double()
    tokens = slice(g.TOKENS // 2, None)  # those of the last frame
    centre = trajectory.camera_to_world[-1, :3, 3]
    points = centre + depth * rows[0, tokens, :3]
    seen_by_anchor = F.normalize(points - trajectory.camera_to_world[0, :3, 3], dim=-1)
    place = 3 * DEPTHS.index(depth)
    swept = swept_directions(rows, DEPTHS)[0, tokens, place : place + 3]
    torch.testing.assert_close(swept, seen_by_anchor, atol=1e-6, rtol=0)


def test_a_camera_that_only_rotates_still_has_an_address():
    rows = rows_of(sl.moves.pan(degrees=50, frames=5, width=g.WIDTH, height=g.HEIGHT))
    directions = swept_directions(rows, DEPTHS).unflatten(-1, (-1, 3))  # [1, N, 5, 3]
    torch.testing.assert_close(directions, rows[..., None, :3].expand_as(directions), atol=1e-6, rtol=0)
    features = sweep_features(rows, DEPTHS, FREQUENCIES)[0]
    assert torch.cdist(features, features).fill_diagonal_(9).min() > 0.05  # no two tokens share an address


def test_another_unit_of_length_is_another_set_of_depths():
    trajectory = g.trajectory(5)
    doubled = swept_directions(rows_of(trajectory.scaled(2.0)), (1.6, 3.2))
    torch.testing.assert_close(doubled, swept_directions(rows_of(trajectory), (0.8, 1.6)), atol=1e-5, rtol=0)


def test_the_log_scale_offset_reaches_the_gate_alone():
    layer, rows = g.trained(Sweep()), g.rows(g.trajectory(6))
    shifted = rows.clone()
    shifted[..., 22] = 0.7
    before, after = (layer("embed", one, g.GRID)[1] for one in (rows, shifted))
    assert torch.equal(before[..., 90:], after[..., 90:])
    assert (layer.encode(before)[0] - layer.encode(after)[0]).abs().max() > 1e-3


def test_a_training_notes_its_alphas_and_its_gate():
    layer = g.trained(Sweep())
    metrics = layer.metrics()
    assert metrics["alpha_q"] == layer.alpha_q.item() and metrics["alpha_k"] == layer.alpha_k.item()
    for magnitude in (0.1, 1.0, 10.0):
        gate = scale_gate(torch.tensor([[math.log(magnitude)]]), layer.gate_weights)
        assert metrics[f"gate_at_{magnitude:g}"] == pytest.approx(gate.mean().item())


def test_configs_from_json_are_the_same_settings():
    encoding = Sweep(depths=(1.0, 2.0), tied=False)
    config = {**encoding.to_config(), "depths": [1, 2.0]}
    assert encoding_from_config(config) == encoding and encoding.num_features == 40


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"depths": ()}, "depths is \\(\\): expected a list of one or more numbers above 0"),
        ({"depths": (1.0, -2.0)}, "depths is -2.0: expected a finite number above 0"),
        ({"depths": (2.0, 1.0)}, "depths is \\[2.0, 1.0\\]: expected increasing numbers"),
        ({"frequencies": "high"}, "frequencies is 'high': expected a list"),
        ({"gate_hidden": 0}, "gate_hidden is 0"),
        ({"tied": "yes"}, "tied is 'yes': expected True or False"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(SightlineError, match=message):
        Sweep(**settings)
