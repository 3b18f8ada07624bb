"""ReRoPE and FreqSplit against one explicit matrix per token and head: equality, gradients, and what cancels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sightline.cameras.trajectory import Trajectory
from sightline.encodings import FreqSplit, ReRope
from sightline.encodings.freqsplit import PHASES, camera_uv_phases, four_dof_phases, unit_projection
from sightline.encodings.rotary import temporal_channels
from sightline.errors import SightlineError
from tests.encodings import geometry as g

METHODS = {"rerope": ReRope(), **{phases: FreqSplit(phases) for phases in PHASES}}
WIDE = 128  # the real head width; one head of it
TRAJECTORY = g.trajectory(1)


# -- the slow way ---------------------------------------------------------------------------------------------------


def angles(token: int, width: int) -> list[float]:
    """Native RoPE: for each pair of channels, position times 10000^(-2 p / channels of its axis)."""
    axis = 2 * (width // 6)
    phases = []
    for position, channels in zip(g.place(token), (width - 2 * axis, axis, axis), strict=True):
        phases += [position * 10000 ** (-2 * p / channels) for p in range(channels // 2)]
    return phases


def rotary(width: int) -> tuple[Tensor, Tensor]:  # 2 x [1, N, 1, D]
    table = torch.tensor([angles(token, width) for token in range(g.TOKENS)], dtype=torch.float64)
    table = table.repeat_interleave(2, dim=-1)[None, :, None]
    return table.cos(), table.sin()


def uv(trajectory: Trajectory, token: int, depth: float) -> tuple[float, float]:
    """Where the ray's point at this depth of its own camera falls in a camera at the world's origin."""
    latent, row, column = g.place(token)
    pose = trajectory.camera_to_world[4 * latent]
    direction, _ = g.ray_through(
        trajectory, 4 * latent, (column + 0.5) * g.WIDTH / g.GRID[2], (row + 0.5) * g.HEIGHT / g.GRID[1]
    )
    along = max(float(direction @ pose[:3, 2]), 0.1)
    x, y, z = (pose[:3, 3] + depth / along * direction).tolist()
    z = max(z, 0.1 * depth)
    return tuple(max(-4.0, min(4.0, value / z)) for value in (x, y))


def line(trajectory: Trajectory, token: int) -> tuple[float, float, float, float]:
    """Longitude, latitude, and the closest point to the origin along east and north."""
    latent, row, column = g.place(token)
    d, m = g.ray_through(
        trajectory, 4 * latent, (column + 0.5) * g.WIDTH / g.GRID[2], (row + 0.5) * g.HEIGHT / g.GRID[1]
    )
    foot = torch.linalg.cross(d, m)
    longitude, latitude = math.atan2(d[0], d[2]), math.asin(-d[1])
    east = torch.linalg.cross(d, torch.tensor([0.0, -1.0, 0.0], dtype=torch.float64))  # forward x up is right
    east = east / east.norm()
    north = torch.linalg.cross(east, d)
    north = north if north[1] < 0 else -north  # up is minus y
    return longitude, latitude, float(foot @ east), float(foot @ north)


def slow_phases(layer, name: str, trajectory: Trajectory, token: int, head: int) -> list[float]:
    if name == "camera_uv":
        (u1, v1), (u2, v2) = uv(trajectory, token, 1.0), uv(trajectory, token, 10.0)
        base = 2 * math.pi / 32
        ten = [u1, v1, u2, v2, 3 * u1, 3 * v1, 3 * u2, 3 * v2, 9 * u1, 9 * v1]
        return [base * value for value in ten][: layer.pairs]
    if name == "four_dof":
        longitude, latitude, a, b = line(trajectory, token)
        a, b = math.asinh(a), math.asinh(b)
        ten = [longitude, latitude, 0.52 * a, 0.52 * b, 2 * longitude, 2 * latitude, 1.57 * a, 1.57 * b, 4.71 * a]
        return [*ten, 4.71 * b][: layer.pairs]
    ray = g.rows(trajectory)[0, token, :6]
    return (layer.weight.detach()[head * layer.pairs : (head + 1) * layer.pairs] @ ray).tolist()


def matrices(layer, name: str, trajectory: Trajectory, token: int, head: int, width: int) -> tuple[Tensor, Tensor]:
    """What a query and a key of this token and head are multiplied by, [D, D] each."""
    native = angles(token, width)
    temporal = width - 4 * (width // 6)  # channels
    slow_pairs = temporal // 2 // 2
    blocks = 2 * slow_pairs // 4
    first = temporal // 2 - 2 * blocks  # first pair of the slot
    frame = 4 * g.place(token)[0]
    query, key = [g.turn(angle) for angle in native], [g.turn(angle) for angle in native]
    if name in ("rerope", "projective"):
        matrix = g.world_to_camera(trajectory, frame)
        if name == "projective":
            lens = g.lens_of(trajectory, frame)
            matrix = g.lifted(lens) @ matrix / (lens[0] * lens[1]) ** 0.25
        else:
            for pair in range(temporal // 2 - slow_pairs, first):
                query[pair] = key[pair] = torch.eye(2, dtype=torch.float64)
        query[first : temporal // 2] = [matrix.T] * blocks
        key[first : temporal // 2] = [torch.linalg.inv(matrix)] * blocks
    else:
        for index, phase in enumerate(slow_phases(layer, name, trajectory, token, head)):
            both = phase + (native[first + index] if name == "plucker" else 0.0)
            query[first + index] = key[first + index] = g.turn(both)
    return torch.block_diag(*query), torch.block_diag(*key)


def rotated(layer, trajectory: Trajectory, width: int, heads: int) -> tuple[Tensor, Tensor]:
    query, key, value = g.content(width=width, heads=heads)
    query, key, same = layer("rotate", query, key, value, rotary(width), g.rows(trajectory))
    assert same is value
    return query, key


# -- the tests ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width, heads", [(g.HEAD, g.HEADS), (WIDE, 1)], ids=["24", "128"])
@pytest.mark.parametrize("name", METHODS)
def test_it_is_one_matrix_per_token(name, width, heads):
    layer = g.trained(METHODS[name], dim=width * heads, heads=heads)
    query, key, _ = g.content(width=width, heads=heads)
    new_query, new_key = rotated(layer, TRAJECTORY, width, heads)
    for token in range(g.TOKENS):
        for head in range(heads):
            for_query, for_key = matrices(layer, name, TRAJECTORY, token, head, width)
            torch.testing.assert_close(new_query[0, token, head], for_query @ query[0, token, head], atol=1e-9, rtol=0)
            torch.testing.assert_close(new_key[0, token, head], for_key @ key[0, token, head], atol=1e-9, rtol=0)
    assert layer.stages == {"rotate"}


@pytest.mark.parametrize("name", METHODS)
def test_gradcheck(name):
    layer, camera = g.trained(METHODS[name]), g.rows(TRAJECTORY)

    def call(stage, query, key):
        return stage("rotate", query, key, key, rotary(g.HEAD), camera)[:2]

    assert g.gradcheck_layer(layer, call, *g.content()[:2])


def test_at_the_real_width_the_slot_is_channels_24_to_43():
    assert temporal_channels(128) == (22, 24, 44)
    assert temporal_channels(64) == (12, 12, 24)
    assert temporal_channels(24) == (4, 4, 8)
    with pytest.raises(SightlineError, match="head_dim is 12, of which 2 are slow temporal channels"):
        ReRope().layer(24, 2)
    with pytest.raises(SightlineError, match="phases is 'six'"):
        FreqSplit("six")


@pytest.mark.parametrize("name", METHODS)
def test_only_the_slow_channels_differ_from_native_rope(name):
    layer = g.trained(METHODS[name], dim=WIDE, heads=1)
    query, key, value = g.content(width=WIDE, heads=1)
    absent = torch.zeros(1, g.TOKENS, 90, dtype=torch.float64)
    native = layer("rotate", query, key, value, rotary(WIDE), absent)  # tokens without a camera keep native RoPE
    for token in range(g.TOKENS):
        turn = torch.block_diag(*[g.turn(angle) for angle in angles(token, WIDE)])
        torch.testing.assert_close(native[0][0, token, 0], turn @ query[0, token, 0], atol=1e-12, rtol=0)
    for one, other in zip(rotated(layer, TRAJECTORY, WIDE, 1), native[:2], strict=True):
        changed = (one != other).any(dim=(0, 1, 2)).nonzero().flatten().tolist()
        # Latent frame 0 does not turn, so a channel counts as changed from frame 1 on.
        assert changed == list(range(22 if name == "rerope" else 24, 44))


@pytest.mark.parametrize("name", METHODS)
def test_a_rigid_motion_of_the_world_cancels_where_the_design_says_so(name):
    layer = g.trained(METHODS[name], dim=WIDE, heads=1)
    still = g.logits(*rotated(layer, TRAJECTORY, WIDE, 1))
    changes = [
        (g.logits(*rotated(layer, g.moved(TRAJECTORY, motion), WIDE, 1)) - still).abs().max() for motion in g.motions()
    ]
    if name in ("rerope", "projective"):
        assert max(changes) < 1e-9
    else:
        assert min(changes) > 0.1  # phases of world coordinates know the world


def test_the_lens_matters_to_projective_and_not_to_rerope_and_a_zoom_keeps_lengths():
    far = Trajectory(
        TRAJECTORY.camera_to_world, TRAJECTORY.intrinsics @ torch.diag(torch.tensor([3.0, 3, 1])).double(), 48, 32
    )
    for name, listens in (("rerope", False), ("projective", True)):
        layer = g.trained(METHODS[name])
        difference = [a - b for a, b in zip(rotated(layer, TRAJECTORY, 24, 2), rotated(layer, far, 24, 2), strict=True)]
        assert (max(one.abs().max() for one in difference) > 1e-3) == listens
    for matrix in unit_projection(g.rows(far)):
        torch.testing.assert_close(torch.linalg.det(matrix), torch.ones(1, g.TOKENS, dtype=torch.float64))


def test_phases_are_the_published_frequencies_in_order():
    """At 128 channels: u and v near three times, far twice; the angles twice, the closest point three times."""
    camera = g.rows(TRAJECTORY)
    near_far = camera_uv_phases(camera)
    assert near_far.shape == four_dof_phases(camera).shape == (1, g.TOKENS, 10)
    torch.testing.assert_close(near_far[..., 8:] / near_far[..., :2], torch.full_like(near_far[..., :2], 9.0))
    four = four_dof_phases(camera)
    torch.testing.assert_close(four[..., 8:] / four[..., 2:4], torch.full_like(four[..., :2], 4.71 / 0.52))
    torch.testing.assert_close(four[..., 4:6], 2 * four[..., :2])


def test_learned_phases_start_as_native_rope_and_move_from_the_first_step():
    torch.manual_seed(0)
    layer = FreqSplit("plucker").layer(g.DIM, g.HEADS).double()
    query, key, value = g.content()
    actual = layer("rotate", query, key, value, rotary(g.HEAD), g.rows(TRAJECTORY))
    native = layer("rotate", query, key, value, rotary(g.HEAD), torch.zeros(1, g.TOKENS, 90, dtype=torch.float64))
    assert torch.equal(actual[0], native[0]) and torch.equal(actual[1], native[1])
    g.logits(*actual[:2]).square().sum().backward()
    assert (layer.weight.grad.abs() > 0).all()
